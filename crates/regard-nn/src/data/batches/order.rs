//! The order of examples in each epoch.

use super::DataPosition;
use crate::error::{Error, Result};
use regard_tensor::random::Key;

/// The number of batches whose examples are sorted by length together. More reduce padding, fewer shuffle better.
const POOL: usize = 50;

/// Divides examples into batches, in a new order each epoch, with every example once per epoch.
///
/// The examples are shuffled; groups of fifty batches are sorted by length, so that a batch has examples of similar
/// length and little padding; then the batches are shuffled.
#[derive(Debug, Clone)]
pub struct Order {
    lengths: Vec<usize>,
    batch_size: usize,
    key: Key,
    position: DataPosition,
    /// The batches of the current epoch.
    epoch: Option<(u64, Vec<Selection>)>,
}

/// The examples of one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Their indices.
    pub examples: Vec<usize>,
    /// The number of examples that the run has used before, for draws that are keyed by example.
    pub first: u64,
    /// The epoch.
    pub epoch: u64,
}

impl Selection {
    /// The selected elements of a list.
    pub(super) fn of<'e, T>(&self, all: &'e [T]) -> impl Iterator<Item = &'e T> {
        self.examples.iter().filter_map(|&example| all.get(example))
    }
}

impl Order {
    /// An order of examples with these lengths.
    pub fn new(lengths: Vec<usize>, batch_size: usize, key: Key) -> Result<Self> {
        if lengths.is_empty() || batch_size == 0 {
            let problem = format!("{} examples in batches of {batch_size}", lengths.len());
            return Err(Error::data("batches", problem));
        }
        let key = key.site("data.order");
        Ok(Self { lengths, batch_size, key, position: DataPosition::default(), epoch: None })
    }

    /// The number of batches per epoch.
    pub fn batches(&self) -> usize {
        self.lengths.len().div_ceil(self.batch_size)
    }

    /// The position of the next batch; [`seek`](Self::seek) returns to it.
    pub fn position(&self) -> DataPosition {
        self.position
    }

    /// Resumes from a position.
    pub fn seek(&mut self, position: DataPosition) -> Result<()> {
        if position.batch >= self.batches() as u64 {
            let problem = format!(
                "batch {} of an epoch of {} batches: is this another data set?",
                position.batch,
                self.batches()
            );
            return Err(Error::data("batches", problem));
        }
        self.position = position;
        Ok(())
    }

    /// The next batch's examples. Epochs follow each other without end.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> Selection {
        let DataPosition { epoch, batch } = self.position;
        if self.epoch.as_ref().is_none_or(|(known, _)| *known != epoch) {
            self.epoch = Some((epoch, self.plan(epoch)));
        }
        let selections = self.epoch.as_ref().map_or(&[][..], |(_, selections)| selections);
        let selection = selections[batch as usize].clone();
        let last = batch as usize + 1 == selections.len();
        self.position = if last {
            DataPosition { epoch: epoch.wrapping_add(1), batch: 0 }
        } else {
            DataPosition { epoch, batch: batch + 1 }
        };
        selection
    }

    /// All examples once, longest first, for evaluation.
    pub fn once(&self) -> Vec<Selection> {
        let mut examples: Vec<usize> = (0..self.lengths.len()).collect();
        examples.sort_by_key(|&example| std::cmp::Reverse(self.lengths[example]));
        let batches = examples.chunks(self.batch_size).map(<[usize]>::to_vec).collect();
        self.numbered(batches, 0)
    }

    fn plan(&self, epoch: u64) -> Vec<Selection> {
        let mut examples = self.key.permutation(epoch, self.lengths.len());
        for pool in examples.chunks_mut(POOL.saturating_mul(self.batch_size)) {
            pool.sort_by_key(|&example| self.lengths[example]);
        }
        let batches: Vec<&[usize]> = examples.chunks(self.batch_size).collect();
        let order = self.key.site("batches").permutation(epoch, batches.len());
        self.numbered(order.into_iter().map(|batch| batches[batch].to_vec()).collect(), epoch)
    }

    fn numbered(&self, batches: Vec<Vec<usize>>, epoch: u64) -> Vec<Selection> {
        let mut first = epoch.wrapping_mul(self.lengths.len() as u64);
        batches
            .into_iter()
            .map(|examples| {
                let count = examples.len() as u64;
                let selection = Selection { examples, first, epoch };
                first = first.wrapping_add(count);
                selection
            })
            .collect()
    }
}
