//! Softmax and log-softmax over rows, with or without a mask.

use super::memory::convert;
use super::on_cpu;
use crate::array::Array;
use crate::error::Result;
use crate::ids::Mask;
use crate::shape::Shape;
use crate::storage::Kernels;
use crate::{cpu, cuda};

/// Rows of the last axis to weights that sum to 1 (or, with `log`, to their logarithms). The mask broadcasts to the
/// shape and excludes places where it is false.
///
/// A row with nothing allowed gives zeros (−∞ with `log`), not NaN.
pub(crate) fn forward(x: &Array, shape: &Shape, mask: Option<&Mask>, log: bool) -> Result<Array> {
    match x.kernels() {
        Kernels::Cuda => {
            let copy = mask.map(|mask| mask.cuda(x.device())).transpose()?;
            let mask = match (&copy, mask) {
                (Some(copy), Some(mask)) => Some((copy.view()?, mask.shape())),
                _ => None,
            };
            Ok(cuda::softmax::forward(x.cuda()?, shape, mask, log)?.into())
        }
        Kernels::Cpu => on_cpu("softmax", (x, mask), |(x, mask)| cpu::softmax::forward(x, shape, mask, log)),
    }
}

/// From weights w and gradient g: w·(g − Σ g·w). From log-weights y: g − e^y·Σ g.
pub(crate) fn backward(y: &Array, upstream: &Array, width: usize, log: bool) -> Result<Array> {
    match y.kernels() {
        Kernels::Cuda => {
            let upstream = convert(upstream, y.data_type())?;
            Ok(cuda::softmax::backward(y.cuda()?, upstream.cuda()?, width, log)?.into())
        }
        Kernels::Cpu => on_cpu("softmax_gradient", (y, upstream), |(y, upstream)| {
            cpu::softmax::backward(y, upstream, width, log)
        }),
    }
}
