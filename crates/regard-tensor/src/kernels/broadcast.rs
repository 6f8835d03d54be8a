//! Arithmetic on two arrays of different shapes, and the sums that undo a broadcast.

use super::memory::convert;
use super::{on_cpu, on_cpu_in_place};
use crate::array::Array;
use crate::error::Result;
use crate::shape::Shape;
use crate::storage::{DataType, Kernels};
use crate::{cpu, cuda};

/// Arithmetic on two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// a + b.
    Add,
    /// a − b.
    Subtract,
    /// a · b.
    Multiply,
    /// a / b.
    Divide,
}

/// a ∘ b under the shape that both broadcast to.
pub(crate) fn arithmetic(
    kind: Arithmetic,
    (a, a_shape): (&Array, &Shape),
    (b, b_shape): (&Array, &Shape),
    shape: &Shape,
) -> Result<Array> {
    match a.kernels() {
        Kernels::Cuda => {
            let data_type = common_type(a, b);
            let (a, b) = (convert(a, data_type)?, convert(b, data_type)?);
            Ok(cuda::arithmetic::arithmetic(kind, (a.cuda()?, a_shape), (b.cuda()?, b_shape), shape)?.into())
        }
        Kernels::Cpu => on_cpu("arithmetic", (a, b), |(a, b)| {
            cpu::broadcast::arithmetic(kind, (a, a_shape), (b, b_shape), shape)
        }),
    }
}

/// The type that CUDA's kernels compute two arrays in: their own, or bf16 if only one of them has it.
fn common_type(a: &Array, b: &Array) -> DataType {
    if a.data_type() == b.data_type() { a.data_type() } else { DataType::Bf16 }
}

/// The same values under a larger shape that theirs broadcasts to.
pub(crate) fn expand(x: &Array, from: &Shape, to: &Shape) -> Result<Array> {
    match x.kernels() {
        Kernels::Cuda => Ok(cuda::layout::expand(x.cuda()?, from, to)?.into()),
        Kernels::Cpu => on_cpu("expand", x, |x| cpu::broadcast::expand(x, from, to)),
    }
}

/// Adds `x` to `total` in place.
pub(crate) fn accumulate(total: &mut Array, x: &Array) -> Result<()> {
    match total.kernels() {
        Kernels::Cuda => {
            // A total of f32 takes values of either type.
            let x =
                if total.data_type() == DataType::F32 { x.clone() } else { convert(x, total.data_type())? };
            Ok(cuda::arithmetic::accumulate(total.cuda_mut()?, x.cuda()?)?)
        }
        Kernels::Cpu => on_cpu_in_place("accumulate", total, x, cpu::broadcast::accumulate),
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
    match x.kernels() {
        Kernels::Cuda => {
            Ok(cuda::arithmetic::affine(x.cuda()?, scale, shift, None, x.data_type().into())?.into())
        }
        Kernels::Cpu => on_cpu("affine", x, |x| cpu::broadcast::affine(x, scale, shift)),
    }
}

/// `x·factor` for each value, with a factor that only the device knows.
pub(crate) fn scale_by(x: &Array, factor: &Array) -> Result<Array> {
    match x.kernels() {
        Kernels::Cuda => {
            let (x, factor, to) = (x.cuda()?, convert(factor, DataType::F32)?, x.data_type().into());
            Ok(cuda::arithmetic::affine(x, 1.0, 0.0, Some(factor.cuda()?), to)?.into())
        }
        Kernels::Cpu => on_cpu("scale_by", (x, factor), |(x, factor)| cpu::broadcast::scale_by(x, factor)),
    }
}

/// Sums an array of `shape` over the axes along which `target` was broadcast to it.
pub(crate) fn reduce_to(x: &Array, shape: &Shape, target: &Shape) -> Result<Array> {
    if shape.count() == target.count() {
        return Ok(x.clone());
    }
    match x.kernels() {
        Kernels::Cuda => Ok(cuda::arithmetic::reduce_to(x.cuda()?, shape, target)?.into()),
        Kernels::Cpu => on_cpu("reduce_to", x, |x| cpu::broadcast::reduce_to(x, shape, target)),
    }
}
