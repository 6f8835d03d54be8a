//! Layer norm and RMS norm over rows.

use super::memory::convert;
use super::{moves, on_cpu, operand};
use crate::array::Array;
use crate::error::Result;
use crate::storage::{DataType, Kernels};
use crate::{cpu, cuda};

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
    match x.kernels() {
        Kernels::Cuda => {
            let bias = bias.map(|bias| convert(bias, DataType::F32)).transpose()?;
            let weight = convert(weight, DataType::F32)?;
            let bias = bias.as_ref().map(Array::cuda).transpose()?;
            let norm =
                cuda::norm::Norm { centred: kind == Kind::Layer, weight: weight.cuda()?, bias, epsilon };
            let (y, moments) = cuda::norm::forward(x.cuda()?, &norm)?;
            Ok((y.into(), Moments { mean: moments.mean.into(), inverse: moments.inverse.into() }))
        }
        Kernels::Cpu => on_cpu("norm", (x, weight, bias), |(x, weight, bias)| {
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
    match x.kernels() {
        Kernels::Cuda => {
            let (weight, g) = (convert(weight, DataType::F32)?, convert(upstream, x.data_type())?);
            let weight = weight.cuda()?;
            let norm = cuda::norm::Norm { centred: kind == Kind::Layer, weight, bias: None, epsilon: 0.0 };
            let moments = (moments.mean.cuda()?, moments.inverse.cuda()?);
            let gradients = cuda::norm::backward(x.cuda()?, &norm, moments, g.cuda()?, None)?;
            // One buffer holds both: the weight's, then the bias's.
            let (parameters, width) = (Array::from(gradients.parameters), weight.len());
            Ok(NormGradients {
                x: gradients.x.into(),
                weight: parameters.part(0, width),
                bias: parameters.part(width, width),
            })
        }
        Kernels::Cpu => {
            on_cpu("norm_gradient", (x, weight, moments, upstream), |(x, weight, moments, upstream)| {
                cpu::norm::backward(kind, x, weight, moments, upstream)
            })
        }
    }
}
