//! An encoded text: ids, and the part of the text that each stands for.

use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::ops::Range;

/// Which end of a truncated text is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// The beginning.
    First,
    /// The end.
    Last,
}

/// The tokens of a text or of a pair of texts. Every field has one entry per token.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Encoding {
    /// Their ids.
    pub ids: Vec<u32>,
    /// The tokens, spelled as in the vocabulary.
    pub pieces: Vec<String>,
    /// The byte range of each token in the original text; empty for tokens that stand for no text. Tokens that share one
    /// character (an emoji may be several byte-level tokens) all have the range of the whole character.
    pub offsets: Vec<Range<usize>>,
    /// The index of the word that each token belongs to, as the pre-tokenizer splits words.
    pub words: Vec<Option<usize>>,
    /// The text that each token is from, 0 or 1; `None` for special tokens that were added.
    pub texts: Vec<Option<usize>>,
    /// Whether the token is special. The unknown token is not: it stands for a word of the text.
    pub special: Vec<bool>,
    /// The token type (segment), for models with an embedding of it (BERT).
    pub types: Vec<u32>,
}

impl Encoding {
    pub(super) fn new(encoded: &tokenizers::Encoding, texts: &[&str], marks: &BTreeSet<u32>) -> Result<Self> {
        let sequences = encoded.get_sequence_ids();
        let added = encoded.get_special_tokens_mask();
        let from: Vec<Option<usize>> =
            sequences.iter().zip(added).map(|(text, &added)| if added == 1 { None } else { *text }).collect();
        let mut offsets = Vec::with_capacity(from.len());
        for (&(start, end), text) in encoded.get_offsets().iter().zip(&from) {
            let range = if text.is_none() { 0..0 } else { start..end };
            let text = text.and_then(|text| texts.get(text)).copied().unwrap_or_default();
            if text.get(range.clone()).is_none() {
                return Err(Error::data("tokenizer", "the tokenizer returned offsets outside of the text"));
            }
            offsets.push(range);
        }
        Ok(Self {
            ids: encoded.get_ids().to_vec(),
            pieces: encoded.get_tokens().to_vec(),
            offsets,
            words: encoded.get_word_ids().iter().map(|word| word.map(|index| index as usize)).collect(),
            texts: from,
            special: added
                .iter()
                .zip(encoded.get_ids())
                .map(|(&added, id)| added == 1 || marks.contains(id))
                .collect(),
            types: encoded.get_type_ids().to_vec(),
        })
    }

    /// The number of tokens.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Truncates to at most `limit` tokens. Special tokens around the text (`[CLS]`, `[SEP]`) stay; of two texts the longer
    /// one is truncated first.
    pub fn truncate(&mut self, limit: usize, keep: Keep) -> Result<()> {
        if self.len() <= limit {
            return Ok(());
        }
        let mut lengths = [0_usize; 2];
        for &text in self.texts.iter().flatten() {
            lengths[text.min(1)] += 1;
        }
        let added = self.len() - lengths[0] - lengths[1];
        let Some(room) = limit.checked_sub(added) else {
            let problem =
                format!("{limit} tokens are too few: {added} special tokens are added to every text");
            return Err(Error::data("tokenizer", problem));
        };
        let shares = share(lengths, room);
        let mut seen = [0; 2];
        let kept: Vec<usize> = (0..self.len())
            .filter(|&piece| {
                let Some(text) = self.texts[piece] else { return true };
                let text = text.min(1);
                seen[text] += 1;
                match keep {
                    Keep::First => seen[text] <= shares[text],
                    Keep::Last => seen[text] > lengths[text] - shares[text],
                }
            })
            .collect();
        self.select(&kept);
        Ok(())
    }

    fn select(&mut self, kept: &[usize]) {
        fn pick<T: Clone>(values: &mut Vec<T>, kept: &[usize]) {
            *values = kept.iter().map(|&index| values[index].clone()).collect();
        }
        pick(&mut self.ids, kept);
        pick(&mut self.pieces, kept);
        pick(&mut self.offsets, kept);
        pick(&mut self.words, kept);
        pick(&mut self.texts, kept);
        pick(&mut self.special, kept);
        pick(&mut self.types, kept);
    }
}

/// The number of tokens that each of two texts keeps if both together may have `room`: the shorter one keeps up to half.
fn share(lengths: [usize; 2], room: usize) -> [usize; 2] {
    let [first, second] = lengths;
    if first <= second {
        let first = first.min(room / 2);
        [first, second.min(room - first)]
    } else {
        let second = second.min(room / 2);
        [first.min(room - second), second]
    }
}
