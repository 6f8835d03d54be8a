//! One token as people see it.

use anyhow::Result;
use saccade::tokens::{Encoding, Special, Tokenizer};
use serde::Serialize;

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
            // Added pieces are words of their own.
            let here = encoding.words[i].map(|word| (encoding.texts[i], word));
            if i > 0 && (here.is_none() || here != last) {
                word += 1;
            }
            last = here;
            let of = encoding.texts[i].and_then(|text| texts.get(text)).copied().unwrap_or_default();
            let text = of.get(encoding.offsets[i].clone()).filter(|text| !text.trim().is_empty());
            let special = encoding.special[i];
            let text = if special { &encoding.pieces[i] } else { text.unwrap_or(&encoding.pieces[i]) };
            tokens.push(Self { id, text: text.trim().to_owned(), special, word });
        }
        tokens
    }

    /// A token that comes after others, as a model says it.
    pub fn after(before: &[Self], id: u32, tokenizer: Option<&Tokenizer>) -> Result<Self> {
        let number = before.last().map_or(0, |last| last.word + 1);
        let Some(tokenizer) = tokenizer else {
            return Ok(Self { id, text: id.to_string(), special: false, word: number });
        };
        let special = tokenizer.is_special(id);
        let text = spell(tokenizer, before.last().map(|last| last.id), id)?;
        // Most tokenizers put the space at the beginning of a word; punctuation is no part of a word either.
        let glued = before.last().filter(|last| !last.special && !special).is_some_and(|last| {
            let letter = |c: char| c.is_alphanumeric() || c == '\'';
            text.starts_with(letter) && last.text.ends_with(letter)
        });
        let word = if glued { number - 1 } else { number };
        Ok(Self { id, text: text.trim().to_owned(), special, word }.named(tokenizer))
    }

    /// The same, with the vocabulary's name where there is nothing to see.
    fn named(mut self, tokenizer: &Tokenizer) -> Self {
        if self.text.is_empty() || self.special {
            self.text = tokenizer.piece(self.id).unwrap_or_else(|| self.id.to_string());
        }
        self
    }
}

/// What a token adds to the text when it comes after another, spaces included.
pub fn spell(tokenizer: &Tokenizer, before: Option<u32>, id: u32) -> Result<String> {
    let alone = tokenizer.decode(&[id], Special::Keep)?;
    let Some(before) = before else { return Ok(alone) };
    let first = tokenizer.decode(&[before], Special::Keep)?;
    let both = tokenizer.decode(&[before, id], Special::Keep)?;
    Ok(both.strip_prefix(&first).map_or(alone, str::to_owned))
}
