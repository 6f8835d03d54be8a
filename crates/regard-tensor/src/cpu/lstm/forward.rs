//! Forward: all steps of a few sequences in one direction are one task.

use super::{GATES, Lengths, Packed, Saved, UNITS, states};
use crate::array::Array;
use crate::cpu::gemm::{self, Matrix, Output};
use crate::cpu::linear::BiasOnly;
use crate::cpu::simd::{self, dispatch, sigmoid, tanh};
use crate::cpu::threads::{self, Shared};
use crate::cpu::tile::{Operand, accumulate, load, store};
use crate::kernels::lstm::{Sizes, Weights};
use crate::pool::Buffer;
use pulp::{Simd, WithSimd};

/// The hidden states (batch, time, directions·hidden), zero in the padding.
pub(crate) fn forward(sizes: Sizes, x: &Array, weights: &[Weights], lengths: Lengths) -> (Array, Saved) {
    let packed = Packed::new(sizes, weights);
    let Sizes { batch, time, inputs, directions, .. } = sizes;
    let row = sizes.gate_row();
    let mut gates = Buffer::dirty(batch * time * row);
    let bias = packed.bias.as_slice();
    let (a, b) = (Matrix::rows(x.slice(), inputs), Matrix::rows(packed.input.as_slice(), row));
    let shape = (batch * time, row, inputs);
    gemm::product_then(shape, a, b, gates.as_mut_slice(), Output::Replace, &BiasOnly(Some(bias)));
    let mut cells = states(lengths, batch * time * directions * sizes.padded());
    let mut output = states(lengths, batch * time * sizes.output_row());
    let places = (
        Shared::new(gates.as_mut_slice()),
        Shared::new(cells.as_mut_slice()),
        Shared::new(output.as_mut_slice()),
    );
    let rows = sizes.rows_per_task();
    let blocks = batch.div_ceil(rows);
    threads::run(directions * blocks, |task| {
        let (direction, first) = (task % directions, task / directions * rows);
        let n = rows.min(batch - first);
        let weight = packed.hidden(sizes, direction);
        dispatch(Run { sizes, direction, first, n, weight, lengths, places: &places });
    });
    let saved = Saved { packed, gates: Array::from_buffer(gates), cells: Array::from_buffer(cells) };
    (Array::from_buffer(output), saved)
}

/// A few sequences in one direction through all steps.
struct Run<'a> {
    sizes: Sizes,
    direction: usize,
    first: usize,
    n: usize,
    weight: &'a [f32],
    lengths: Lengths<'a>,
    places: &'a (Shared<f32>, Shared<f32>, Shared<f32>),
}

impl Run<'_> {
    fn active(&self, row: usize, time: usize) -> bool {
        self.lengths.is_none_or(|lengths| time < lengths[row] as usize)
    }
}

impl WithSimd for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let time = self.sizes.time;
        for step in 0..time {
            let t = if self.direction == 0 { step } else { time - 1 - step };
            let previous =
                if step == 0 { None } else { Some(if self.direction == 0 { t - 1 } else { t + 1 }) };
            for unit in (0..self.sizes.padded()).step_by(UNITS) {
                let mut row = self.first;
                let end = self.first + self.n;
                while row < end {
                    row += if S::REGISTER_COUNT >= 32 && end - row >= 6 {
                        self.cell::<S, 6>(s, row, unit, t, previous)
                    } else if S::REGISTER_COUNT >= 32 && end - row >= 4 {
                        self.cell::<S, 4>(s, row, unit, t, previous)
                    } else if end - row >= 2 {
                        self.cell::<S, 2>(s, row, unit, t, previous)
                    } else {
                        self.cell::<S, 1>(s, row, unit, t, previous)
                    };
                }
            }
        }
    }
}

