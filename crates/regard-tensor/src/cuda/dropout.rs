//! Dropout: which values to keep, drawn by place.

use super::error::{Result, ensure};
use super::launch::{Grid, arguments};
use super::memory::{Buffer, View};
use super::program::{Source, source};
use crate::random::Key;

static PROGRAM: Source = source!("dropout.cu");

/// Where the draws of an array come from: its leading axis counts examples from `first_example` on.
#[derive(Debug, Clone, Copy)]
pub struct Draws {
    /// The source.
    pub key: Key,
    /// The number of the first example.
    pub first_example: u64,
    /// Values of one example.
    pub per_example: usize,
    /// A word at or above this keeps its value.
    pub threshold: u32,
    /// What a kept value is multiplied with: 1 / (1 − p).
    pub scale: f32,
}

/// Multiplies each value with 0 or `scale`, by its draw. The backward pass is the same, applied to the gradient.
pub fn apply(x: View, draws: Draws) -> Result<Buffer> {
    let Draws { key, first_example, per_example, threshold, scale } = draws;
    let examples = x.len().checked_div(per_example).unwrap_or(0);
    ensure(examples * per_example == x.len(), "dropout", format_args!("examples of {per_example}"), x.len())?;
    let out = x.device().allocate(x.len(), x.element())?;
    let vectors = per_example.div_ceil(x.element().per_vector());
    let grid = Grid { blocks: (vectors.div_ceil(256), examples.min(65_535)), threads: 256, shared: 0 };
    let [low, high] = key.halves();
    x.device().launch(
        &PROGRAM,
        &format!("apply_{}", x.element().name()),
        grid,
        arguments![x, &out, low, high, first_example as usize, examples, per_example, threshold, scale],
    )?;
    Ok(out)
}
