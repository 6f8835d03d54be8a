//! Layer norm and RMS norm over rows.

use super::broadcast::AddInto;
use super::simd::{self, dispatch};
use super::threads::{self, Shared};
use crate::array::Array;
use crate::kernels::norm::{Kind, Moments, NormGradients};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// `(x − mean)·inverse·weight + bias` for each row of `width` values.
pub(crate) fn forward(
    kind: Kind,
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    width: usize,
    epsilon: f32,
) -> (Array, Moments) {
    let x = x.slice();
    let norm = Norm { kind, weight: weight.slice(), bias: bias.map(Array::slice), epsilon };
    norm.rows(x.len(), width, |range| &x[range])
}

/// The sum of two arrays and its norm: a few rows are summed and normed while they are in the cache.
pub(crate) fn add_forward(
    kind: Kind,
    (x, residual): (&Array, &Array),
    weight: &Array,
    bias: Option<&Array>,
    width: usize,
    epsilon: f32,
) -> (Array, Array, Moments) {
    let (x, residual) = (x.slice(), residual.slice());
    let norm = Norm { kind, weight: weight.slice(), bias: bias.map(Array::slice), epsilon };
    let mut normed = None;
    let sum = Array::build(x.len(), |sum| {
        let sums = Shared::new(sum);
        normed = Some(norm.rows(x.len(), width, |range| {
            // SAFETY: each task asks for its own rows, once.
            let sum = unsafe { sums.range(range.start, range.len()) };
            sum.copy_from_slice(&x[range.clone()]);
            dispatch(AddInto { total: sum, x: &residual[range] });
            sum
        }));
    });
    let (out, moments) = normed.expect("the closure has run");
    (sum, out, moments)
}

/// A norm and its parameters.
#[derive(Clone, Copy)]
struct Norm<'a> {
    kind: Kind,
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
    epsilon: f32,
}

impl Norm<'_> {
    /// Norms `len` values in rows; `input` gives some of them, each once.
    fn rows<'x>(
        self,
        len: usize,
        width: usize,
        input: impl Fn(Range<usize>) -> &'x [f32] + Sync,
    ) -> (Array, Moments) {
        let Self { kind, weight, bias, epsilon } = self;
        let count = len.checked_div(width).unwrap_or(0);
        let (mut mean, mut inverse) = (Array::zeros(count), Array::zeros(count));
        let (means, inverses) = (Shared::new(mean.slice_mut()), Shared::new(inverse.slice_mut()));
        let out = Array::build(len, |out| {
            let rows = threads::rows_per_task(width);
            threads::chunks(out, rows * width, |index, out| {
                let first = index * rows;
                let count = out.len() / width.max(1);
                // SAFETY: each task has its own rows.
                let (mean, inverse) = unsafe { (means.range(first, count), inverses.range(first, count)) };
                let x = input(first * width..first * width + out.len());
                dispatch(Forward { kind, x, weight, bias, epsilon, out, mean, inverse });
            });
        });
        (out, Moments { mean, inverse })
    }
}

struct Forward<'a> {
    kind: Kind,
    x: &'a [f32],
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
    epsilon: f32,
    out: &'a mut [f32],
    mean: &'a mut [f32],
    inverse: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let width = self.weight.len();
        for (row, (x, out)) in self.x.chunks(width).zip(self.out.chunks_mut(width)).enumerate() {
            let mean = match self.kind {
                Kind::Layer => {
                    simd::sum(
                        s,
                        x,
                        #[inline(always)]
                        |x| x,
                    ) / width as f32
                }
                Kind::Rms => 0.0,
            };
            let center = s.splat_f32s(mean);
            // A second pass over the (cached) row: subtracting first avoids the cancellation of E[x²] − mean².
            let squares = simd::sum(
                s,
                x,
                #[inline(always)]
                |x| {
                    let away = s.sub_f32s(x, center);
                    s.mul_f32s(away, away)
                },
            );
            let inverse = 1.0 / (squares / width as f32 + self.epsilon).sqrt();
            (self.mean[row], self.inverse[row]) = (mean, inverse);
            let scale = s.splat_f32s(inverse);
            for i in 0..simd::registers(s, x) {
                let normal = s.mul_f32s(s.sub_f32s(simd::get(s, x, i), center), scale);
                let weight = simd::get(s, self.weight, i);
                let bias = self.bias.map_or(
                    s.splat_f32s(0.0),
                    #[inline(always)]
                    |bias| simd::get(s, bias, i),
                );
                simd::set(s, out, i, s.mul_add_e_f32s(normal, weight, bias));
            }
        }
    }
}

