//! Vocabularies of whole words.

use super::recipe::{TokenizerRecipe, word_level};
use super::{Tokenizer, count, files};
use crate::error::{Error, Result};
use serde_json::{Value, json};

/// What becomes of characters that belong to no word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Punctuation {
    /// They are left out.
    Dropped,
    /// Each is a word of its own.
    Separate,
}

/// Settings of [`Tokenizer::words`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordSettings {
    /// The largest size of the vocabulary, `<PAD>` and `<UNK>` counted. The most frequent words get in.
    pub maximum: usize,
    /// How often a word must occur to get in.
    pub minimum_count: u64,
    /// Whether capital letters are made small.
    pub lowercase: bool,
    /// What becomes of punctuation.
    pub punctuation: Punctuation,
    /// Whether there is a third special piece, `<MASK>`, for words that a model is to guess.
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
    /// The largest size of the vocabulary, `<unk>` and `<eos>` counted.
    pub maximum: usize,
    /// How often a word must occur to get in.
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
    /// A vocabulary of the most frequent words: `<PAD>` is 0, `<UNK>` is 1, then words by falling count, ties in
    /// alphabetical order.
    ///
    /// A word is a longest run of Unicode letters, marks and digits, in which single apostrophes may stand between two
    /// of these: `isn't` and `d'Artagnan` are one word, `well-acted` is two, `'quoted'` is `quoted`, and `3.5` is two. A
    /// typographic apostrophe (’) counts as a plain one. All other characters are
    /// [dropped or separate](WordSettings::punctuation).
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
            // Inverted: what matches is kept, what lies between is removed.
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

    /// A vocabulary of words as white space separates them, nothing changed, for text that is cut into words already
    /// (WikiText): `<unk>` is 0, `<eos>` is 1 and stands for every line's end, then words by falling count.
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

/// Which of the first pieces are special. `<unk>` of WikiText is a word of the text like others.
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
        let problem = format!("a vocabulary of at most {maximum} has no room for words beside {first:?}");
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
            "no words to learn from: the texts have {distinct}, and none of them occurs {minimum_count} times"
        );
        return Err(Error::data("tokenizer", problem));
    }
    pieces.truncate(maximum);
    let unknown = if role == Role::All { first[1] } else { first[0] };
    let skipped = usize::from(role != Role::All);
    let special = first.iter().zip(0..).skip(skipped).map(|(piece, id)| ((*piece).to_owned(), id)).collect();
    // Words are written with a space between them, which is what no decoder means.
    let recipe =
        TokenizerRecipe { model: word_level(&pieces, unknown), decoder: Value::Null, special, ..recipe };
    files::assemble(&recipe)
}
