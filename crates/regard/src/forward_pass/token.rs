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

/// A token with what its text alone does not show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownToken {
    /// Its id; patches have their number.
    pub id: u32,
    /// Its text with the space that it begins with; of a part of a character, the character and its bytes.
    pub text: String,
    /// Whether it is special.
    pub special: bool,
    /// The number of the word it is part of.
    pub word: usize,
    /// The character of which it is a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_of: Option<String>,
    /// What the model reads instead of a word that is not in the vocabulary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

impl ShownToken {
    /// Tokens as a page shows them. The vocabularies of byte pairs and of SentencePiece write the space before a word into
    /// its token; bytes of one character follow one another with the same text.
    pub fn all(tokens: &[Token], tokenizer: Option<&Tokenizer>) -> Vec<Self> {
        let shown = |(i, token): (usize, &Token)| {
            let Token { id, text, special, word } = token.clone();
            let piece = tokenizer.and_then(|tokenizer| tokenizer.piece(id)).unwrap_or_default();
            let unknown = tokenizer.is_some_and(|tokenizer| is_unknown(token, tokenizer));
            let unknown = unknown.then(|| piece.clone());
            let same = |other: Option<&Token>| {
                other.is_some_and(|other| other.word == word && other.text == text && !other.special)
            };
            let before = i.checked_sub(1).and_then(|before| tokens.get(before));
            let one = text.chars().count() == 1 && !text.is_ascii();
            let named =
                bytes(&piece).filter(|_| one && !special && (same(before) || same(tokens.get(i + 1))));
            match named {
                Some(bytes) => {
                    Self { id, text: format!("{text} {bytes}"), special, word, part_of: Some(text), unknown }
                }
                None => {
                    let spaced = piece.starts_with([' ', 'Ġ', '▁']) && !special && !text.starts_with('␣');
                    let text = if spaced { format!(" {text}") } else { text };
                    Self { id, text, special, word, part_of: None, unknown }
                }
            }
        };
        tokens.iter().enumerate().map(shown).collect()
    }
}

/// Whether a token stands for a word that is not in the vocabulary.
pub(super) fn is_unknown(token: &Token, tokenizer: &Tokenizer) -> bool {
    !token.special && tokenizer.special().unknown == Some(token.id)
}

/// What is shown of a token: its part of the text; where there is nothing to see in that, spaces, line ends and bytes by
/// signs of their own, else the vocabulary's name.
pub(super) fn visible(text: &str, piece: &str) -> String {
    let shown = text.trim();
    if shown.contains('\u{fffd}')
        && let Some(bytes) = bytes(piece)
    {
        return bytes;
    }
    match (shown, piece.trim()) {
        ("", _) if !piece.is_empty() && piece.chars().all(|c| sign(c).is_some()) => {
            piece.chars().filter_map(sign).collect()
        }
        ("", "") => "␣".to_owned(),
        ("", piece) => piece.to_owned(),
        (shown, _) => shown.to_owned(),
    }
}

/// The sign of a character without a shape of its own, as it is or as the vocabulary of byte pairs writes it.
fn sign(character: char) -> Option<char> {
    match character {
        ' ' | 'Ġ' | '▁' => Some('␣'),
        '\n' | 'Ċ' => Some('⏎'),
        '\r' | 'č' => Some('␍'),
        '\t' | 'ĉ' => Some('⇥'),
        _ => None,
    }
}

/// The bytes of a piece of a vocabulary of bytes, such as `E2 82`; none if it is no such piece.
fn bytes(piece: &str) -> Option<String> {
    if let Some(byte) = piece.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>')) {
        return Some(byte.to_owned());
    }
    let names: Option<Vec<String>> = piece.chars().map(|c| Some(format!("{:02X}", byte_of(c)?))).collect();
    names.filter(|names| !names.is_empty()).map(|names| names.join(" "))
}

/// The byte that a character of GPT-2's alphabet of bytes stands for: itself where it can be seen, the others in order from
/// 256 on.
fn byte_of(character: char) -> Option<u8> {
    let seen = |byte: u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    match u32::from(character) {
        code @ 0..=255 => Some(code as u8).filter(|&byte| seen(byte)),
        code => (0..=255).filter(|&byte| !seen(byte)).nth(code as usize - 256),
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
    fn bytes_have_the_names_of_gpt_2() {
        // The euro sign as GPT-2 writes it: the bytes E2, 82 and AC.
        assert_eq!(bytes("âĤ¬").unwrap(), "E2 82 AC");
        assert_eq!((bytes("<0x0A>").unwrap().as_str(), bytes("猫")), ("0A", None));
        assert_eq!((byte_of('Ġ'), byte_of('Ċ'), byte_of('ŀ')), (Some(32), Some(10), Some(158)));
        assert_eq!((byte_of(' '), byte_of('\u{144}')), (None, None));
    }

    #[test]
    fn there_is_always_something_to_see() {
        let shown = [visible(" a ", "Ġa"), visible("a", "▁a"), visible(" ", "Ġ"), visible(" ", " ")];
        assert_eq!(shown, ["a", "a", "␣", "␣"]);
        let signs =
            [visible("", "\n"), visible("\n\n", "ĊĊ"), visible("", "[SEP]"), visible("\u{fffd}", "â")];
        assert_eq!(signs, ["⏎", "⏎⏎", "[SEP]", "E2"]);
    }
}
