//! An LSTM over whole sequences, in one or both directions (Hochreiter & Schmidhuber, 1997).
//!
//! ```text
//! i, f, g, o = σ, σ, tanh, σ of (x·Wᵢ + h·Wₕ + b)      c ← f∘c + i∘g      h = o∘tanh(c)
//! ```

use super::{Moves, moves, on_cpu, operand};
use crate::array::Array;
use crate::error::Result;
use crate::ids::Ids;
use crate::storage::{Device, Kernels};
use crate::{cpu, cuda};

/// The sizes of the problem.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub batch: usize,
    pub time: usize,
    pub inputs: usize,
    pub hidden: usize,
    /// 1, or 2 for a bidirectional LSTM.
    pub directions: usize,
}

/// The parameters of one direction, in PyTorch's layout: gates i, f, g, o one after another.
#[derive(Clone)]
pub(crate) struct Weights {
    /// (4·hidden, inputs).
    pub input: Array,
    /// (4·hidden, hidden).
    pub hidden: Array,
    /// (4·hidden), the sum of both biases.
    pub bias: Array,
}

operand!(Weights { input, hidden, bias });
moves!(Weights { input, hidden, bias });

/// What the backward pass needs of the forward pass, as the device that ran it left it.
pub(crate) enum Saved {
    Cpu(cpu::lstm::Saved),
    Cuda(cuda::lstm::Saved),
}

/// Stays where it was made: only the kernels that made it read it.
impl Moves for Saved {
    fn moved(self, _: Device) -> Result<Self> {
        Ok(self)
    }
}

/// Steps of one sequence that are not padding, for each sequence; all steps without.
pub(crate) type Lengths<'a> = Option<&'a Ids>;

/// Gradients of the input and of each direction's weights.
pub(crate) struct LstmGradients {
    pub x: Array,
    pub weights: Vec<Weights>,
}

moves!(LstmGradients { x, weights });

/// The hidden states (batch, time, directions·hidden), zero in the padding.
pub(crate) fn forward(
    sizes: Sizes,
    x: &Array,
    weights: &[Weights],
    lengths: Lengths,
) -> Result<(Array, Saved)> {
    match x.kernels() {
        Kernels::Cuda if cuda::lstm::takes(sizes) => {
            let (value, saved) = cuda::lstm::forward(sizes, x, weights, lengths)?;
            Ok((value, Saved::Cuda(saved)))
        }
        Kernels::Cpu | Kernels::Cuda => on_cpu("lstm", (x, weights, lengths), |(x, weights, lengths)| {
            let (value, saved) = cpu::lstm::forward(sizes, x, weights, lengths.map(Ids::slice));
            (value, Saved::Cpu(saved))
        }),
    }
}

/// The gradients of everything [`forward`] read.
pub(crate) fn backward(
    sizes: Sizes,
    x: &Array,
    output: &Array,
    saved: &Saved,
    lengths: Lengths,
    upstream: &Array,
) -> Result<LstmGradients> {
    match saved {
        Saved::Cuda(saved) => cuda::lstm::backward(sizes, x, output, saved, upstream),
        Saved::Cpu(saved) => {
            let operands = (x, output, lengths, upstream);
            on_cpu("lstm_gradient", operands, |(x, output, lengths, upstream)| {
                cpu::lstm::backward(sizes, x, output, saved, lengths.map(Ids::slice), upstream)
            })
        }
    }
}
