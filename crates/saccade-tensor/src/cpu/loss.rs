//! Losses over rows of logits, without ever keeping probabilities.

use super::simd::{self, dispatch};
use super::softmax::LogSumExp;
use super::threads::{self, ELEMENTS_PER_TASK, Shared};
use crate::array::Array;
use pulp::{Simd, WithSimd};

/// Cross-entropy's settings: targets equal to `ignored` do not count, and `smoothing` of the target's probability
/// is spread over all classes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Targets<'a> {
    pub ids: &'a [u32],
    pub classes: usize,
    pub ignored: Option<u32>,
    pub smoothing: f32,
}

impl Targets<'_> {
    fn of(&self, row: usize) -> Option<usize> {
        let id = self.ids[row];
        (self.ignored != Some(id)).then_some(id as usize)
    }
}

/// For each row its loss, `lse − (1 − ε)·x[target] − ε·mean(x)`, and its log-sum-exp.
pub(crate) fn cross_entropy(logits: &Array, targets: Targets) -> (Array, Array) {
    let logits = logits.slice();
    let classes = targets.classes;
    let count = targets.ids.len();
    let mut losses = Array::zeros(count);
    let shared = Shared::new(losses.slice_mut());
    let lse = Array::build(count, |lse| {
        let rows = threads::rows_per_task(classes);
        threads::chunks(lse, rows, |index, lse| {
            // SAFETY: each task has its own rows.
            let losses = unsafe { shared.range(index * rows, lse.len()) };
            for (i, (loss, lse)) in losses.iter_mut().zip(lse).enumerate() {
                let row = index * rows + i;
                let Some(target) = targets.of(row) else {
                    (*loss, *lse) = (0.0, 0.0);
                    continue;
                };
                let x = &logits[row * classes..(row + 1) * classes];
                *lse = dispatch(LogSumExp(x));
                let mut expected = (1.0 - targets.smoothing) * x[target];
                if targets.smoothing > 0.0 {
                    expected += targets.smoothing * (x.iter().sum::<f32>() / classes as f32);
                }
                *loss = *lse - expected;
            }
        });
    });
    (losses, lse)
}

/// `(softmax(x) − (1 − ε)·[target] − ε/classes) · upstream[row]`.
pub(crate) fn cross_entropy_gradient(
    logits: &Array,
    lse: &Array,
    targets: Targets,
    upstream: &Array,
) -> Array {
    let (logits, lse, upstream) = (logits.slice(), lse.slice(), upstream.slice());
    let classes = targets.classes;
    Array::build(logits.len(), |out| {
        let rows = threads::rows_per_task(classes);
        threads::chunks(out, rows * classes, |index, out| {
            for (i, out) in out.chunks_mut(classes.max(1)).enumerate() {
                let row = index * rows + i;
                let Some(target) = targets.of(row) else {
                    out.fill(0.0);
                    continue;
                };
                let x = &logits[row * classes..(row + 1) * classes];
                let spread = targets.smoothing / classes as f32;
                dispatch(Probabilities { x, lse: lse[row], spread, scale: upstream[row], out });
                out[target] -= (1.0 - targets.smoothing) * upstream[row];
            }
        });
    })
}

/// `(e^(x − lse) − spread) · scale`.
struct Probabilities<'a> {
    x: &'a [f32],
    lse: f32,
    spread: f32,
    scale: f32,
    out: &'a mut [f32],
}

impl WithSimd for Probabilities<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let (lse, scale) = (s.splat_f32s(self.lse), s.splat_f32s(self.scale));
        let offset = s.splat_f32s(-self.spread * self.scale);
        for i in 0..simd::registers(s, self.out) {
            let probability = simd::exp(s, s.sub_f32s(simd::get(s, self.x, i), lse));
            simd::set(s, self.out, i, s.mul_add_e_f32s(probability, scale, offset));
        }
    }
}

/// `max(x, 0) − x·t + ln(1 + e^−|x|)` for each logit x and target t in [0, 1].
pub(crate) fn binary_cross_entropy(logits: &Array, targets: &Array) -> Array {
    let (x, t) = (logits.slice(), targets.slice());
    Array::build(x.len(), |out| {
        threads::chunks(out, ELEMENTS_PER_TASK, |index, out| {
            let start = index * ELEMENTS_PER_TASK;
            for (out, (&x, &t)) in out.iter_mut().zip(x[start..].iter().zip(&t[start..])) {
                *out = x.max(0.0) - x * t + (-x.abs()).exp().ln_1p();
            }
        });
    })
}

/// `(sigmoid(x) − t)·upstream`.
pub(crate) fn binary_cross_entropy_gradient(logits: &Array, targets: &Array, upstream: &Array) -> Array {
    let (x, t, g) = (logits.slice(), targets.slice(), upstream.slice());
    Array::build(x.len(), |out| {
        threads::chunks(out, ELEMENTS_PER_TASK, |index, out| {
            let start = index * ELEMENTS_PER_TASK;
            for (i, out) in out.iter_mut().enumerate() {
                let (x, t, g) = (x[start + i], t[start + i], g[start + i]);
                *out = (1.0 / (1.0 + (-x).exp()) - t) * g;
            }
        });
    })
}
