//! Subword vocabularies (BPE and WordPiece), trained by Hugging Face's trainers.
//!
//! Byte-level BPE (Sennrich et al., 2016; Radford et al., 2019) starts from the 256 bytes and repeatedly merges the most
//! frequent pair of neighbours into a new token. BERT's WordPiece (Devlin et al., 2019) starts from characters and marks
//! those inside a word with `##`; here it is trained by the same merges.

use super::count::{self, Counts};
use super::recipe::{self, TokenizerRecipe};
use super::{Tokenizer, files, guarded};
use crate::error::{Error, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Model};

/// Settings of [`Tokenizer::byte_pairs`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BytePairSettings {
    /// The size of the vocabulary: special tokens, 256 bytes, and merged pairs.
    pub size: usize,
    /// How often a pair must occur to be merged.
    pub minimum_count: u64,
    /// Special tokens, which get the first ids in this order.
    pub special: Vec<String>,
    /// A special token to add after every text, as T5 does with `</s>`.
    pub end: Option<String>,
}

impl Default for BytePairSettings {
    fn default() -> Self {
        Self { size: 8_000, minimum_count: 2, special: vec!["<|endoftext|>".to_owned()], end: None }
    }
}

/// Settings of [`Tokenizer::word_pieces`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordPieceSettings {
    /// The size of the vocabulary, including the five special tokens and the characters.
    pub size: usize,
    /// How often a pair must occur to be merged.
    pub minimum_count: u64,
    /// Whether text is lower-cased and accents removed, as in BERT's uncased models.
    pub lowercase: bool,
    /// The number of characters in the vocabulary, the most frequent ones; words with others become `[UNK]`.
    pub alphabet: usize,
}

impl Default for WordPieceSettings {
    fn default() -> Self {
        Self { size: 8_000, minimum_count: 2, lowercase: true, alphabet: 1_000 }
    }
}

/// BERT's special tokens, in the order of their ids here.
const BERT: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

impl Tokenizer {
    /// Byte-level BPE as in GPT-2: no text is unknown, and decoding restores every byte.
    pub fn byte_pairs<T: AsRef<str>>(
        texts: impl IntoIterator<Item = T>,
        settings: &BytePairSettings,
    ) -> Result<Self> {
        if let Some(end) = settings.end.as_ref().filter(|end| !settings.special.contains(end)) {
            return Err(Error::data(
                "tokenizer",
                format!("the end token {end:?} is not one of the special tokens"),
            ));
        }
        let recipe = TokenizerRecipe {
            pre_tokenizer: recipe::byte_level(),
            decoder: recipe::byte_level(),
            ..TokenizerRecipe::default()
        };
        let counts = count::words(texts, &recipe)?;
        let bytes: BTreeSet<char> = ByteLevel::alphabet().into_iter().collect();
        let first: Vec<String> =
            settings.special.iter().cloned().chain(bytes.into_iter().map(String::from)).collect();
        let sizes = Sizes { wanted: settings.size, minimum_count: settings.minimum_count };
        let model = train(counts, &first, None, sizes)?;
        let special = with_ids(&model, settings.special.iter().map(String::as_str))?;
        let post_processor = match &settings.end {
            Some(end) => recipe::ending(end, model.token_to_id(end).unwrap_or_default()),
            None => Value::Null,
        };
        let model = serde_json::to_value(&model).map_err(|problem| Error::data("tokenizer", problem))?;
        files::assemble(&TokenizerRecipe { model, post_processor, special, ..recipe })
    }