/// With n the normalised row and h = g·weight:
/// dx = inverse·(h − mean(h) − n·mean(h·n)) (RMS norm has no mean(h)), dweight = Σ g·n, dbias = Σ g.
///
/// `total` is a gradient of x that is there already and is added to dx.
pub(crate) fn backward(
    kind: Kind,
    x: &Array,
    weight: &Array,
    moments: &Moments,
    upstream: &Array,
    total: Option<&Array>,
) -> NormGradients {
    let (x, weight, g) = (x.slice(), weight.slice(), upstream.slice());
    let (mean, inverse) = (moments.mean.slice(), moments.inverse.slice());
    let total = total.map(Array::slice);
    let width = weight.len();
    let rows = mean.len();
    let band = rows.div_ceil(BANDS).max(threads::rows_per_task(width)).max(1);
    let bands = rows.div_ceil(band);
    // One row of weight and bias gradients a band, summed in order at the end.
    let mut partial = Array::zeros(bands * 2 * width);
    let partials = Shared::new(partial.slice_mut());
    let dx = Array::build(x.len(), |dx| {
        threads::chunks(dx, (band * width).max(1), |index, dx| {
            let (first, count) = (index * band, dx.len() / width.max(1));
            // SAFETY: each band has its own two rows.
            let partial = unsafe { partials.range(index * 2 * width, 2 * width) };
            let (dweight, dbias) = partial.split_at_mut(width);
            dispatch(Reverse {
                kind,
                x: &x[first * width..][..dx.len()],
                g: &g[first * width..][..dx.len()],
                weight,
                mean: &mean[first..first + count],
                inverse: &inverse[first..first + count],
                dx: &mut *dx,
                dweight,
                dbias,
            });
            if let Some(total) = total {
                dispatch(AddInto { total: dx, x: &total[first * width..] });
            }
        });
    });
    let (mut dweight, mut dbias) = (Array::zeros(width), Array::zeros(width));
    for band in partial.slice().chunks((2 * width).max(1)) {
        dispatch(AddInto { total: dweight.slice_mut(), x: &band[..width] });
        dispatch(AddInto { total: dbias.slice_mut(), x: &band[width..] });
    }
    NormGradients { x: dx, weight: dweight, bias: dbias }
}

/// The most bands that the sums of columns are taken in.
pub(super) const BANDS: usize = 32;

struct Reverse<'a> {
    kind: Kind,
    x: &'a [f32],
    g: &'a [f32],
    weight: &'a [f32],
    mean: &'a [f32],
    inverse: &'a [f32],
    dx: &'a mut [f32],
    dweight: &'a mut [f32],
    dbias: &'a mut [f32],
}

impl WithSimd for Reverse<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let Self { kind, x, g, weight, mean, inverse, dx, dweight, dbias } = self;
        let width = weight.len();
        let zero = s.splat_f32s(0.0);
        for (row, ((x, g), dx)) in x.chunks(width).zip(g.chunks(width)).zip(dx.chunks_mut(width)).enumerate()
        {
            let center = s.splat_f32s(mean[row]);
            let scale = s.splat_f32s(inverse[row]);
            let (mut sum_h, mut sum_hn) = (zero, zero);
            for i in 0..simd::registers(s, x) {
                // Beyond the row's end g is 0, and so is everything it multiplies.
                let g = simd::get(s, g, i);
                let n = s.mul_f32s(s.sub_f32s(simd::get(s, x, i), center), scale);
                let h = s.mul_f32s(g, simd::get(s, weight, i));
                sum_h = s.add_f32s(sum_h, h);
                sum_hn = s.mul_add_e_f32s(h, n, sum_hn);
                simd::set(s, dweight, i, s.mul_add_e_f32s(g, n, simd::get(s, dweight, i)));
                simd::set(s, dbias, i, s.add_f32s(g, simd::get(s, dbias, i)));
            }
            let mean_h = match kind {
                Kind::Layer => s.splat_f32s(s.reduce_sum_f32s(sum_h) / width as f32),
                Kind::Rms => zero,
            };
            let mean_hn = s.splat_f32s(s.reduce_sum_f32s(sum_hn) / width as f32);
            for i in 0..simd::registers(s, x) {
                let n = s.mul_f32s(s.sub_f32s(simd::get(s, x, i), center), scale);
                let h = s.mul_f32s(simd::get(s, g, i), simd::get(s, weight, i));
                let away = s.sub_f32s(s.sub_f32s(h, mean_h), s.mul_f32s(n, mean_hn));
                simd::set(s, dx, i, s.mul_f32s(away, scale));
            }
        }
    }
}
