//! An LSTM over whole sequences, in one or both directions (Hochreiter & Schmidhuber, 1997).
//!
//! ```text
//! i, f, g, o = σ, σ, tanh, σ of (x·Wᵢ + h·Wₕ + b)      c ← f∘c + i∘g      h = o∘tanh(c)
//! ```
//!
//! The product with x is one large matrix product for all steps. The product with h must go step by step; here the
//! columns of its weight are interleaved, so that one register tile holds the four gates of the same 16 units and the
//! gates can be finished where they are. Sequences of a batch do not depend on one another: each task takes a few of
//! them in one direction through all steps.

mod backward;
mod forward;

pub(crate) use backward::backward;
pub(crate) use forward::forward;

use crate::array::Array;
use crate::cpu::simd::dispatch;
use crate::cpu::tile;
use crate::cpu::transpose::Transpose;
use crate::kernels::lstm::{Sizes, Weights};
use crate::pool::Buffer;

/// Gates of this many units lie together: i of 16 units, then f, g and o of the same units.
const UNITS: usize = 16;
const GATES: usize = 4;

impl Sizes {
    /// Hidden units rounded up to whole groups.
    fn padded(self) -> usize {
        self.hidden.next_multiple_of(UNITS)
    }

    /// Gate values of one direction at one step.
    fn gates(self) -> usize {
        GATES * self.padded()
    }

    fn gate_row(self) -> usize {
        self.directions * self.gates()
    }

    fn output_row(self) -> usize {
        self.directions * self.hidden
    }

    /// Sequences that a task takes through time: by the batch alone, so that results do not depend on threads, and as many as
    /// fill whole register tiles.
    fn rows_per_task(self) -> usize {
        self.batch.div_ceil(16).max(1).next_multiple_of(tile::ROWS)
    }
}

/// Where PyTorch's row `gate·hidden + unit` lies among the interleaved gates.
fn interleaved(gate: usize, unit: usize) -> usize {
    unit / UNITS * UNITS * GATES + gate * UNITS + unit % UNITS
}

/// Units of one gate that lie together in both orders: `n` rows of PyTorch's from `from` on are at `to` on.
struct Together {
    from: usize,
    to: usize,
    n: usize,
}

/// All rows of a weight, a few units at a time.
fn together(sizes: Sizes) -> impl Iterator<Item = Together> {
    let hidden = sizes.hidden;
    (0..GATES).flat_map(move |gate| {
        (0..hidden).step_by(UNITS).map(move |unit| Together {
            from: gate * hidden + unit,
            to: interleaved(gate, unit),
            n: UNITS.min(hidden - unit),
        })
    })
}

/// The weights of all directions, rearranged for the kernels.
struct Packed {
    /// (inputs, directions·gates).
    input: Buffer,
    /// For each direction (hidden, gates).
    hidden: Buffer,
    /// For each direction its transpose, (gates, padded).
    back: Buffer,
    /// (directions·gates).
    bias: Buffer,
}

impl Packed {
    fn new(sizes: Sizes, weights: &[Weights]) -> Self {
        let (gates, padded, row) = (sizes.gates(), sizes.padded(), sizes.gate_row());
        let mut packed = Self {
            input: Buffer::zeros(sizes.inputs * row),
            hidden: Buffer::zeros(sizes.directions * sizes.hidden * gates),
            back: Buffer::zeros(sizes.directions * gates * padded),
            bias: Buffer::zeros(row),
        };
        for (direction, weights) in weights.iter().enumerate() {
            let (w_in, w_hidden, bias) =
                (weights.input.slice(), weights.hidden.slice(), weights.bias.slice());
            let input = packed.input.as_mut_slice();
            let input = &mut input[(direction * gates).min(sizes.inputs * row)..];
            let hidden = &mut packed.hidden.as_mut_slice()[direction * sizes.hidden * gates..];
            let back = &mut packed.back.as_mut_slice()[direction * gates * padded..];
            let packed_bias = &mut packed.bias.as_mut_slice()[direction * gates..];
            for Together { from, to, n } in together(sizes) {
                packed_bias[to..to + n].copy_from_slice(&bias[from..from + n]);
                if sizes.inputs > 0 {
                    let rows = (&w_in[from * sizes.inputs..], sizes.inputs);
                    dispatch(Transpose {
                        shape: (n, sizes.inputs),
                        from: rows,
                        to: (&mut input[to..], row),
                        scale: 1.0,
                    });
                }
                let rows = (&w_hidden[from * sizes.hidden..], sizes.hidden);
                dispatch(Transpose {
                    shape: (n, sizes.hidden),
                    from: rows,
                    to: (&mut hidden[to..], gates),
                    scale: 1.0,
                });
                for (row, back) in
                    rows.0.chunks(sizes.hidden).zip(back[to * padded..].chunks_mut(padded)).take(n)
                {
                    back[..sizes.hidden].copy_from_slice(row);
                }
            }
        }
        packed
    }

    fn hidden(&self, sizes: Sizes, direction: usize) -> &[f32] {
        &self.hidden.as_slice()[direction * sizes.hidden * sizes.gates()..]
    }

    fn back(&self, sizes: Sizes, direction: usize) -> &[f32] {
        &self.back.as_slice()[direction * sizes.gates() * sizes.padded()..]
    }
}

/// What the backward pass needs of the forward pass.
pub(crate) struct Saved {
    packed: Packed,
    /// Activated gates, (batch, time, directions, gates).
    gates: Array,
    /// Cell states, (batch, time, directions, padded).
    cells: Array,
}

/// Steps of each sequence that are not padding; all steps without.
type Lengths<'a> = Option<&'a [u32]>;

/// Memory for all steps: zeros where there is padding, which is never written; else every value will be.
fn states(lengths: Lengths, len: usize) -> Buffer {
    if lengths.is_some() { Buffer::zeros(len) } else { Buffer::dirty(len) }
}
