//! Rotation of pairs of values by an angle that grows with position.

use super::on_cpu;
use crate::array::Array;
use crate::cpu;
use crate::error::Result;
use crate::ids::Ids;
use crate::storage::Device;

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
pub(crate) struct Rotation {
    pub pairing: Pairing,
    pub heads: usize,
    pub width: usize,
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
    match x.device() {
        Device::Cpu | Device::Apart => {
            on_cpu("rotary", (x, cos, sin, positions), |(x, cos, sin, positions)| {
                cpu::rotary::rotate(x, cos, sin, positions.slice(), rotation)
            })
        }
    }
}
