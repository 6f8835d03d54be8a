//! Special tokens by role.

use std::collections::BTreeMap;
use tokenizers::ModelWrapper;

/// The ids of special tokens by role; `None` if the tokenizer has no such token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpecialIds {
    /// Padding.
    pub pad: Option<u32>,
    /// Stands for words outside the vocabulary.
    pub unknown: Option<u32>,
    /// Replaces a word that a masked language model predicts.
    pub mask: Option<u32>,
    /// Precedes a text for classification.
    pub cls: Option<u32>,
    /// Ends or separates texts.
    pub sep: Option<u32>,
    /// Begins a text.
    pub bos: Option<u32>,
    /// Ends a text.
    pub eos: Option<u32>,
}

/// The key of each role in Hugging Face's `tokenizer_config.json`, and the usual spellings to try without one.
const ROLES: [(&str, &[&str]); 7] = [
    ("pad_token", &["<PAD>", "[PAD]", "<pad>"]),
    ("unk_token", &["<UNK>", "[UNK]", "<unk>"]),
    ("mask_token", &["[MASK]", "<mask>", "<MASK>"]),
    ("cls_token", &["[CLS]", "<s>"]),
    ("sep_token", &["[SEP]", "</s>"]),
    ("bos_token", &["<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"]),
    ("eos_token", &["</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>", "<|im_end|>"]),
];

impl SpecialIds {
    /// Finds each role: the token that `roles` names, the model's own unknown token, or one of the usual spellings.
    pub(super) fn find(tokenizer: &tokenizers::Tokenizer, roles: &BTreeMap<String, String>) -> Self {
        let own = match tokenizer.get_model() {
            ModelWrapper::WordLevel(model) => Some(model.unk_token.clone()),
            ModelWrapper::WordPiece(model) => Some(model.unk_token.clone()),
            ModelWrapper::BPE(model) => model.unk_token.clone(),
            ModelWrapper::Unigram(_) => None,
        };
        let ids = ROLES.map(|(role, spellings)| {
            let named = roles.get(role).and_then(|piece| tokenizer.token_to_id(piece));
            let own =
                own.as_ref().filter(|_| role == "unk_token").and_then(|piece| tokenizer.token_to_id(piece));
            named.or(own).or_else(|| spellings.iter().find_map(|piece| tokenizer.token_to_id(piece)))
        });
        let [pad, unknown, mask, cls, sep, bos, eos] = ids;
        // `<s>` and `</s>` have the roles of `[CLS]` and `[SEP]` only if there is also a mask token.
        let framed = |id: Option<u32>, role: &str, own: &str| {
            id.filter(|&id| {
                mask.is_some() || roles.contains_key(role) || tokenizer.token_to_id(own) == Some(id)
            })
        };
        Self {
            pad,
            unknown,
            mask,
            cls: framed(cls, "cls_token", "[CLS]"),
            sep: framed(sep, "sep_token", "[SEP]"),
            bos,
            eos,
        }
    }

    /// The roles that have a token, with the keys of `tokenizer_config.json`.
    pub(super) fn roles(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let ids = [self.pad, self.unknown, self.mask, self.cls, self.sep, self.bos, self.eos];
        ROLES.iter().zip(ids).filter_map(|(&(role, _), id)| id.map(|id| (role, id)))
    }

    pub(super) fn keys() -> impl Iterator<Item = &'static str> {
        ROLES.iter().map(|&(role, _)| role)
    }
}
