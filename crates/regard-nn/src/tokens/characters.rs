//! Character-level vocabularies.

use super::recipe::{TokenizerRecipe, word_level};
use super::{Tokenizer, files};
use crate::error::{Error, Result};
use serde_json::json;
use std::collections::BTreeSet;

/// How characters outside the vocabulary are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum UnknownCharacter {
    /// As an error that names the character, so that encoding loses nothing.
    Error,
    /// As the token `<UNK>` with id 0.
    Piece,
}

impl Tokenizer {
    /// A vocabulary of all characters in the texts, in the order of Unicode.
    pub fn characters<T: AsRef<str>>(
        texts: impl IntoIterator<Item = T>,
        unknown: UnknownCharacter,
    ) -> Result<Self> {
        let mut found = BTreeSet::new();
        for text in texts {
            found.extend(text.as_ref().chars());
        }
        if found.is_empty() {
            return Err(Error::data("tokenizer", "no characters to learn from: the texts are empty"));
        }
        let mut pieces: Vec<String> = found.into_iter().map(String::from).collect();
        if unknown == UnknownCharacter::Piece {
            pieces.insert(0, "<UNK>".to_owned());
        }
        files::assemble(&TokenizerRecipe {
            // `.` does not match line ends, and the option for it differs between regular-expression libraries.
            pre_tokenizer: json!({
                "type": "Split", "pattern": { "Regex": r"[\s\S]" }, "behavior": "Isolated", "invert": false
            }),
            model: word_level(&pieces, "<UNK>"),
            decoder: json!({ "type": "Fuse" }),
            // `<UNK>` is not declared special, so these five characters in a text remain five characters.
            ..TokenizerRecipe::default()
        })
    }
}
