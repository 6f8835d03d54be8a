//! Word-level vocabularies.

use super::recipe::{TokenizerRecipe, word_level};
use super::{Tokenizer, count, files};
use crate::error::{Error, Result};
use serde_json::{Value, json};

/// How characters outside words are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Punctuation {
    /// They are dropped.
    Dropped,
    /// Each becomes a token of its own.
    Separate,
}

/// Settings of [`Tokenizer::words`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordSettings {
    /// The maximum size of the vocabulary, including `<PAD>` and `<UNK>`. The most frequent words are kept.
    pub maximum: usize,
    /// How often a word must occur to be kept.
    pub minimum_count: u64,
    /// Whether text is lower-cased.
    pub lowercase: bool,
    /// How punctuation is treated.
    pub punctuation: Punctuation,
    /// Whether there is a third special token, `<MASK>`, for masked language models.
    pub mask: bool,
}

impl Default for WordSettings {
    fn default() -> Self {
        Self {
            maximum: 10_000,
            minimum_count: 1,
            lowercase: true,
            punctuation: Punctuation::Dropped,
            mask: false,
        }
    }
}

/// Settings of [`Tokenizer::whitespace_words`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhitespaceSettings {
    /// The maximum size of the vocabulary, including `<unk>` and `<eos>`.
    pub maximum: usize,
    /// How often a word must occur to be kept.
    pub minimum_count: u64,
}

impl Default for WhitespaceSettings {
    fn default() -> Self {
        Self { maximum: 1_000_000, minimum_count: 1 }
    }
}

/// A word: letters, marks and digits, with single apostrophes inside.
const WORD: &str = r"[\p{L}\p{M}\p{N}]+(?:'[\p{L}\p{M}\p{N}]+)*";

/// Anything else that is not white space.
const OTHER: &str = r"[^\s\p{L}\p{M}\p{N}]";

impl Tokenizer {
    /// A vocabulary of the most frequent words: `<PAD>` is 0, `<UNK>` is 1, then words by decreasing count, ties in
    /// alphabetical order.
    ///
    /// A word is a maximal run of Unicode letters, marks and digits, with single apostrophes allowed between them: `isn't`
    /// and `d'Artagnan` are one word, `well-acted` is two, `'quoted'` is `quoted`, and `3.5` is two. A typographic
    /// apostrophe (’) counts as a plain one. All other characters are [dropped or separate](WordSettings::punctuation).
    pub fn words<T: AsRef<str>>(texts: impl IntoIterator<Item = T>, settings: &WordSettings) -> Result<Self> {
        let mut normalizers =
            vec![json!({ "type": "Replace", "pattern": { "String": "’" }, "content": "'" })];
        if settings.lowercase {
            normalizers.insert(0, json!({ "type": "Lowercase" }));
        }
        let pattern = match settings.punctuation {
            Punctuation::Dropped => WORD.to_owned(),
            Punctuation::Separate => format!("{WORD}|{OTHER}"),
        };
        let recipe = TokenizerRecipe {
            normalizer: json!({ "type": "Sequence", "normalizers": normalizers }),
            // Inverted: matches are kept, and the text between them is removed.
            pre_tokenizer: json!({
                "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Removed", "invert": true
            }),
            ..TokenizerRecipe::default()
        };
        let limits = (settings.maximum, settings.minimum_count);
        let first = ["<PAD>", "<UNK>", "<MASK>"];
        let first = if settings.mask { &first[..] } else { &first[..2] };
        vocabulary(texts, recipe, first, limits, Role::All)
    }

    /// A vocabulary of words separated by white space, unchanged, for text that is already tokenized (WikiText): `<unk>` is
    /// 0, `<eos>` is 1 and stands for every line end, then words by decreasing count.
    pub fn whitespace_words<T: AsRef<str>>(
        texts: impl IntoIterator<Item = T>,
        settings: &WhitespaceSettings,
    ) -> Result<Self> {
        let recipe = TokenizerRecipe {
            normalizer: json!({ "type": "Replace", "pattern": { "String": "\n" }, "content": " <eos> " }),
            pre_tokenizer: json!({ "type": "WhitespaceSplit" }),
            ..TokenizerRecipe::default()
        };
        let limits = (settings.maximum, settings.minimum_count);
        vocabulary(texts, recipe, &["<unk>", "<eos>"], limits, Role::Second)
    }
}

/// Which of the first tokens are special. `<unk>` of WikiText is an ordinary word of the text.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    All,
    Second,
}

fn vocabulary<T: AsRef<str>>(
    texts: impl IntoIterator<Item = T>,
    recipe: TokenizerRecipe,
    first: &[&str],
    (maximum, minimum_count): (usize, u64),
    role: Role,
) -> Result<Tokenizer> {
    if maximum <= first.len() {
        let problem = format!("a vocabulary of at most {maximum} has no room for words besides {first:?}");
        return Err(Error::data("tokenizer", problem));
    }
    let counts = count::words(texts, &recipe)?;
    let distinct = counts.keys().filter(|word| !first.contains(&word.as_str())).count();
    let mut pieces: Vec<String> = first.iter().map(ToString::to_string).collect();
    pieces.extend(
        count::most_frequent(counts, minimum_count)
            .into_iter()
            .filter(|word| !first.contains(&word.as_str())),
    );
    if pieces.len() == first.len() {
        let problem = format!(
            "no words to learn from: the texts have {distinct} words, and none occurs {minimum_count} times"
        );
        return Err(Error::data("tokenizer", problem));
    }
    pieces.truncate(maximum);
    let unknown = if role == Role::All { first[1] } else { first[0] };
    let skipped = usize::from(role != Role::All);
    let special = first.iter().zip(0..).skip(skipped).map(|(piece, id)| ((*piece).to_owned(), id)).collect();
    // Without a decoder, words are joined by spaces.
    let recipe =
        TokenizerRecipe { model: word_level(&pieces, unknown), decoder: Value::Null, special, ..recipe };
    files::assemble(&recipe)
}
