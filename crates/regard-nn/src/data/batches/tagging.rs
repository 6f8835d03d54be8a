//! Batches with a class for every token, such as parts of speech.

use super::padded::pad;
use super::{Examples, IGNORED, Selection};
use crate::error::{Error, Result};
use regard_tensor::{Ids, Mask};

/// Encoded texts with a class for every token.
#[derive(Debug, Clone)]
pub struct Tagging {
    texts: Vec<Vec<u32>>,
    classes: Vec<Vec<u32>>,
    padding: u32,
}

/// Texts of similar length.
#[derive(Debug, Clone)]
pub struct TaggingBatch {
    /// Ids (batch, time), padded to the longest.
    pub ids: Ids,
    /// The class of each token: (batch, time), [`IGNORED`] in the padding.
    pub targets: Ids,
    /// Where ids are not padding: (batch, time).
    pub present: Mask,
    /// The length of each text.
    pub lengths: Vec<usize>,
    /// Which examples these are.
    pub selection: Selection,
}

impl Tagging {
    /// Texts as ids, each with a class for every id ([`IGNORED`] for ids that do not count).
    pub fn new(texts: Vec<Vec<u32>>, classes: Vec<Vec<u32>>, padding: u32) -> Result<Self> {
        let differs = texts.iter().zip(&classes).position(|(text, classes)| text.len() != classes.len());
        if texts.len() != classes.len() || differs.is_some() {
            let problem = match differs {
                Some(text) => {
                    format!("text {text} has {} ids, but {} classes", texts[text].len(), classes[text].len())
                }
                None => format!("{} texts, but classes for {}", texts.len(), classes.len()),
            };
            return Err(Error::data("batches", problem));
        }
        Ok(Self { texts, classes, padding })
    }
}

impl Examples for Tagging {
    type Batch = TaggingBatch;

    fn lengths(&self) -> Vec<usize> {
        self.texts.iter().map(Vec::len).collect()
    }

    fn batch(&self, selection: Selection) -> Result<TaggingBatch> {
        let texts: Vec<&[u32]> = selection.of(&self.texts).map(Vec::as_slice).collect();
        let classes: Vec<&[u32]> = selection.of(&self.classes).map(Vec::as_slice).collect();
        let padded = pad(&texts, self.padding)?;
        Ok(TaggingBatch {
            ids: padded.ids,
            targets: pad(&classes, IGNORED)?.ids,
            present: padded.present,
            lengths: padded.lengths,
            selection,
        })
    }
}