    /// WordPiece as in BERT, with `[PAD]` 0, `[UNK]` 1, `[CLS]` 2, `[SEP]` 3 and `[MASK]` 4.
    pub fn word_pieces<T: AsRef<str>>(
        texts: impl IntoIterator<Item = T>,
        settings: &WordPieceSettings,
    ) -> Result<Self> {
        let recipe = TokenizerRecipe {
            normalizer: recipe::bert_normalizer(settings.lowercase, None, true),
            pre_tokenizer: json!({ "type": "BertPreTokenizer" }),
            decoder: json!({ "type": "WordPiece", "prefix": "##", "cleanup": true }),
            ..TokenizerRecipe::default()
        };
        let mut counts = count::words(texts, &recipe)?;
        let alphabet = alphabet(&counts, settings.alphabet);
        counts.retain(|word, _| word.chars().all(|c| alphabet.contains(&c)));
        // The trainer would number `##` characters in the order of a hash table; listed up front, their order is fixed.
        let inside: BTreeSet<char> = counts.keys().flat_map(|word| word.chars().skip(1)).collect();
        let first: Vec<String> = BERT
            .iter()
            .map(ToString::to_string)
            .chain(alphabet.iter().map(char::to_string))
            .chain(inside.iter().map(|c| format!("##{c}")))
            .collect();
        let sizes = Sizes { wanted: settings.size, minimum_count: settings.minimum_count };
        let model = train(counts, &first, Some("##"), sizes)?;
        let special = with_ids(&model, BERT)?;
        let post_processor = recipe::bert_frame(special[2].1, special[3].1);
        let vocabulary = model.get_vocab().into_iter().map(|(piece, id)| (piece, json!(id))).collect();
        let model = recipe::word_piece(vocabulary);
        files::assemble(&TokenizerRecipe { model, post_processor, special, ..recipe })
    }
}

#[derive(Clone, Copy)]
struct Sizes {
    wanted: usize,
    minimum_count: u64,
}

/// Merges pairs until the vocabulary has the requested size.
fn train(counts: Counts, first: &[String], prefix: Option<&str>, sizes: Sizes) -> Result<BPE> {
    let Sizes { wanted, minimum_count } = sizes;
    if counts.is_empty() {
        return Err(Error::data("tokenizer", "no words to learn from: the texts are empty"));
    }
    if wanted < first.len() {
        let problem = format!(
            "a vocabulary of {wanted} is too small for the {} special tokens and single characters",
            first.len()
        );
        return Err(Error::data("tokenizer", problem));
    }
    let mut builder = BpeTrainer::builder()
        .show_progress(false)
        .min_frequency(minimum_count)
        .vocab_size(wanted)
        .special_tokens(first.iter().map(|piece| AddedToken::from(piece.as_str(), true)).collect());
    if let Some(prefix) = prefix {
        builder = builder.continuing_subword_prefix(prefix.to_owned());
    }
    let trainer = builder.build();
    let scale = scale(&counts);
    let counts = counts.into_iter().map(|(word, count)| (word.into(), count.div_ceil(scale))).collect();
    let mut model = BPE::default();
    guarded("training", || trainer.do_train(&counts, &mut model))?;
    let reached = model.get_vocab_size();
    if reached < wanted {
        let problem = format!(
            "a vocabulary of {wanted} is larger than the texts can give: {reached} pieces, with every pair joined that \
             occurs at least {minimum_count} times"
        );
        return Err(Error::data("tokenizer", problem));
    }
    Ok(model)
}

/// The divisor of the counts. The trainer adds up pairs in 32 bits, so counts of larger corpora are scaled down.
fn scale(counts: &Counts) -> u64 {
    let pairs: u64 = counts
        .iter()
        .fold(0, |sum, (word, &count)| sum.saturating_add(count.saturating_mul(word.chars().count() as u64)));
    pairs.div_ceil(1 << 30).max(1)
}

/// The most frequent characters, ties in the order of Unicode.
fn alphabet(counts: &Counts, limit: usize) -> BTreeSet<char> {
    let mut characters: BTreeMap<char, u64> = BTreeMap::new();
    for (word, count) in counts {
        for c in word.chars() {
            *characters.entry(c).or_default() += count;
        }
    }
    let mut characters: Vec<(char, u64)> = characters.into_iter().collect();
    characters.sort_by_key(|&(c, count)| (std::cmp::Reverse(count), c));
    characters.into_iter().take(limit).map(|(c, _)| c).collect()
}

fn with_ids<'p>(model: &BPE, pieces: impl IntoIterator<Item = &'p str>) -> Result<Vec<(String, u32)>> {
    pieces
        .into_iter()
        .map(|piece| match model.token_to_id(piece) {
            Some(id) => Ok((piece.to_owned(), id)),
            None => Err(Error::data("tokenizer", format!("training lost the special token {piece:?}"))),
        })
        .collect()
}
