//! Arithmetic on two arrays of different shapes, and the sums that undo a broadcast.

use super::{on_cpu, on_cpu_in_place};
use crate::array::Array;
use crate::cpu;
use crate::error::Result;
use crate::shape::Shape;
use crate::storage::Device;

/// Arithmetic on two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// a ∘ b under the shape that both broadcast to.
pub(crate) fn arithmetic(
    kind: Arithmetic,
    (a, a_shape): (&Array, &Shape),
    (b, b_shape): (&Array, &Shape),
    shape: &Shape,
) -> Result<Array> {
    match a.device() {
        Device::Cpu | Device::Apart => on_cpu("arithmetic", (a, b), |(a, b)| {
            cpu::broadcast::arithmetic(kind, (a, a_shape), (b, b_shape), shape)
        }),
    }
}

/// The same values under a larger shape that theirs broadcasts to.
pub(crate) fn expand(x: &Array, from: &Shape, to: &Shape) -> Result<Array> {
    match x.device() {
        Device::Cpu | Device::Apart => on_cpu("expand", x, |x| cpu::broadcast::expand(x, from, to)),
    }
}

/// Adds `x` to `total` in place.
pub(crate) fn accumulate(total: &mut Array, x: &Array) -> Result<()> {
    match total.device() {
        Device::Cpu | Device::Apart => on_cpu_in_place("accumulate", total, x, cpu::broadcast::accumulate),
    }
}

/// A total with `x` added to it, in place; `x` itself if there is no total.
pub(crate) fn added(total: Option<Array>, x: Array) -> Result<Array> {
    match total {
        None => Ok(x),
        Some(mut total) => {
            accumulate(&mut total, &x)?;
            Ok(total)
        }
    }
}

/// `x·scale + shift` for each value.
pub(crate) fn affine(x: &Array, scale: f32, shift: f32) -> Result<Array> {
    match x.device() {
        Device::Cpu | Device::Apart => on_cpu("affine", x, |x| cpu::broadcast::affine(x, scale, shift)),
    }
}

/// `x·factor` for each value, with a factor that only the device knows.
pub(crate) fn scale_by(x: &Array, factor: &Array) -> Result<Array> {
    match x.device() {
        Device::Cpu | Device::Apart => {
            on_cpu("scale_by", (x, factor), |(x, factor)| cpu::broadcast::scale_by(x, factor))
        }
    }
}

/// Sums an array of `shape` over the axes along which `target` was broadcast to it.
pub(crate) fn reduce_to(x: &Array, shape: &Shape, target: &Shape) -> Result<Array> {
    if shape.count() == target.count() {
        return Ok(x.clone());
    }
    match x.device() {
        Device::Cpu | Device::Apart => {
            on_cpu("reduce_to", x, |x| cpu::broadcast::reduce_to(x, shape, target))
        }
    }
}
