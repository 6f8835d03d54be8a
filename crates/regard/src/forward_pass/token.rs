//! One token as it is displayed.

use anyhow::Result;
use regard_nn::tokens::{Encoding, Special, Tokenizer};
use serde::Serialize;
use std::ops::Range;

/// A token of a text, or a patch of a picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Token {
    /// Its id; patches have their number.
    pub id: u32,
    /// The part of the text that it stands for, or its name.
    pub text: String,
    /// Whether it is special, such as `[CLS]`.
    pub special: bool,
    /// The number of the word it is part of. Pieces of one word stand side by side.
    pub word: usize,
}

impl Token {
    /// The tokens of an encoded text, or of two.
    pub fn of_encoding(encoding: &Encoding, texts: [&str; 2]) -> Vec<Self> {
        let mut tokens: Vec<Self> = Vec::with_capacity(encoding.len());
        let mut last = None;
        let mut word = 0;
        for (i, &id) in encoding.ids.iter().enumerate() {
            let of = encoding.texts[i].and_then(|text| texts.get(text)).copied().unwrap_or_default();
            // Added pieces are words of their own.
            let here = encoding.words[i].map(|word| (encoding.texts[i], word));
            // What a tokenizer calls a word may be a whole text.
            let goes_on = i > 0
                && here.is_some()
                && here == last
                && meet(of, &encoding.offsets[i - 1], &encoding.offsets[i]);
            if i > 0 && !goes_on {
                word += 1;
            }
            last = here;
            let special = encoding.special[i];
            let text = of.get(encoding.offsets[i].clone()).filter(|_| !special).unwrap_or_default();
            tokens.push(Self { id, text: visible(text, &encoding.pieces[i]), special, word });
        }
        tokens
    }

    /// A generated token that comes after others.
    pub fn after(before: &[Self], id: u32, tokenizer: Option<&Tokenizer>) -> Result<Self> {
        let number = before.last().map_or(0, |last| last.word + 1);
        let Some(tokenizer) = tokenizer else {
            return Ok(Self { id, text: id.to_string(), special: false, word: number });
        };
        let special = tokenizer.is_special(id);
        let text = spell(tokenizer, before.last().map(|last| last.id), id)?;
        // Most tokenizers put the space at the beginning of a word; punctuation is no part of a word either.
        let glued = before.last().filter(|last| !last.special && !special).is_some_and(|last| {
            text.starts_with(char::is_alphanumeric) && last.text.ends_with(char::is_alphanumeric)
        });
        let word = if glued { number - 1 } else { number };
        let piece = tokenizer.piece(id).unwrap_or_else(|| id.to_string());
        Ok(Self { id, text: visible(if special { "" } else { &text }, &piece), special, word })
    }
}

/// What is shown of a token: its part of the text, the vocabulary's name where there is nothing to see in that, a sign where
/// there is nothing to see in both.
pub(super) fn visible(text: &str, piece: &str) -> String {
    match (text.trim(), piece.trim()) {
        ("", "") if piece.contains('\n') => "⏎".to_owned(),
        ("", "") => "␣".to_owned(),
        ("", piece) => piece.to_owned(),
        (text, _) => text.to_owned(),
    }
}

/// Whether letters or digits touch where one part of a text ends and the next begins. Pieces of one character have the same
/// part.
pub fn meet(text: &str, before: &Range<usize>, after: &Range<usize>) -> bool {
    let part = |range: &Range<usize>| text.get(range.clone()).unwrap_or_default();
    let both =
        part(before).ends_with(char::is_alphanumeric) && part(after).starts_with(char::is_alphanumeric);
    (before.end == after.start && both) || (before == after && !before.is_empty())
}

/// What a token adds to the text when it comes after another, spaces included.
pub fn spell(tokenizer: &Tokenizer, before: Option<u32>, id: u32) -> Result<String> {
    let alone = tokenizer.decode(&[id], Special::Keep)?;
    let Some(before) = before else { return Ok(alone) };
    let first = tokenizer.decode(&[before], Special::Keep)?;
    let both = tokenizer.decode(&[before, id], Special::Keep)?;
    Ok(both.strip_prefix(&first).map_or(alone, str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_where_letters_do_not_meet() {
        // As a tokenizer has it that knows no words: one for the whole text.
        let text = "Once upon, a boy é";
        let parts = [0..4, 4..7, 7..9, 9..10, 10..12, 12..14, 14..16, 16..17, 17..19, 17..19];
        let encoding = Encoding {
            ids: vec![5; parts.len()],
            pieces: vec!["?".to_owned(); parts.len()],
            words: vec![Some(0); parts.len()],
            texts: vec![Some(0); parts.len()],
            special: vec![false; parts.len()],
            types: vec![0; parts.len()],
            offsets: parts.to_vec(),
        };
        let tokens = Token::of_encoding(&encoding, [text, ""]);
        let words: Vec<usize> = tokens.iter().map(|token| token.word).collect();
        assert_eq!(words, [0, 1, 1, 2, 3, 4, 4, 5, 6, 6], "{tokens:?}");
    }

    #[test]
    fn there_is_always_something_to_see() {
        let shown = [visible(" a ", "Ġa"), visible(" ", "Ġ"), visible(" ", " "), visible("", "\n")];
        assert_eq!(shown, ["a", "Ġ", "␣", "⏎"]);
    }
}
