//! Softmax and log-softmax over rows, with or without a mask.

use super::on_cpu;
use crate::array::Array;
use crate::cpu;
use crate::error::Result;
use crate::ids::Mask;
use crate::shape::Shape;
use crate::storage::Device;

/// Rows of the last axis to weights that sum to 1 (or, with `log`, to their logarithms). The mask broadcasts to the
/// shape and excludes places where it is false.
///
/// A row with nothing allowed gives zeros (−∞ with `log`), not NaN.
pub(crate) fn forward(x: &Array, shape: &Shape, mask: Option<&Mask>, log: bool) -> Result<Array> {
    match x.device() {
        Device::Cpu | Device::Apart => {
            on_cpu("softmax", (x, mask), |(x, mask)| cpu::softmax::forward(x, shape, mask, log))
        }
    }
}

/// From weights w and gradient g: w·(g − Σ g·w). From log-weights y: g − e^y·Σ g.
pub(crate) fn backward(y: &Array, upstream: &Array, width: usize, log: bool) -> Result<Array> {
    match y.device() {
        Device::Cpu | Device::Apart => on_cpu("softmax_gradient", (y, upstream), |(y, upstream)| {
            cpu::softmax::backward(y, upstream, width, log)
        }),
    }
}
