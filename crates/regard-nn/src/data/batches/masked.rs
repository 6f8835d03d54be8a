//! Batches for masked language models (Devlin et al., *BERT*, 2019).
//!
//! 15 % of the pieces are chosen for the model to guess. Of these, 80 % are hidden behind the mask, 10 % are replaced by
//! a random piece, and 10 % are left as they are. Special pieces are never chosen, and of every text at least one piece
//! is, where there is one to choose. Each epoch chooses anew.

use super::padded::pad;
use super::{Examples, IGNORED, Selection};
use crate::error::{Error, Result};
use crate::tokens::Tokenizer;
use regard_tensor::random::Key;
use regard_tensor::{Ids, Mask};

/// What can be chosen, and what it becomes.
#[derive(Debug, Clone)]
pub struct Masking {
    /// The share of pieces that are chosen.
    pub share: f32,
    /// The share of the chosen that are hidden behind the mask.
    pub hidden: f32,
    /// The share of the chosen that are replaced by a random piece.
    pub replaced: f32,
    mask: u32,
    padding: u32,
    /// Ids that are not special, by which pieces are replaced.
    ordinary: Vec<u32>,
    /// Whether each id may be chosen.
    allowed: Vec<bool>,
}

impl Masking {
    /// The share of pieces that BERT guesses.
    pub const SHARE: f32 = 0.15;

    /// BERT's shares, with a tokenizer's mask and padding.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self> {
        let missing =
            |what: &str| Error::data("tokenizer", format!("it has no {what} piece, which masking needs"));
        let special = tokenizer.special();
        let mask = special.mask.ok_or_else(|| missing("mask"))?;
        let padding = special.pad.ok_or_else(|| missing("padding"))?;
        let allowed: Vec<bool> = (0..tokenizer.vocabulary_size() as u32)
            .map(|id| !tokenizer.is_special(id) && tokenizer.piece(id).is_some())
            .collect();
        let ordinary: Vec<u32> =
            (0_u32..).zip(&allowed).filter(|&(_, &allowed)| allowed).map(|(id, _)| id).collect();
        if ordinary.is_empty() {
            return Err(Error::data("tokenizer", "all of its pieces are special: there is nothing to guess"));
        }
        Ok(Self { share: Self::SHARE, hidden: 0.8, replaced: 0.1, mask, padding, ordinary, allowed })
    }

    /// Changes a text, and returns what is to be guessed where: [`IGNORED`] elsewhere. The draws are those of `example`.
    pub fn apply(&self, text: &mut [u32], key: Key, example: u64) -> Vec<u32> {
        let mut targets = vec![IGNORED; text.len()];
        let places: Vec<usize> = (0..text.len())
            .filter(|&place| self.allowed.get(text[place] as usize).copied().unwrap_or(false))
            .collect();
        let chosen = key.site("chosen");
        let mut guessed: Vec<usize> = places
            .iter()
            .copied()
            .filter(|&place| chosen.uniform(example, place as u64) < self.share)
            .collect();
        if guessed.is_empty() && !places.is_empty() {
            guessed.push(places[key.site("one").below(example, 0, places.len())]);
        }
        for place in guessed {
            targets[place] = text[place];
            let draw = key.site("fate").uniform(example, place as u64);
            if draw < self.hidden {
                text[place] = self.mask;
            } else if draw < self.hidden + self.replaced {
                let other = key.site("replacement").below(example, place as u64, self.ordinary.len());
                text[place] = self.ordinary[other];
            }
        }
        targets
    }
}

/// Encoded texts, of which some pieces are to be hidden.
#[derive(Debug, Clone)]
pub struct Masked {
    texts: Vec<Vec<u32>>,
    masking: Masking,
    key: Key,
}

/// Texts with some pieces hidden.
#[derive(Debug, Clone)]
pub struct MaskedBatch {
    /// Ids (batch, time), padded to the longest, as the model sees them.
    pub ids: Ids,
    /// The pieces to guess: (batch, time), [`IGNORED`] elsewhere.
    pub targets: Ids,
    /// Where ids are not padding: (batch, time).
    pub present: Mask,
    /// The length of each text.
    pub lengths: Vec<usize>,
    /// Which examples these are.
    pub selection: Selection,
}

impl Masked {
    /// Texts as ids, special pieces included. What is hidden is drawn by `key`, the epoch and the example.
    pub fn new(texts: Vec<Vec<u32>>, masking: Masking, key: Key) -> Self {
        Self { texts, masking, key: key.site("data.masking") }
    }
}

impl Examples for Masked {
    type Batch = MaskedBatch;

    fn lengths(&self) -> Vec<usize> {
        self.texts.iter().map(Vec::len).collect()
    }

    fn batch(&self, selection: Selection) -> Result<MaskedBatch> {
        let key = self.key.step(selection.epoch);
        let mut texts: Vec<Vec<u32>> = selection.of(&self.texts).cloned().collect();
        let hide = |(text, &example): (&mut Vec<u32>, &usize)| self.masking.apply(text, key, example as u64);
        let targets: Vec<Vec<u32>> = texts.iter_mut().zip(&selection.examples).map(hide).collect();
        let padded = pad(&texts, self.masking.padding)?;
        Ok(MaskedBatch {
            ids: padded.ids,
            targets: pad(&targets, IGNORED)?.ids,
            present: padded.present,
            lengths: padded.lengths,
            selection,
        })
    }
}
