//! Layer norm and RMS norm over rows, alone or after a residual sum.

use super::broadcast::{self, Arithmetic};
use super::memory::convert;
use super::{moves, on_cpu, operand};
use crate::array::Array;
use crate::error::Result;
use crate::shape::Shape;
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

/// A norm and its parameters.
#[derive(Clone, Copy)]
pub(crate) struct Norm<'a> {
    pub kind: Kind,
    pub weight: &'a Array,
    pub bias: Option<&'a Array>,
    pub epsilon: f32,
}

impl Norm<'_> {
    /// Calls `work` with the same for CUDA's kernels.
    fn on_cuda<T>(&self, work: impl FnOnce(&cuda::norm::Norm) -> Result<T>) -> Result<T> {
        let bias = self.bias.map(|bias| convert(bias, DataType::F32)).transpose()?;
        let weight = convert(self.weight, DataType::F32)?;
        let bias = bias.as_ref().map(Array::cuda).transpose()?;
        let (centred, epsilon) = (self.kind == Kind::Layer, self.epsilon);
        work(&cuda::norm::Norm { centred, weight: weight.cuda()?, bias, epsilon })
    }
}

impl From<cuda::norm::Moments> for Moments {
    fn from(moments: cuda::norm::Moments) -> Self {
        Self { mean: moments.mean.into(), inverse: moments.inverse.into() }
    }
}

/// `(x − mean)·inverse·weight + bias` for each row of as many values as the weight has.
pub(crate) fn forward(x: &Array, norm: Norm) -> Result<(Array, Moments)> {
    let Norm { kind, weight, bias, epsilon } = norm;
    match x.kernels() {
        Kernels::Cuda if weight.len() > 0 => norm.on_cuda(|norm| {
            let (y, moments) = cuda::norm::forward(x.cuda()?, norm)?;
            Ok((y.into(), moments.into()))
        }),
        Kernels::Cpu | Kernels::Cuda => on_cpu("norm", (x, weight, bias), |(x, weight, bias)| {
            cpu::norm::forward(kind, x, weight, bias, weight.len(), epsilon)
        }),
    }
}

/// The sum of two arrays of `shape`, and its norm.
pub(crate) fn add_forward(
    x: &Array,
    residual: &Array,
    shape: &Shape,
    norm: Norm,
) -> Result<(Array, Array, Moments)> {
    match x.kernels() {
        Kernels::Cuda if norm.weight.len() > 0 && x.data_type() == residual.data_type() => {
            norm.on_cuda(|norm| {
                let (sum, y, moments) = cuda::norm::add_forward(x.cuda()?, residual.cuda()?, norm)?;
                Ok((sum.into(), y.into(), moments.into()))
            })
        }
        Kernels::Cpu => {
            let Norm { kind, weight, bias, epsilon } = norm;
            let operands = (x, residual, weight, bias);
            let ((sum, y), moments) = on_cpu("add_norm", operands, |(x, residual, weight, bias)| {
                let all = cpu::norm::add_forward(kind, (x, residual), weight, bias, weight.len(), epsilon);
                ((all.0, all.1), all.2)
            })?;
            Ok((sum, y, moments))
        }
        Kernels::Cuda => {
            let sum = broadcast::arithmetic(Arithmetic::Add, (x, shape), (residual, shape), shape)?;
            let (y, moments) = forward(&sum, norm)?;
            Ok((sum, y, moments))
        }
    }
}

/// With n the normalised row and h = g·weight:
/// dx = inverse·(h − mean(h) − n·mean(h·n)) (RMS norm has no mean(h)), dweight = Σ g·n, dbias = Σ g.
///
/// `total` is a gradient of x that is there already; dx is added to it.
pub(crate) fn backward(
    x: &Array,
    norm: Norm,
    moments: &Moments,
    upstream: &Array,
    total: Option<Array>,
) -> Result<NormGradients> {
    let Norm { kind, weight, .. } = norm;
    match x.kernels() {
        Kernels::Cuda if weight.len() > 0 => norm.on_cuda(|norm| {
            let g = convert(upstream, x.data_type())?;
            let total = total.map(|total| convert(&total, x.data_type())).transpose()?;
            let total = total.as_ref().map(Array::cuda).transpose()?;
            let moments = (moments.mean.cuda()?, moments.inverse.cuda()?);
            let gradients = cuda::norm::backward(x.cuda()?, norm, moments, g.cuda()?, total)?;
            // One buffer holds both: the weight's, then the bias's.
            let (parameters, width) = (Array::from(gradients.parameters), weight.len());
            Ok(NormGradients {
                x: gradients.x.into(),
                weight: parameters.part(0, width),
                bias: parameters.part(width, width),
            })
        }),
        Kernels::Cpu | Kernels::Cuda => {
            let operands = (x, weight, moments, (upstream, total.as_ref()));
            on_cpu("norm_gradient", operands, |(x, weight, moments, (upstream, total))| {
                cpu::norm::backward(kind, x, weight, moments, upstream, total)
            })
        }
    }
}
