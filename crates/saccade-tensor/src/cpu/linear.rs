//! x·W + b with an optional function of the result, finished while each band is in the cache.

use super::broadcast::AddInto;
use super::gemm::{self, Matrix, Output};
use super::pointwise::{self, Function};
use super::reduce;
use super::simd::dispatch;
use super::threads::{self, Shared};
use crate::array::Array;

/// How the weight lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// (inputs, outputs): GPT-2's `Conv1D`.
    InOut,
    /// (outputs, inputs): PyTorch's `Linear`.
    OutIn,
}

/// The sizes of the problem.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub rows: usize,
    pub inputs: usize,
    pub outputs: usize,
    pub layout: Layout,
}

impl Sizes {
    /// The weight as an (inputs × outputs) matrix.
    fn weight<'a>(&self, weight: &'a [f32]) -> Matrix<'a> {
        match self.layout {
            Layout::InOut => Matrix::rows(weight, self.outputs),
            Layout::OutIn => Matrix::rows(weight, self.inputs).transposed(),
        }
    }
}

/// The result, and what the function's derivative needs of it (see [`Function::saves_output`]).
pub(crate) fn forward(
    sizes: Sizes,
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    function: Option<Function>,
) -> (Array, Option<Array>) {
    let Sizes { rows, inputs, outputs, .. } = sizes;
    let (x, weight) = (Matrix::rows(x.slice(), inputs), sizes.weight(weight.slice()));
    let bias = bias.map(Array::slice);
    let add_bias = |band: &mut [f32]| {
        if let Some(bias) = bias {
            band.chunks_mut(outputs).for_each(|row| dispatch(AddInto { total: row, x: bias }));
        }
    };
    let shape = (rows, outputs, inputs);
    match function {
        Some(function) if !function.saves_output() => {
            let mut result = crate::pool::Buffer::dirty(rows * outputs);
            let results = Shared::new(result.as_mut_slice());
            let before = Array::build(rows * outputs, |out| {
                gemm::product_then(shape, x, weight, out, Output::Replace, |first, band| {
                    add_bias(band);
                    // SAFETY: bands are disjoint.
                    let result = unsafe { results.range(first * outputs, band.len()) };
                    pointwise::apply(function, band, result);
                });
            });
            (Array::from_buffer(result), Some(before))
        }
        _ => {
            let result = Array::build(rows * outputs, |out| {
                gemm::product_then(shape, x, weight, out, Output::Replace, |_, band| {
                    add_bias(band);
                    if let Some(function) = function {
                        apply_in_place(function, band);
                    }
                });
            });
            let saved = function.map(|_| result.clone());
            (result, saved)
        }
    }
}

/// For the few functions whose derivative needs only the output: in pieces through a small copy.
fn apply_in_place(function: Function, values: &mut [f32]) {
    let mut copy = [0.0; 256];
    for piece in values.chunks_mut(copy.len()) {
        let copy = &mut copy[..piece.len()];
        copy.copy_from_slice(piece);
        pointwise::apply(function, copy, piece);
    }
}

/// The gradient before the function, from that after it, and the sums of its columns (the bias's gradient).
pub(crate) fn before_function(
    function: Option<Function>,
    saved: Option<&Array>,
    upstream: &Array,
    (rows, columns): (usize, usize),
    wants_bias: bool,
) -> (Array, Option<Array>) {
    let (Some(function), Some(saved)) = (function, saved) else {
        let bias = wants_bias.then(|| reduce::column_sums(upstream, rows, columns));
        return (upstream.clone(), bias);
    };
    let (saved, g) = (saved.slice(), upstream.slice());
    let band = rows.div_ceil(16).max(threads::rows_per_task(columns)).max(1);
    let mut partial = Array::zeros(rows.div_ceil(band) * columns);
    let partials = Shared::new(partial.slice_mut());
    let gradient = Array::build(rows * columns, |out| {
        threads::chunks(out, (band * columns).max(1), |index, out| {
            let start = index * band * columns;
            // SAFETY: each band has its own row of partial sums.
            let total = unsafe { partials.range(index * columns, columns) };
            for (row, out) in out.chunks_mut(columns.max(1)).enumerate() {
                let at = start + row * columns;
                pointwise::apply_gradient(function, &saved[at..at + columns], &g[at..at + columns], out);
                if wants_bias {
                    dispatch(AddInto { total, x: out });
                }
            }
        });
    });
    let bias = wants_bias.then(|| {
        let mut total = Array::zeros(columns);
        for partial in partial.slice().chunks(columns.max(1)) {
            dispatch(AddInto { total: total.slice_mut(), x: partial });
        }
        total
    });
    (gradient, bias)
}

/// g·Wᵀ.
pub(crate) fn input_gradient(sizes: Sizes, weight: &Array, g: &Array) -> Array {
    let Sizes { rows, inputs, outputs, .. } = sizes;
    let weight = sizes.weight(weight.slice()).transposed();
    Array::build(rows * inputs, |out| {
        let g = Matrix::rows(g.slice(), outputs);
        gemm::product((rows, inputs, outputs), g, weight, out, Output::Replace);
    })
}

/// xᵀ·g, in the layout of the weight.
pub(crate) fn weight_gradient(sizes: Sizes, x: &Array, g: &Array) -> Array {
    let Sizes { rows, inputs, outputs, layout } = sizes;
    let (x, g) = (Matrix::rows(x.slice(), inputs), Matrix::rows(g.slice(), outputs));
    Array::build(inputs * outputs, |out| match layout {
        Layout::InOut => gemm::product((inputs, outputs, rows), x.transposed(), g, out, Output::Replace),
        Layout::OutIn => gemm::product((outputs, inputs, rows), g.transposed(), x, out, Output::Replace),
    })
}
