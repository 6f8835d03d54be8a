//! Functions of one value, applied to each.

use super::memory::convert;
use super::on_cpu;
use crate::array::Array;
use crate::error::Result;
use crate::storage::Kernels;
use crate::{cpu, cuda};

/// A function of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// e^x.
    Exp,
    /// The natural logarithm.
    Ln,
    /// The square root.
    Sqrt,
    /// The hyperbolic tangent.
    Tanh,
    /// 1 / (1 + e^−x).
    Sigmoid,
    /// max(x, 0).
    Relu,
    /// x·Φ(x), with the error function.
    Gelu,
    /// GELU's approximation by a hyperbolic tangent, as GPT-2 uses it.
    GeluTanh,
    /// x·sigmoid(x).
    Silu,
    /// elu(x) + 1: x + 1 above 0, e^x below. Positive everywhere, as linear attention wants it.
    EluPlusOne,
}

impl Function {
    /// Whether the derivative is computed from the output (else from the input).
    pub(crate) fn saves_output(self) -> bool {
        match self {
            Self::Exp | Self::Sqrt | Self::Tanh | Self::Sigmoid | Self::Relu | Self::EluPlusOne => true,
            Self::Ln | Self::Gelu | Self::GeluTanh | Self::Silu => false,
        }
    }
}

/// f(x) for each value.
pub(crate) fn forward(function: Function, x: &Array) -> Result<Array> {
    match x.kernels() {
        Kernels::Cuda => Ok(cuda::pointwise::forward(function, x.cuda()?)?.into()),
        Kernels::Cpu => on_cpu("pointwise", x, |x| cpu::pointwise::forward(function, x)),
    }
}

/// f′·upstream, from the output or the input (see [`Function::saves_output`]).
pub(crate) fn backward(function: Function, saved: &Array, upstream: &Array) -> Result<Array> {
    match upstream.kernels() {
        Kernels::Cuda => {
            let upstream = convert(upstream, saved.data_type())?;
            Ok(cuda::pointwise::backward(function, saved.cuda()?, upstream.cuda()?)?.into())
        }
        Kernels::Cpu => on_cpu("pointwise_gradient", (saved, upstream), |(saved, upstream)| {
            cpu::pointwise::backward(function, saved, upstream)
        }),
    }
}
