//! Softmax and log-softmax over rows, with or without a mask.

use super::axes::{Axes, Axis, join};
use super::error::{Result, ensure};
use super::launch::{Grid, arguments};
use super::memory::{Buffer, Element, View};
use super::program::{Source, source};
use crate::shape::Shape;

static PROGRAM: Source = source!("softmax.cu");

/// Rows of the last axis of `shape` to weights that sum to 1 (or, with `log`, to their logarithms).
///
/// A mask (bytes, 0 for places that do not count) is broadcast to the shape. A row with nothing allowed gives zeros, −∞
/// with `log`.
pub fn forward(x: View, shape: &Shape, mask: Option<(View, &Shape)>, log: bool) -> Result<Buffer> {
    ensure(x.len() == shape.count(), "softmax", shape.count(), x.len())?;
    let width = shape.last();
    let out = x.device().allocate(x.len(), x.element())?;
    let (mut outer, mut step) = (Vec::new(), 0);
    if let Some((mask, mask_shape)) = mask {
        let fits = mask.element() == Element::U8 && mask.len() == mask_shape.count();
        ensure(fits, "softmax", format_args!("a mask of {mask_shape}"), mask.len())?;
        let strides = mask_shape.broadcast_strides(shape);
        let axes = shape.iter().zip(&strides);
        outer = axes.map(|(&length, &first)| Axis { length, first, second: 0 }).collect();
        step = outer.pop().map_or(0, |last: Axis| last.first);
    }
    let axes = Axes::new(&join(outer), "softmax")?;
    x.device().launch(
        &PROGRAM,
        &format!("forward_{}", x.element().name()),
        Grid::new(x.len().checked_div(width).unwrap_or(0), threads(width)),
        arguments![x, &out, width, mask.map(|(mask, _)| mask), &axes, step, log],
    )?;
    Ok(out)
}

/// From weights w and gradient g: w·(g − Σ g·w). From log-weights y: g − e^y·Σ g.
pub fn backward(y: View, g: View, width: usize, log: bool) -> Result<Buffer> {
    let fits = y.len() == g.len() && y.element() == g.element();
    ensure(fits, "softmax backward", y.len(), g.len())?;
    let out = y.device().allocate(y.len(), y.element())?;
    let grid = Grid::new(y.len().checked_div(width).unwrap_or(0), threads(width));
    let kernel = format!("backward_{}", y.element().name());
    y.device().launch(&PROGRAM, &kernel, grid, arguments![y, g, &out, width, log])?;
    Ok(out)
}

/// Threads for a row: each should have about four values.
fn threads(width: usize) -> usize {
    width.div_ceil(4).next_power_of_two().clamp(32, 512)
}
