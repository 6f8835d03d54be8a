//! Batches for classification.

use super::padded::pad;
use super::{Examples, Selection};
use crate::error::{Error, Result};
use regard_tensor::{Ids, Mask};

/// Encoded texts with labels.
#[derive(Debug, Clone)]
pub struct Classification {
    texts: Vec<Vec<u32>>,
    labels: Vec<usize>,
    padding: u32,
}

/// Texts of similar length.
#[derive(Debug, Clone)]
pub struct ClassificationBatch {
    /// Ids (batch, time), padded to the longest.
    pub ids: Ids,
    /// The length of each text. An empty text counts as one token of padding.
    pub lengths: Vec<usize>,
    /// Where ids are not padding: (batch, time).
    pub present: Mask,
    /// The class of each text: (batch).
    pub labels: Ids,
    /// Which examples these are.
    pub selection: Selection,
}

impl Classification {
    /// Texts as ids, each with its label.
    pub fn new(texts: Vec<Vec<u32>>, labels: Vec<usize>, padding: u32) -> Result<Self> {
        if texts.len() != labels.len() {
            return Err(Error::data(
                "batches",
                format!("{} texts, but {} labels", texts.len(), labels.len()),
            ));
        }
        Ok(Self { texts, labels, padding })
    }
}

impl Examples for Classification {
    type Batch = ClassificationBatch;

    fn lengths(&self) -> Vec<usize> {
        self.texts.iter().map(Vec::len).collect()
    }

    fn batch(&self, selection: Selection) -> Result<ClassificationBatch> {
        let texts: Vec<&[u32]> = selection.of(&self.texts).map(Vec::as_slice).collect();
        let labels: Vec<u32> = selection.of(&self.labels).map(|&label| label as u32).collect();
        let labels = Ids::new(&labels, [labels.len()])?;
        let padded = pad(&texts, self.padding)?;
        Ok(ClassificationBatch {
            ids: padded.ids,
            lengths: padded.lengths,
            present: padded.present,
            labels,
            selection,
        })
    }
}
