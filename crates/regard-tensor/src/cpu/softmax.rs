//! Softmax and log-softmax over rows, with or without a mask.

use super::simd::{self, dispatch};
use super::threads;
use crate::array::Array;
use crate::ids::Mask;
use crate::shape::Shape;
use pulp::{Simd, WithSimd};

/// Which places of a row count: all, or those that a mask (broadcast over the rows) allows.
struct RowMask<'a> {
    values: &'a [bool],
    /// For each axis but the last: its length and the mask's stride along it.
    outer: Vec<(usize, usize)>,
    last_stride: usize,
}

impl<'a> RowMask<'a> {
    fn new(mask: &'a Mask, shape: &Shape) -> Self {
        let strides = mask.shape().broadcast_strides(shape);
        let (&last_stride, outer) = strides.split_last().unwrap_or((&0, &[]));
        let outer = shape.iter().copied().zip(outer.iter().copied()).collect();
        Self { values: mask.values(), outer, last_stride }
    }

    /// Sets the places of row `row` that the mask excludes to −∞.
    fn exclude(&self, row: usize, x: &mut [f32]) {
        let mut rest = row;
        let mut start = 0;
        for &(length, stride) in self.outer.iter().rev() {
            start += rest % length * stride;
            rest /= length;
        }
        for (i, x) in x.iter_mut().enumerate() {
            if !self.values[start + i * self.last_stride] {
                *x = f32::NEG_INFINITY;
            }
        }
    }
}

/// Rows of the last axis to weights that sum to 1 (or, with `log`, to their logarithms).
///
/// A row with nothing allowed gives zeros (−∞ with `log`), not NaN.
pub(crate) fn forward(x: &Array, shape: &Shape, mask: Option<&Mask>, log: bool) -> Array {
    let (x, width) = (x.slice(), shape.last());
    let mask = mask.map(|mask| RowMask::new(mask, shape));
    Array::build(x.len(), |out| {
        let rows = threads::rows_per_task(width);
        threads::chunks(out, rows * width, |index, out| {
            for (i, out) in out.chunks_mut(width.max(1)).enumerate() {
                let row = index * rows + i;
                out.copy_from_slice(&x[row * width..(row + 1) * width]);
                if let Some(mask) = &mask {
                    mask.exclude(row, out);
                }
                if log { log_row(out) } else { dispatch(WeighRow(out)) }
            }
        });
    })
}

fn log_row(row: &mut [f32]) {
    let total = dispatch(LogSumExp(row));
    if total > f32::NEG_INFINITY || total.is_nan() {
        for x in row {
            *x -= total;
        }
    }
}

/// The largest value of a slice; −∞ if it is empty.
#[inline(always)]
pub(crate) fn row_max<S: Simd>(s: S, row: &[f32]) -> f32 {
    let (body, tail) = S::as_simd_f32s(row);
    let lowest = s.splat_f32s(f32::NEG_INFINITY);
    let mut best = [lowest; 4];
    let (fours, rest) = pulp::as_arrays::<4, _>(body);
    for four in fours {
        for (best, &x) in best.iter_mut().zip(four) {
            *best = s.max_f32s(*best, x);
        }
    }
    for &x in rest {
        best[0] = s.max_f32s(best[0], x);
    }
    let best = s.max_f32s(s.max_f32s(best[0], best[1]), s.max_f32s(best[2], best[3]));
    tail.iter().fold(s.reduce_max_f32s(best), |best, &x| best.max(x))
}

/// A maximum over NaN alone may come out as −∞, and NaN must not be taken for "nothing allowed".
fn has_nan(row: &[f32]) -> bool {
    row.iter().any(|x| x.is_nan())
}

/// ln Σ eˣ of a row, shifted by its maximum so that nothing overflows; −∞ if nothing is allowed.
pub(crate) struct LogSumExp<'a>(pub &'a [f32]);

impl WithSimd for LogSumExp<'_> {
    type Output = f32;
    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) -> f32 {
        let max = row_max(s, self.0);
        if max == f32::NEG_INFINITY && !has_nan(self.0) {
            return max;
        }
        let shift = s.splat_f32s(max);
        max + simd::sum(
            s,
            self.0,
            #[inline(always)]
            |x| simd::exp(s, s.sub_f32s(x, shift)),
        )
        .ln()
    }
}

/// Softmax of a row in place.
struct WeighRow<'a>(&'a mut [f32]);

impl WithSimd for WeighRow<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let row = self.0;
        let max = row_max(s, row);
        if max == f32::NEG_INFINITY && !has_nan(row) {
            return row.fill(0.0);
        }
        let shift = s.splat_f32s(max);
        for i in 0..simd::registers(s, row) {
            let weight = simd::exp(s, s.sub_f32s(simd::get(s, row, i), shift));
            simd::set(s, row, i, weight);
        }
        let scale = s.splat_f32s(
            1.0 / simd::sum(
                s,
                row,
                #[inline(always)]
                |x| x,
            ),
        );
        for i in 0..simd::registers(s, row) {
            let weight = s.mul_f32s(simd::get(s, row, i), scale);
            simd::set(s, row, i, weight);
        }
    }
}

/// From weights w and gradient g: w·(g − Σ g·w). From log-weights y: g − e^y·Σ g.
pub(crate) fn backward(y: &Array, upstream: &Array, width: usize, log: bool) -> Array {
    let (y, g) = (y.slice(), upstream.slice());
    Array::build(y.len(), |out| {
        let rows = threads::rows_per_task(width);
        threads::chunks(out, rows * width, |index, out| {
            for (i, out) in out.chunks_mut(width.max(1)).enumerate() {
                let range = (index * rows + i) * width..(index * rows + i + 1) * width;
                dispatch(ReverseRow { y: &y[range.clone()], g: &g[range], out, log });
            }
        });
    })
}

struct ReverseRow<'a> {
    y: &'a [f32],
    g: &'a [f32],
    out: &'a mut [f32],
    log: bool,
}

impl WithSimd for ReverseRow<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let Self { y, g, out, log } = self;
        if log {
            // Places that the mask excludes (−∞) neither send nor receive anything.
            let excluded = s.splat_f32s(f32::NEG_INFINITY);
            for i in 0..simd::registers(s, out) {
                let counts = s.greater_than_f32s(simd::get(s, y, i), excluded);
                simd::set(s, out, i, s.select_f32s(counts, simd::get(s, g, i), s.splat_f32s(0.0)));
            }
            let total = s.splat_f32s(simd::sum(
                s,
                out,
                #[inline(always)]
                |x| x,
            ));
            for i in 0..simd::registers(s, out) {
                let weight = simd::exp(s, simd::get(s, y, i));
                let gradient = s.sub_f32s(simd::get(s, out, i), s.mul_f32s(weight, total));
                simd::set(s, out, i, gradient);
            }
        } else {
            for (out, (y, g)) in out.iter_mut().zip(y.iter().zip(g)) {
                *out = y * g;
            }
            let total = s.splat_f32s(simd::sum(
                s,
                out,
                #[inline(always)]
                |x| x,
            ));
            for i in 0..simd::registers(s, out) {
                let product = simd::get(s, out, i);
                simd::set(s, out, i, s.sub_f32s(product, s.mul_f32s(simd::get(s, y, i), total)));
            }
        }
    }
}
