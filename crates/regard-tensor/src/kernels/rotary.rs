//! Rotation of pairs of values by an angle that grows with position.

use super::memory::convert;
use super::on_cpu;
use crate::array::Array;
use crate::error::Result;
use crate::ids::Ids;
use crate::storage::{DataType, Kernels};
use crate::{cpu, cuda};

/// Which values form a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// (i, i + half): GPT-NeoX and Llama.
    Halves,
    /// (2i, 2i + 1): the RoFormer paper and GPT-J.
    Interleaved,
}

/// The layout: (batch, time, heads, width), of which the first `rotated` values of each head turn.
#[derive(Debug, Clone, Copy)]
pub struct Rotation {
    /// Which values form a pair.
    pub pairing: Pairing,
    /// Heads of a position.
    pub heads: usize,
    /// Values of a head.
    pub width: usize,
    /// How many of them turn.
    pub rotated: usize,
    /// 1 to rotate, −1 to rotate back: the gradient.
    pub direction: f32,
}

/// `cos` and `sin` hold (positions, rotated / 2); `positions` one for each (batch, time).
pub(crate) fn rotate(
    x: &Array,
    cos: &Array,
    sin: &Array,
    positions: &Ids,
    rotation: Rotation,
) -> Result<Array> {
    match x.kernels() {
        Kernels::Cuda => {
            let (cos, sin) = (convert(cos, DataType::F32)?, convert(sin, DataType::F32)?);
            let positions = positions.cuda(x.device())?;
            Ok(cuda::rotary::rotate(x.cuda()?, cos.cuda()?, sin.cuda()?, positions.view()?, rotation)?.into())
        }
        Kernels::Cpu => on_cpu("rotary", (x, cos, sin, positions), |(x, cos, sin, positions)| {
            cpu::rotary::rotate(x, cos, sin, positions.slice(), rotation)
        }),
    }
}
