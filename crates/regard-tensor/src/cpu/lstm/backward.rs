//! Backward: the steps in reverse, then the gradients of the weights as products over all steps.

use super::{GATES, Lengths, Saved, Together, UNITS, states, together};
use crate::array::Array;
use crate::cpu::gemm::{self, Matrix, Output};
use crate::cpu::reduce;
use crate::cpu::simd::{self, dispatch, tanh};
use crate::cpu::threads::{self, Shared};
use crate::cpu::tile::{self, Operand, Start};
use crate::cpu::transpose::Transpose;
use crate::kernels::lstm::{LstmGradients, Sizes, Weights};
use crate::pool::Buffer;
use pulp::{Simd, WithSimd};

pub(crate) fn backward(
    sizes: Sizes,
    x: &Array,
    output: &Array,
    saved: &Saved,
    lengths: Lengths,
    upstream: &Array,
) -> LstmGradients {
    let Sizes { batch, time, inputs, directions, .. } = sizes;
    let row = sizes.gate_row();
    let mut slopes = states(lengths, batch * time * row);
    let places = Shared::new(slopes.as_mut_slice());
    let rows = sizes.rows_per_task();
    let blocks = batch.div_ceil(rows);
    threads::run(directions * blocks, |task| {
        let (direction, first) = (task % directions, task / directions * rows);
        let n = rows.min(batch - first);
        dispatch(Reverse {
            sizes,
            direction,
            first,
            n,
            weight: saved.packed.back(sizes, direction),
            lengths,
            gates: saved.gates.slice(),
            cells: saved.cells.slice(),
            upstream: upstream.slice(),
            slopes: &places,
        });
    });
    let slopes = slopes.as_slice();
    let dx = Array::build(batch * time * inputs, |dx| {
        let weight = Matrix::rows(saved.packed.input.as_slice(), row).transposed();
        gemm::product((batch * time, inputs, row), Matrix::rows(slopes, row), weight, dx, Output::Replace);
    });
    let mut d_input = Buffer::dirty(inputs * row);
    let x_columns = Matrix::rows(x.slice(), inputs).transposed();
    let shape = (inputs, row, batch * time);
    gemm::product(shape, x_columns, Matrix::rows(slopes, row), d_input.as_mut_slice(), Output::Replace);
    let mut d_bias = Buffer::zeros(row);
    reduce::add_column_sums(slopes, batch * time, row, d_bias.as_mut_slice());
    let weights = (0..directions)
        .map(|direction| {
            let d_hidden = hidden_gradient(sizes, direction, output.slice(), slopes);
            unpack(sizes, direction, d_input.as_slice(), &d_hidden, d_bias.as_slice())
        })
        .collect();
    LstmGradients { x: dx, weights }
}

/// (hidden, gates): the previous hidden states, transposed, times the gates' gradients.
fn hidden_gradient(sizes: Sizes, direction: usize, output: &[f32], slopes: &[f32]) -> Buffer {
    let Sizes { batch, time, hidden, .. } = sizes;
    let mut previous = Buffer::dirty(batch * time * hidden);
    threads::chunks(previous.as_mut_slice(), time * hidden, |example, previous| {
        for t in 0..time {
            let before = if direction == 0 { t.checked_sub(1) } else { Some(t + 1).filter(|&t| t < time) };
            let place = &mut previous[t * hidden..(t + 1) * hidden];
            match before {
                Some(t) => {
                    let from = (example * time + t) * sizes.output_row() + direction * hidden;
                    place.copy_from_slice(&output[from..from + hidden]);
                }
                None => place.fill(0.0),
            }
        }
    });
    let mut gradient = Buffer::dirty(hidden * sizes.gates());
    let a = Matrix::rows(previous.as_slice(), hidden).transposed();
    let b = Matrix { values: &slopes[direction * sizes.gates()..], row: sizes.gate_row(), column: 1 };
    let shape = (hidden, sizes.gates(), batch * time);
    gemm::product(shape, a, b, gradient.as_mut_slice(), Output::Replace);
    gradient
}

/// Gradients of one direction's weights, back in PyTorch's layout.
fn unpack(sizes: Sizes, direction: usize, d_input: &[f32], d_hidden: &Buffer, d_bias: &[f32]) -> Weights {
    let Sizes { inputs, hidden, .. } = sizes;
    let (gates, row) = (sizes.gates(), sizes.gate_row());
    let d_hidden = d_hidden.as_slice();
    Weights {
        input: Array::build(GATES * hidden * inputs, |out| {
            for Together { from: to, to: from, n } in together(sizes).filter(|_| inputs > 0) {
                let columns = (&d_input[direction * gates + from..], row);
                dispatch(Transpose {
                    shape: (inputs, n),
                    from: columns,
                    to: (&mut out[to * inputs..], inputs),
                    scale: 1.0,
                });
            }
        }),
        hidden: Array::build(GATES * hidden * hidden, |out| {
            for Together { from: to, to: from, n } in together(sizes) {
                let columns = (&d_hidden[from..], gates);
                dispatch(Transpose {
                    shape: (hidden, n),
                    from: columns,
                    to: (&mut out[to * hidden..], hidden),
                    scale: 1.0,
                });
            }
        }),
        bias: Array::build(GATES * hidden, |out| {
            for Together { from: to, to: from, n } in together(sizes) {
                out[to..to + n].copy_from_slice(&d_bias[direction * gates + from..][..n]);
            }
        }),
    }
}

