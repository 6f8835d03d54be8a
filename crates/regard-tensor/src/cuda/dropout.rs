//! Dropout: which values to keep, drawn by place.

use super::error::{Result, ensure};
use super::launch::{Grid, arguments};
use super::memory::{Buffer, View};
use super::program::{Source, source};
use super::recording;

pub use crate::kernels::dropout::Draws;

static PROGRAM: Source = source!("dropout.cu");

/// Multiplies each value with 0 or `scale`, by its draw. The backward pass is the same, applied to the gradient.
pub fn apply(x: View, draws: Draws) -> Result<Buffer> {
    let Draws { key, first_example, per_example, threshold, scale } = draws;
    let examples = x.len().checked_div(per_example).unwrap_or(0);
    ensure(examples * per_example == x.len(), "dropout", format_args!("examples of {per_example}"), x.len())?;
    let out = x.device().allocate(x.len(), x.element())?;
    let vectors = per_example.div_ceil(x.element().per_vector());
    let grid = Grid { blocks: (vectors.div_ceil(256), examples.min(65_535), 1), ..Grid::new(1, 256) };
    let [low, high] = key.halves();
    let key_at = recording::key_place(x.device().ordinal(), key)?.unwrap_or(0) as usize;
    x.device().launch(
        &PROGRAM,
        &format!("apply_{}", x.element().name()),
        grid,
        arguments![
            x,
            &out,
            key_at,
            low,
            high,
            first_example as usize,
            examples,
            per_example,
            threshold,
            scale
        ],
    )?;
    Ok(out)
}
