//! Batches with a class for every token, such as parts of speech.

use super::padded::pad;
use super::{Examples, IGNORED, Selection};
use crate::error::{Error, Result};
use regard_tensor::random::Key;
use regard_tensor::{Ids, Mask};

/// Hides words, to be classified from their context: about one in seven, at least one in every text. Each epoch hides others.
#[derive(Debug, Clone, Copy)]
pub struct Hiding {
    mask: u32,
    key: Key,
}

impl Hiding {
    /// The share of words that are hidden beside the one that always is.
    pub const SHARE: f32 = 1.0 / 7.0;

    /// Hides words behind the id of the mask. Which ones is drawn by `key`, the epoch and the example.
    pub fn new(mask: u32, key: Key) -> Self {
        Self { mask, key }
    }

    /// A text with some ids hidden, and the classes of those; [`IGNORED`] for the others.
    pub fn apply(&self, text: &[u32], classes: &[u32], epoch: u64, example: u64) -> (Vec<u32>, Vec<u32>) {
        let hidden = self.places(text.len(), epoch, example);
        let one = |((&id, &class), hidden)| if hidden { (self.mask, class) } else { (id, IGNORED) };
        text.iter().zip(classes).zip(hidden).map(one).unzip()
    }

    /// Which words of a text with so many are hidden.
    pub fn places(&self, length: usize, epoch: u64, example: u64) -> Vec<bool> {
        let key = self.key.step(epoch);
        let sure = key.below(example, u64::MAX, length.max(1));
        (0..length).map(|place| place == sure || key.uniform(example, place as u64) < Self::SHARE).collect()
    }
}

/// Encoded texts with a class for every token.
#[derive(Debug, Clone)]
pub struct Tagging {
    texts: Vec<Vec<u32>>,
    classes: Vec<Vec<u32>>,
    padding: u32,
    hiding: Option<Hiding>,
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
        Ok(Self { texts, classes, padding, hiding: None })
    }

    /// The same with words hidden anew in each epoch: only their classes are to be predicted.
    #[must_use]
    pub fn hiding(self, hiding: Hiding) -> Self {
        Self { hiding: Some(hiding), ..self }
    }
}

impl Examples for Tagging {
    type Batch = TaggingBatch;

    fn lengths(&self) -> Vec<usize> {
        self.texts.iter().map(Vec::len).collect()
    }

    fn batch(&self, selection: Selection) -> Result<TaggingBatch> {
        let mut texts: Vec<Vec<u32>> = selection.of(&self.texts).cloned().collect();
        let mut classes: Vec<Vec<u32>> = selection.of(&self.classes).cloned().collect();
        if let Some(hiding) = &self.hiding {
            let all = texts.iter_mut().zip(&mut classes).zip(&selection.examples);
            for ((text, classes), &example) in all {
                (*text, *classes) = hiding.apply(text, classes, selection.epoch, example as u64);
            }
        }
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
