//! What the commands of analysis measure, write and draw.
//!
//! The numbers are [`regard_nn::analysis`]'s; here they are taken over a [corpus](crate::corpus), put beside those of the same
//! architecture untrained, and become tables and pictures in a folder.

pub mod ablation;
pub mod embeddings;
pub mod heads;
pub mod influence;
pub mod map;
mod output;
pub mod prompt;
pub mod questions;
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
