//! Analysis of a model over a corpus: what `heads`, `ablate`, `influence` and `embeddings` measure, write and draw.
//!
//! [`regard_nn::analysis`] computes the numbers; here they are taken over a [corpus](crate::corpus), compared with those of the
//! same architecture untrained, and written as tables and pictures to a folder.

pub mod ablation;
pub mod embeddings;
pub mod evaluation_batches;
pub mod head_map;
pub mod heads;
pub mod influence;
mod output;
pub mod prompt;
pub mod snapshots;
pub mod syntax;
pub mod target;
pub mod texts;

pub use output::{Output, columns, interval, numbers};

use regard_nn::analysis::Head;

/// A head as tables and pictures name it: layer and head, from 0.
pub fn name(head: Head) -> String {
    format!("{}.{}", head.layer, head.head)
}
