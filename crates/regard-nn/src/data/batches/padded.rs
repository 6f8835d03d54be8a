//! Padding of sequences of different lengths.

use crate::error::Result;
use regard_tensor::{Ids, Mask};

/// Ids (batch, time), padded to the longest, and where they are not padding.
pub(super) struct Padded {
    pub ids: Ids,
    pub present: Mask,
    pub lengths: Vec<usize>,
}

/// An empty sequence becomes one token of padding, because models need at least one token.
pub(super) fn pad<S: AsRef<[u32]>>(sequences: &[S], padding: u32) -> Result<Padded> {
    let lengths: Vec<usize> = sequences.iter().map(|sequence| sequence.as_ref().len().max(1)).collect();
    let time = lengths.iter().copied().max().unwrap_or(1);
    let mut values = vec![padding; sequences.len() * time];
    for (row, sequence) in values.chunks_exact_mut(time).zip(sequences) {
        let sequence = sequence.as_ref();
        row[..sequence.len()].copy_from_slice(sequence);
    }
    let shape = [sequences.len(), time];
    let present = Mask::from_fn(shape, |at| at[1] < lengths[at[0]]);
    Ok(Padded { ids: Ids::new(&values, shape)?, present, lengths })
}
