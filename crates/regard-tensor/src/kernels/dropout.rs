//! Dropout: which values to keep, drawn by place.

use super::on_cpu;
use crate::array::Array;
use crate::error::Result;
use crate::random::Key;
use crate::storage::Kernels;
use crate::{cpu, cuda};

/// Where the draws of an array come from: its leading axis counts examples from `first_example` on.
#[derive(Debug, Clone, Copy)]
pub struct Draws {
    /// The source.
    pub key: Key,
    /// The number of the first example.
    pub first_example: u64,
    /// Values of one example.
    pub per_example: usize,
    /// A word at or above this keeps its value.
    pub threshold: u32,
    /// What a kept value is multiplied with: 1 / (1 − p).
    pub scale: f32,
}

/// Multiplies each value with 0 or `scale`, by its draw. The backward pass is the same, applied to the gradient.
pub(crate) fn apply(x: &Array, draws: Draws) -> Result<Array> {
    match x.kernels() {
        Kernels::Cuda => Ok(cuda::dropout::apply(x.cuda()?, draws)?.into()),
        Kernels::Cpu => on_cpu("dropout", x, |x| cpu::dropout::apply(x, draws)),
    }
}
