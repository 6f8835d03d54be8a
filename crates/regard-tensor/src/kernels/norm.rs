//! Layer norm and RMS norm over rows.

use super::{moves, on_cpu, operand};
use crate::array::Array;
use crate::cpu;
use crate::error::Result;
use crate::storage::Device;

/// The kind of norm: whether the mean is taken away first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Layer,
    Rms,
}

/// What the backward pass needs of the forward pass: for each row its mean and 1 / deviation.
#[derive(Clone)]
pub(crate) struct Moments {
    pub mean: Array,
    pub inverse: Array,
}

operand!(Moments { mean, inverse });
moves!(Moments { mean, inverse });

/// Gradients of the input, the weight and the bias.
pub(crate) struct NormGradients {
    pub x: Array,
    pub weight: Array,
    pub bias: Array,
}

moves!(NormGradients { x, weight, bias });

/// `(x − mean)·inverse·weight + bias` for each row of `width` values.
pub(crate) fn forward(
    kind: Kind,
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    width: usize,
    epsilon: f32,
) -> Result<(Array, Moments)> {
    match x.device() {
        Device::Cpu | Device::Apart => on_cpu("norm", (x, weight, bias), |(x, weight, bias)| {
            cpu::norm::forward(kind, x, weight, bias, width, epsilon)
        }),
    }
}

/// With n the normalised row and h = g·weight:
/// dx = inverse·(h − mean(h) − n·mean(h·n)) (RMS norm has no mean(h)), dweight = Σ g·n, dbias = Σ g.
pub(crate) fn backward(
    kind: Kind,
    x: &Array,
    weight: &Array,
    moments: &Moments,
    upstream: &Array,
) -> Result<NormGradients> {
    match x.device() {
        Device::Cpu | Device::Apart => {
            on_cpu("norm_gradient", (x, weight, moments, upstream), |(x, weight, moments, upstream)| {
                cpu::norm::backward(kind, x, weight, moments, upstream)
            })
        }
    }
}