impl Run<'_> {
    /// One step of `M` sequences for 16 units. Returns `M`.
    #[inline(always)]
    fn cell<S: Simd, const M: usize>(
        &self,
        s: S,
        row: usize,
        unit: usize,
        t: usize,
        previous: Option<usize>,
    ) -> usize {
        let sizes = self.sizes;
        if (row..row + M).all(|row| !self.active(row, t)) {
            return M;
        }
        let (gates, cells, output) = self.places;
        let gate_at =
            |row: usize, t: usize| (row * sizes.time + t) * sizes.gate_row() + self.direction * sizes.gates();
        let cell_at = |row: usize, t: usize| {
            ((row * sizes.time + t) * sizes.directions + self.direction) * sizes.padded()
        };
        let output_at = |row: usize, t: usize| {
            (row * sizes.time + t) * sizes.output_row() + self.direction * sizes.hidden
        };
        for lane in (0..UNITS).step_by(S::F32_LANES) {
            let column = unit * GATES + lane;
            // SAFETY: rows below the batch, steps below the time, columns below the gates: inside all three arrays,
            // and no other task has these rows in this direction.
            unsafe {
                let mut sums = [[s.splat_f32s(0.0); GATES]; M];
                for (i, sums) in sums.iter_mut().enumerate() {
                    for (gate, sum) in sums.iter_mut().enumerate() {
                        *sum = load(s, gates.pointer(gate_at(row + i, t) + column + gate * UNITS));
                    }
                }
                if let Some(previous) = previous {
                    let h = output.pointer(output_at(row, previous));
                    let stride = sizes.time * sizes.output_row();
                    gate_sums(s, sizes, h, stride, self.weight[column..].as_ptr(), &mut sums);
                }
                for (i, [input, forget, new, out]) in sums.into_iter().enumerate() {
                    let row = row + i;
                    if !self.active(row, t) {
                        continue; // output and cell stay zero
                    }
                    let (input, forget) = (sigmoid(s, input), sigmoid(s, forget));
                    let (new, out) = (tanh(s, new), sigmoid(s, out));
                    for (gate, value) in [input, forget, new, out].into_iter().enumerate() {
                        store(s, gates.pointer(gate_at(row, t) + column + gate * UNITS), value);
                    }
                    let mut cell = s.mul_f32s(input, new);
                    if let Some(previous) = previous {
                        let old = load(s, cells.pointer(cell_at(row, previous) + unit + lane));
                        cell = s.mul_add_e_f32s(forget, old, cell);
                    }
                    store(s, cells.pointer(cell_at(row, t) + unit + lane), cell);
                    let h = s.mul_f32s(out, tanh(s, cell));
                    if unit + lane < sizes.hidden {
                        simd::set(
                            s,
                            output.range(output_at(row, t), sizes.hidden),
                            (unit + lane) / S::F32_LANES,
                            h,
                        );
                    }
                }
            }
        }
        M
    }
}

/// `sums += h · W` for four gates of one register of units.
///
/// # Safety
/// `h` must have M rows of `hidden` values, `stride` apart, and `weight` `hidden` rows of the gates.
#[inline(always)]
unsafe fn gate_sums<S: Simd, const M: usize>(
    s: S,
    sizes: Sizes,
    h: *const f32,
    stride: usize,
    weight: *const f32,
    sums: &mut [[S::f32s; GATES]; M],
) {
    let row = sizes.gates();
    // SAFETY: promised by the caller.
    unsafe {
        if S::F32_LANES == UNITS {
            // Four neighbouring registers.
            return accumulate(
                s,
                sizes.hidden,
                Operand { start: h, row: stride, column: 1 },
                (weight, row),
                sums,
            );
        }
        for k in 0..sizes.hidden {
            let vectors: [S::f32s; GATES] =
                std::array::from_fn(|gate| load(s, weight.add(k * row + gate * UNITS)));
            for (i, sums) in sums.iter_mut().enumerate() {
                let value = s.splat_f32s(*h.add(i * stride + k));
                for (sum, vector) in sums.iter_mut().zip(vectors) {
                    *sum = s.mul_add_e_f32s(value, vector, *sum);
                }
            }
        }
    }
}
