//! Builds a `tokenizer.json`.
//!
//! Every tokenizer, whether trained or read from older files, is first written as the JSON that Hugging Face's library
//! reads, and then read like any other file. So there is one entry point with one set of checks.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The parts of a `tokenizer.json`. Parts that are `Null` are left out.
#[derive(Debug, Clone, Default)]
pub(super) struct TokenizerRecipe {
    pub normalizer: Value,
    pub pre_tokenizer: Value,
    pub model: Value,
    pub post_processor: Value,
    pub decoder: Value,
    /// Special tokens and their ids.
    pub special: Vec<(String, u32)>,
    /// Other tokens outside the vocabulary, and their ids.
    pub added: Vec<(String, u32)>,
}

impl TokenizerRecipe {
    pub fn to_json(&self) -> String {
        let special = self.special.iter().map(|(piece, id)| (*id, added(piece, *id, true)));
        let other = self.added.iter().map(|(piece, id)| (*id, added(piece, *id, false)));
        // The library assigns ids to added tokens in this order and ignores the given ones.
        let mut added: Vec<(u32, Value)> = special.chain(other).collect();
        added.sort_by_key(|(id, _)| *id);
        let added: Vec<Value> = added.into_iter().map(|(_, piece)| piece).collect();
        json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": added,
            "normalizer": self.normalizer,
            "pre_tokenizer": self.pre_tokenizer,
            "post_processor": self.post_processor,
            "decoder": self.decoder,
            "model": self.model,
        })
        .to_string()
    }

    /// The same recipe with added tokens, by id, special or not.
    pub fn with_added(mut self, added: BTreeMap<u32, (String, bool)>) -> Self {
        for (id, (piece, special)) in added {
            let known =
                self.special.iter().chain(&self.added).any(|(other, taken)| *other == piece || *taken == id);
            if !known {
                if special { &mut self.special } else { &mut self.added }.push((piece, id));
            }
        }
        self
    }
}

fn added(piece: &str, id: u32, special: bool) -> Value {
    // Only RoBERTa's `<mask>` includes the space before it; see `files`.
    json!({
        "id": id, "content": piece, "special": special, "normalized": false,
        "single_word": false, "lstrip": piece == "<mask>", "rstrip": false,
    })
}

/// A word-level model with ids in the order of the words.
pub(super) fn word_level(pieces: &[String], unknown: &str) -> Value {
    json!({ "type": "WordLevel", "vocab": numbered(pieces), "unk_token": unknown })
}

/// BERT's WordPiece model.
pub(super) fn word_piece(vocabulary: Map<String, Value>) -> Value {
    json!({
        "type": "WordPiece", "vocab": Value::Object(vocabulary), "unk_token": "[UNK]",
        "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
    })
}

/// Each token with its index as id.
pub(super) fn numbered(pieces: &[String]) -> Value {
    Value::Object(pieces.iter().enumerate().map(|(id, piece)| (piece.clone(), json!(id))).collect())
}

/// GPT-2's byte-level pre-tokenizer: texts are split by its pattern, and every byte is written as a visible character.
pub(super) fn byte_level() -> Value {
    json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true })
}

/// BERT's normalizer.
pub(super) fn bert_normalizer(lowercase: bool, strip_accents: Option<bool>, chinese: bool) -> Value {
    json!({
        "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": chinese,
        "strip_accents": strip_accents, "lowercase": lowercase,
    })
}

/// BERT's template, `[CLS] A [SEP] B [SEP]`.
pub(super) fn bert_frame(cls: u32, sep: u32) -> Value {
    let special = |piece: &str, segment: u32| json!({ "SpecialToken": { "id": piece, "type_id": segment } });
    let text = |name: &str, segment: u32| json!({ "Sequence": { "id": name, "type_id": segment } });
    let token = |piece: &str, id: u32| json!({ "id": piece, "ids": [id], "tokens": [piece] });
    json!({
        "type": "TemplateProcessing",
        "single": [special("[CLS]", 0), text("A", 0), special("[SEP]", 0)],
        "pair": [special("[CLS]", 0), text("A", 0), special("[SEP]", 0), text("B", 1), special("[SEP]", 1)],
        "special_tokens": { "[CLS]": token("[CLS]", cls), "[SEP]": token("[SEP]", sep) },
    })
}

/// A template with a token after every text, as in T5.
pub(super) fn ending(piece: &str, id: u32) -> Value {
    let end = json!({ "SpecialToken": { "id": piece, "type_id": 0 } });
    let text = |name: &str| json!({ "Sequence": { "id": name, "type_id": 0 } });
    json!({
        "type": "TemplateProcessing",
        "single": [text("A"), end],
        "pair": [text("A"), end, text("B"), end],
        "special_tokens": { piece: { "id": piece, "ids": [id], "tokens": [piece] } },
    })
}
