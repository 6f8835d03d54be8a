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

use super::gemm::{self, Matrix, Output};
use super::linear::BiasOnly;
use super::reduce;
use super::simd::{self, dispatch, sigmoid, tanh};
use super::threads::{self, Shared};
use super::tile::{Operand, accumulate, load, store};
use crate::array::Array;
use crate::pool::Buffer;
use pulp::{Simd, WithSimd};

/// Gates of this many units lie together: i of 16 units, then f, g and o of the same units.
const UNITS: usize = 16;
const GATES: usize = 4;

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

    /// Sequences that a task takes through time: by the batch alone, so that results do not depend on threads.
    fn rows_per_task(self) -> usize {
        self.batch.div_ceil(8).max(12.min(self.batch)).max(1)
    }
}

/// Where PyTorch's row `gate·hidden + unit` lies among the interleaved gates.
fn interleaved(gate: usize, unit: usize) -> usize {
    unit / UNITS * UNITS * GATES + gate * UNITS + unit % UNITS
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
            let hidden = &mut packed.hidden.as_mut_slice()[direction * sizes.hidden * gates..];
            let back = &mut packed.back.as_mut_slice()[direction * gates * padded..];
            for gate in 0..GATES {
                for unit in 0..sizes.hidden {
                    let (from, to) = (gate * sizes.hidden + unit, interleaved(gate, unit));
                    packed.bias.as_mut_slice()[direction * gates + to] = bias[from];
                    for (k, &w) in w_in[from * sizes.inputs..][..sizes.inputs].iter().enumerate() {
                        packed.input.as_mut_slice()[k * row + direction * gates + to] = w;
                    }
                    let row = &w_hidden[from * sizes.hidden..][..sizes.hidden];
                    back[to * padded..][..sizes.hidden].copy_from_slice(row);
                    for (k, &w) in row.iter().enumerate() {
                        hidden[k * gates + to] = w;
                    }
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

/// Steps of one sequence that are not padding, for each sequence; all steps without.
type Lengths<'a> = Option<&'a [usize]>;

/// Memory for all steps: zeros where there is padding, which is never written; else every value will be.
fn states(lengths: Lengths, len: usize) -> Buffer {
    if lengths.is_some() { Buffer::zeros(len) } else { Buffer::dirty(len) }
}

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
        self.lengths.is_none_or(|lengths| time < lengths[row])
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

/// Gradients of the input and of each direction's weights.
pub(crate) struct LstmGradients {
    pub x: Array,
    pub weights: Vec<Weights>,
}

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
    let each = |f: &mut dyn FnMut(usize, usize)| {
        for gate in 0..GATES {
            for unit in 0..hidden {
                f(gate * hidden + unit, interleaved(gate, unit));
            }
        }
    };
    Weights {
        input: Array::build(GATES * hidden * inputs, |out| {
            each(&mut |to, from| {
                for k in 0..inputs {
                    out[to * inputs + k] = d_input[k * row + direction * gates + from];
                }
            });
        }),
        hidden: Array::build(GATES * hidden * hidden, |out| {
            each(&mut |to, from| {
                for k in 0..hidden {
                    out[to * hidden + k] = d_hidden[k * gates + from];
                }
            });
        }),
        bias: Array::build(GATES * hidden, |out| {
            each(&mut |to, from| out[to] = d_bias[direction * gates + from]);
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
                if self.lengths.is_none_or(|lengths| t < lengths[self.first + i]) {
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
                    super::tile::product(
                        s,
                        shape,
                        a,
                        (self.weight.as_ptr(), padded),
                        c,
                        super::tile::Start::Zero,
                    );
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