/// A few sequences in one direction back through all steps.
struct Reverse<'a> {
    sizes: Sizes,
    direction: usize,
    first: usize,
    n: usize,
    weight: &'a [f32],
    lengths: Lengths<'a>,
    gates: &'a [f32],
    cells: &'a [f32],
    upstream: &'a [f32],
    slopes: &'a Shared<f32>,
}

impl WithSimd for Reverse<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let sizes = self.sizes;
        let (time, padded) = (sizes.time, sizes.padded());
        // What flows back from the step after: to the hidden and to the cell state of each sequence.
        let mut d_hidden = Buffer::zeros(self.n * padded);
        let mut d_cell = Buffer::zeros(self.n * padded);
        for step in (0..time).rev() {
            let t = if self.direction == 0 { step } else { time - 1 - step };
            let previous =
                if step == 0 { None } else { Some(if self.direction == 0 { t - 1 } else { t + 1 }) };
            for i in 0..self.n {
                if self.lengths.is_none_or(|lengths| t < lengths[self.first + i] as usize) {
                    let range = i * padded..(i + 1) * padded;
                    let (dh, dc) = (&d_hidden.as_slice()[range.clone()], &mut d_cell.as_mut_slice()[range]);
                    self.gates(s, i, t, previous, dh, dc);
                }
            }
            if step > 0 {
                let a = Operand {
                    start: self.slopes.pointer(self.slope_at(self.first, t)),
                    row: time * sizes.gate_row(),
                    column: 1,
                };
                let c = (d_hidden.as_mut_slice().as_mut_ptr(), padded);
                // SAFETY: `n` rows of gate gradients that this task alone writes; the weight has `gates` rows of
                // `padded`, and `padded` is a multiple of every register's length.
                unsafe {
                    let shape = (self.n, padded, sizes.gates());
                    tile::product(s, shape, a, (self.weight.as_ptr(), padded), c, Start::Zero);
                }
            }
        }
    }
}

impl Reverse<'_> {
    fn slope_at(&self, row: usize, t: usize) -> usize {
        (row * self.sizes.time + t) * self.sizes.gate_row() + self.direction * self.sizes.gates()
    }

    /// From the gradients of h and c of one sequence at one step to those of its gates and of the cell before.
    #[inline(always)]
    fn gates<S: Simd>(&self, s: S, i: usize, t: usize, previous: Option<usize>, dh: &[f32], dc: &mut [f32]) {
        let sizes = self.sizes;
        let row = self.first + i;
        let cell_at =
            |t: usize| ((row * sizes.time + t) * sizes.directions + self.direction) * sizes.padded();
        let gates = &self.gates[self.slope_at(row, t)..][..sizes.gates()];
        // SAFETY: no other task has this row in this direction.
        let slopes = unsafe { self.slopes.range(self.slope_at(row, t), sizes.gates()) };
        let cells = &self.cells[cell_at(t)..][..sizes.padded()];
        let before = previous.map(|t| &self.cells[cell_at(t)..][..sizes.padded()]);
        let from = (row * sizes.time + t) * sizes.output_row() + self.direction * sizes.hidden;
        let upstream = &self.upstream[from..from + sizes.hidden];
        for i in 0..sizes.padded() / S::F32_LANES {
            let unit = i * S::F32_LANES;
            let column = unit / UNITS * UNITS * GATES + unit % UNITS;
            let [input, forget, new, out] = std::array::from_fn(
                #[inline(always)]
                |gate| simd::get(s, &gates[column + gate * UNITS..], 0),
            );
            let g = if unit < sizes.hidden { simd::get(s, upstream, i) } else { s.splat_f32s(0.0) };
            let dh = s.add_f32s(g, simd::get(s, dh, i));
            let squashed = tanh(s, simd::get(s, cells, i));
            let d_out = s.mul_f32s(dh, squashed);
            // dc += dh·o·(1 − tanh²c)
            let through = s.mul_f32s(dh, out);
            let bent = s.sub_f32s(through, s.mul_f32s(through, s.mul_f32s(squashed, squashed)));
            let d_cell = s.add_f32s(simd::get(s, dc, i), bent);
            let old = match before {
                Some(cells) => simd::get(s, cells, i),
                None => s.splat_f32s(0.0),
            };
            let d_new = s.mul_f32s(d_cell, input);
            let results = [
                through_sigmoid(s, s.mul_f32s(d_cell, new), input),
                through_sigmoid(s, s.mul_f32s(d_cell, old), forget),
                s.sub_f32s(d_new, s.mul_f32s(d_new, s.mul_f32s(new, new))),
                through_sigmoid(s, d_out, out),
            ];
            for (gate, value) in results.into_iter().enumerate() {
                simd::set(s, &mut slopes[column + gate * UNITS..], 0, value);
            }
            simd::set(s, dc, i, s.mul_f32s(d_cell, forget));
        }
    }
}

/// d·y·(1 − y): the gradient before a sigmoid with value y.
#[inline(always)]
fn through_sigmoid<S: Simd>(s: S, d: S::f32s, y: S::f32s) -> S::f32s {
    s.mul_f32s(d, s.sub_f32s(y, s.mul_f32s(y, y)))
}
