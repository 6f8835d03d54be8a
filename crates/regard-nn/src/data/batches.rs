//! Batches of examples for training and evaluation.
//!
//! The examples of a batch depend only on the seed and the [`DataPosition`], not on the number of threads or on earlier calls.
//! Resuming from a saved position gives the same batches as an uninterrupted run.
//!
//! - [`Batches`] yields [`Classification`], [`Tagging`], [`Masked`], [`Pictures`] or [`Translation`] examples, epoch after
//!   epoch, in an [`Order`] that groups examples of similar length;
//! - [`RandomWindows`] and [`PackedWindows`] cut a long text into windows.
//!
//! ```
//! use regard_nn::data::batches::{Batches, Classification};
//! use regard_nn::tensor::random::Key;
//!
//! let texts = vec![vec![5, 6, 7], vec![8], vec![9, 4]];
//! let examples = Classification::new(texts, vec![0, 1, 1], 0)?;
//! let mut batches = Batches::new(examples, 2, Key::new(1))?;
//! let first = batches.next()?;
//! let saved = batches.position();
//! let second = batches.next()?;
//! assert_eq!(first.lengths.len() + second.lengths.len(), 3);
//!
//! batches.seek(saved)?;
//! assert_eq!(batches.next()?.ids, second.ids);
//! # Ok::<(), regard_nn::Error>(())
//! ```

mod classification;
mod masked;
mod order;
mod padded;
mod pictures;
mod tagging;
mod translation;
mod windows;

pub use classification::{Classification, ClassificationBatch};
pub use masked::{Masked, MaskedBatch, Masking};
pub use order::{Order, Selection};
pub use pictures::{Pictures, PicturesBatch};
pub use tagging::{Hiding, Tagging, TaggingBatch};
pub use translation::{Translation, TranslationBatch};
pub use windows::{PackedWindows, RandomWindows, WindowBatch};

use crate::error::Result;
use regard_tensor::random::Key;

/// The target of positions that do not count in a loss; pass it as
/// [`CrossEntropy::ignored`](regard_tensor::ops::CrossEntropy).
pub const IGNORED: u32 = u32::MAX;

/// A position in the data: the number of finished epochs, and of finished batches in the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct DataPosition {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The next batch in it, from 0.
    pub batch: u64,
}

/// Examples that can be batched.
pub trait Examples {
    /// The type of a batch.
    type Batch;

    /// The length of each example, for grouping by length.
    fn lengths(&self) -> Vec<usize>;

    /// Builds a batch of the selected examples.
    fn batch(&self, selection: Selection) -> Result<Self::Batch>;
}

/// Examples in batches, epoch after epoch.
#[derive(Debug, Clone)]
pub struct Batches<E> {
    examples: E,
    order: Order,
}

impl<E: Examples> Batches<E> {
    /// Batches of `batch_size` examples; the last batch of an epoch may have fewer.
    pub fn new(examples: E, batch_size: usize, key: Key) -> Result<Self> {
        let order = Order::new(examples.lengths(), batch_size, key)?;
        Ok(Self { examples, order })
    }

    /// The number of batches per epoch.
    pub fn batches_per_epoch(&self) -> usize {
        self.order.batches()
    }

    /// The position of the next batch.
    pub fn position(&self) -> DataPosition {
        self.order.position()
    }

    /// Resumes from a saved position.
    pub fn seek(&mut self, position: DataPosition) -> Result<()> {
        self.order.seek(position)
    }

    /// The next batch. Epochs follow each other without end.
    #[expect(clippy::should_implement_trait, reason = "it never ends, and may fail")]
    pub fn next(&mut self) -> Result<E::Batch> {
        let selection = self.order.next();
        self.examples.batch(selection)
    }

    /// All examples once, longest first, for evaluation.
    pub fn once(&self) -> impl Iterator<Item = Result<E::Batch>> {
        self.order.once().into_iter().map(|selection| self.examples.batch(selection))
    }
}
