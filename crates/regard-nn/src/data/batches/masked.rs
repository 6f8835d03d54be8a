//! Batches for masked language models (Devlin et al., *BERT*, 2019).
//!
//! 15 % of the tokens are selected for the model to predict. Of these, 80 % are replaced by the mask token, 10 % by a
//! random token, and 10 % are left unchanged. Special tokens are never selected, and at least one token of every text is,
//! if possible. Each epoch makes a new selection.

use super::padded::pad;
use super::{Examples, IGNORED, Selection};
use crate::error::{Error, Result};
#[cfg(feature = "tokenizers")]
use crate::tokens::Tokenizer;
use regard_tensor::random::Key;
use regard_tensor::{Ids, Mask};

/// Which tokens are selected, and how they are changed.
#[derive(Debug, Clone)]
pub struct Masking {
    /// The share of tokens that are selected.
    pub share: f32,
    /// The share of the selected tokens that are replaced by the mask token.
    pub hidden: f32,
    /// The share of the selected tokens that are replaced by a random token.
    pub replaced: f32,
    mask: u32,
    padding: u32,
    /// The ids that can replace a token: all but the special ones.
    ordinary: Vec<u32>,
    /// Whether each id may be selected.
    allowed: Vec<bool>,
}

impl Masking {
    /// The share of tokens that BERT predicts.
    pub const SHARE: f32 = 0.15;

    /// BERT's shares, with a tokenizer's mask and padding tokens.
    #[cfg(feature = "tokenizers")]
    pub fn new(tokenizer: &Tokenizer) -> Result<Self> {
        let missing =
            |what: &str| Error::data("tokenizer", format!("it has no {what} token, which masking needs"));
        let special = tokenizer.special();
        let mask = special.mask.ok_or_else(|| missing("mask"))?;
        let padding = special.pad.ok_or_else(|| missing("padding"))?;
        let allowed: Vec<bool> = (0..tokenizer.vocabulary_size() as u32)
            .map(|id| !tokenizer.is_special(id) && tokenizer.piece(id).is_some())
            .collect();
        Self::from_ids(mask, padding, allowed)
    }

    /// BERT's shares, with the ids of the mask and padding tokens, and whether each id of the vocabulary may be selected
    /// (special tokens may not).
    pub fn from_ids(mask: u32, padding: u32, allowed: Vec<bool>) -> Result<Self> {
        let ordinary: Vec<u32> =
            (0_u32..).zip(&allowed).filter(|&(_, &allowed)| allowed).map(|(id, _)| id).collect();
        if ordinary.is_empty() {
            return Err(Error::data("masking", "all tokens are special: there is nothing to predict"));
        }
        Ok(Self { share: Self::SHARE, hidden: 0.8, replaced: 0.1, mask, padding, ordinary, allowed })
    }

    /// Masks a text in place, and returns the targets: [`IGNORED`] where nothing was selected. The draws are those of
    /// `example`.
    pub fn apply(&self, text: &mut [u32], key: Key, example: u64) -> Vec<u32> {
        let mut targets = vec![IGNORED; text.len()];
        let candidates: Vec<usize> = (0..text.len())
            .filter(|&at| self.allowed.get(text[at] as usize).copied().unwrap_or(false))
            .collect();
        let chosen = key.site("chosen");
        let mut selected: Vec<usize> = candidates
            .iter()
            .copied()
            .filter(|&at| chosen.uniform(example, at as u64) < self.share)
            .collect();
        if selected.is_empty() && !candidates.is_empty() {
            selected.push(candidates[key.site("one").below(example, 0, candidates.len())]);
        }
        for at in selected {
            targets[at] = text[at];
            let draw = key.site("fate").uniform(example, at as u64);
            if draw < self.hidden {
                text[at] = self.mask;
            } else if draw < self.hidden + self.replaced {
                let other = key.site("replacement").below(example, at as u64, self.ordinary.len());
                text[at] = self.ordinary[other];
            }
        }
        targets
    }
}

/// Encoded texts for masked language modelling.
#[derive(Debug, Clone)]
pub struct Masked {
    texts: Vec<Vec<u32>>,
    masking: Masking,
    key: Key,
}

/// Texts with masked tokens.
#[derive(Debug, Clone)]
pub struct MaskedBatch {
    /// Masked ids (batch, time), padded to the longest.
    pub ids: Ids,
    /// The tokens to predict: (batch, time), [`IGNORED`] elsewhere.
    pub targets: Ids,
    /// Where ids are not padding: (batch, time).
    pub present: Mask,
    /// The length of each text.
    pub lengths: Vec<usize>,
    /// Which examples these are.
    pub selection: Selection,
}

impl Masked {
    /// Texts as ids, including special tokens. The selection is drawn by `key`, the epoch and the example.
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
