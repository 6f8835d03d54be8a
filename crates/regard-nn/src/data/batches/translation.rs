//! Batches for sequence-to-sequence models.

use super::padded::pad;
use super::{Examples, IGNORED, Selection};
use crate::error::{Error, Result};
use regard_tensor::{Ids, Mask};

/// Encoded pairs of source and target.
#[derive(Debug, Clone)]
pub struct Translation {
    pairs: Vec<(Vec<u32>, Vec<u32>)>,
    padding: u32,
    start: u32,
}

/// Pairs of similar length.
#[derive(Debug, Clone)]
pub struct TranslationBatch {
    /// Source ids (batch, source time), padded.
    pub source: Ids,
    /// Where the source is not padding.
    pub source_present: Mask,
    /// The decoder's input (batch, target time): the start id, then the target shifted right by one.
    pub input: Ids,
    /// The next token at each position (batch, target time), [`IGNORED`] in the padding.
    pub targets: Ids,
    /// Where the decoder's input is not padding.
    pub target_present: Mask,
    /// Which examples these are.
    pub selection: Selection,
}

impl Translation {
    /// Pairs of source and target ids. Targets include the end token; `start` is the decoder's start token (T5: the padding
    /// token).
    pub fn new(pairs: Vec<(Vec<u32>, Vec<u32>)>, padding: u32, start: u32) -> Result<Self> {
        if let Some(place) = pairs.iter().position(|(source, target)| source.is_empty() || target.is_empty())
        {
            return Err(Error::data("batches", format!("pair {place} has an empty side")));
        }
        Ok(Self { pairs, padding, start })
    }
}

impl Examples for Translation {
    type Batch = TranslationBatch;

    fn lengths(&self) -> Vec<usize> {
        self.pairs.iter().map(|(source, target)| source.len() + target.len()).collect()
    }

    fn batch(&self, selection: Selection) -> Result<TranslationBatch> {
        let sources: Vec<&[u32]> = selection.of(&self.pairs).map(|(source, _)| source.as_slice()).collect();
        let targets: Vec<&[u32]> = selection.of(&self.pairs).map(|(_, target)| target.as_slice()).collect();
        let shifted = |target: &&[u32]| {
            std::iter::once(self.start).chain(target.iter().copied()).take(target.len()).collect()
        };
        let inputs: Vec<Vec<u32>> = targets.iter().map(shifted).collect();
        let (source, input) = (pad(&sources, self.padding)?, pad(&inputs, self.padding)?);
        Ok(TranslationBatch {
            source: source.ids,
            source_present: source.present,
            input: input.ids,
            targets: pad(&targets, IGNORED)?.ids,
            target_present: input.present,
            selection,
        })
    }
}
