//! x·W + b with an optional function of the result, finished while each band is in the cache.

use super::broadcast::AddInto;
use super::gemm::{self, Finish, Matrix, Output, Right};
use super::norm::BANDS;
use super::pointwise::{self, Lanes};
use super::simd::{self, dispatch};
use super::threads::{self, Shared};
use crate::array::Array;
use crate::kernels::linear::{Layout, Sizes};
use crate::kernels::pointwise::Function;
use crate::pool::Buffer;
use pulp::{Simd, WithSimd};

impl Sizes {
    /// The weight as an (inputs × outputs) matrix.
    fn weight<'a>(&self, weight: &'a Array) -> Right<'a> {
        let weight = weight.host_values();
        match self.layout {
            Layout::InOut => Right::rows(weight, self.outputs),
            Layout::OutIn => Right::rows(weight, self.inputs).transposed(),
        }
    }
}

/// The result, and the values before the function if its derivative needs them rather than the result. The weight may be of
/// any type.
pub(crate) fn forward(
    sizes: Sizes,
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    function: Option<Function>,
) -> (Array, Option<Array>) {
    let Sizes { rows, inputs, outputs, .. } = sizes;
    let (x, weight) = (Matrix::rows(x.slice(), inputs), sizes.weight(weight));
    let bias = bias.map(Array::slice);
    let shape = (rows, outputs, inputs);
    let mut after = Buffer::dirty(if function.is_some() { rows * outputs } else { 0 });
    let results = Shared::new(after.as_mut_slice());
    let product = Array::build(rows * outputs, |out| match function {
        Some(function) => pointwise::with_lanes!(function, lanes => {
            let finish = BiasThen { bias, lanes, outputs, results: &results };
            gemm::product_then(shape, x, weight, out, Output::Replace, &finish);
        }),
        None => gemm::product_then(shape, x, weight, out, Output::Replace, &BiasOnly(bias)),
    });
    match function {
        None => (product, None),
        Some(function) => {
            (Array::from_buffer(after), if function.saves_output() { None } else { Some(product) })
        }
    }
}

/// Adds the bias.
pub(super) struct BiasOnly<'a>(pub Option<&'a [f32]>);

impl Finish for BiasOnly<'_> {
    #[inline(always)]
    fn finish<S: Simd>(&self, s: S, _: usize, column: usize, values: &mut [f32]) {
        if let Some(bias) = self.0 {
            AddInto { total: values, x: &bias[column..] }.with_simd(s);
        }
    }
}

/// Adds the bias and writes the function of the sum elsewhere: the backward pass may need both.
struct BiasThen<'a, L> {
    bias: Option<&'a [f32]>,
    lanes: L,
    outputs: usize,
    results: &'a Shared<f32>,
}

impl<L: Lanes> Finish for BiasThen<'_, L> {
    #[inline(always)]
    fn finish<S: Simd>(&self, s: S, row: usize, column: usize, values: &mut [f32]) {
        BiasOnly(self.bias).finish(s, row, column, values);
        // SAFETY: no two calls get the same place.
        let result = unsafe { self.results.range(row * self.outputs + column, values.len()) };
        for i in 0..simd::registers(s, values) {
            simd::set(s, result, i, self.lanes.value(s, simd::get(s, values, i)));
        }
    }
}

/// The gradient before the function, from that after it, and the sums of its columns (the bias's gradient).
pub(crate) fn before_function(
    function: Function,
    saved: &Array,
    upstream: &Array,
    (rows, columns): (usize, usize),
    wants_bias: bool,
) -> (Array, Option<Array>) {
    let (saved, g) = (saved.slice(), upstream.slice());
    let band = rows.div_ceil(BANDS).max(threads::rows_per_task(columns)).max(1);
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

/// g·Wᵀ, for a weight of any type.
pub(crate) fn input_gradient(sizes: Sizes, weight: &Array, g: &Array) -> Array {
    let Sizes { rows, inputs, outputs, .. } = sizes;
    let weight = sizes.weight(weight).transposed();
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
