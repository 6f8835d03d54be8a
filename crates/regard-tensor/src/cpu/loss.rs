//! Losses over rows of logits, without ever keeping probabilities.

use super::broadcast::AddInto;
use super::gemm::{self, Matrix, Output, Right};
use super::linear::BiasOnly;
use super::simd::{self, dispatch};
use super::softmax::LogSumExp;
use super::threads::{self, ELEMENTS_PER_TASK, Shared};
use crate::array::Array;
use crate::kernels::loss::{ScoredLoss, Targets};
use crate::pool::Buffer;
use pulp::{Simd, WithSimd};

impl Targets<'_> {
    /// The target of a row, if it counts.
    fn of(&self, row: usize) -> Option<usize> {
        let id = self.ids.slice()[row];
        (self.ignored != Some(id)).then_some(id as usize)
    }
}

/// For each row its loss, `lse − (1 − ε)·x[target] − ε·mean(x)`, and its log-sum-exp.
pub(crate) fn cross_entropy(logits: &Array, targets: Targets) -> (Array, Array) {
    let logits = logits.slice();
    let classes = targets.classes;
    let count = targets.ids.count();
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
                out.copy_from_slice(&logits[row * classes..(row + 1) * classes]);
                let spread = targets.smoothing / classes as f32;
                dispatch(Probabilities { x: out, lse: lse[row], spread, scale: upstream[row] });
                out[target] -= (1.0 - targets.smoothing) * upstream[row];
            }
        });
    })
}

/// The mean cross-entropy of x (rows, inputs) scored by a weight (classes, inputs) and a bias, with its gradients, taking
/// a few hundred rows at a time: their scores stay in the cache, and no more of them exist at once. The weight may be of any
/// type.
pub(crate) fn scored_cross_entropy(
    (x, weight, bias): (&Array, &Array, Option<&Array>),
    inputs: usize,
    targets: Targets,
    wanted: [bool; 3],
) -> ScoredLoss {
    let (rows, classes) = (targets.ids.count(), targets.classes);
    let weight = Right::rows(weight.host_values(), inputs);
    let (x, bias) = (x.slice(), bias.map(Array::slice));
    // Each block adds to the whole gradient of the weight, which costs as much as passing over `inputs` rows of scores.
    let block = ROWS_AT_ONCE.max(inputs).min(rows);
    let wants_any = wanted.contains(&true);
    let mut scores = Buffer::dirty(block * classes);
    let mut losses = vec![0.0_f32; rows];
    let mut of_x = Buffer::dirty(if wanted[0] { rows * inputs } else { 0 });
    // Without rows nothing is written to it.
    let room = if rows == 0 { Buffer::zeros } else { Buffer::dirty };
    let mut of_weight = room(if wanted[1] { classes * inputs } else { 0 });
    let mut of_bias = Array::zeros(if wanted[2] { classes } else { 0 });
    for first in (0..rows).step_by(block.max(1)) {
        let count = block.min(rows - first);
        let x = Matrix::rows(&x[first * inputs..(first + count) * inputs], inputs);
        let scores = &mut scores.as_mut_slice()[..count * classes];
        let finish = BiasOnly(bias);
        gemm::product_then(
            (count, classes, inputs),
            x,
            weight.transposed(),
            scores,
            Output::Replace,
            &finish,
        );
        let shared = Shared::new(&mut losses[first..first + count]);
        let per_task = threads::rows_per_task(classes);
        threads::chunks(scores, per_task * classes, |index, scores| {
            for (i, scores) in scores.chunks_mut(classes).enumerate() {
                let row = index * per_task + i;
                // SAFETY: each task has its own rows.
                let loss = unsafe { shared.range(row, 1) };
                loss[0] = targets.turn_to_gradient(first + row, scores, 1.0 / rows.max(1) as f32, wants_any);
            }
        });
        let g = Matrix::rows(scores, classes);
        if wanted[0] {
            let out = &mut of_x.as_mut_slice()[first * inputs..(first + count) * inputs];
            gemm::product((count, inputs, classes), g, weight, out, Output::Replace);
        }
        if wanted[1] {
            let output = if first == 0 { Output::Replace } else { Output::Add };
            gemm::product((classes, inputs, count), g.transposed(), x, of_weight.as_mut_slice(), output);
        }
        if wanted[2] {
            for scores in scores.chunks(classes) {
                dispatch(AddInto { total: of_bias.slice_mut(), x: scores });
            }
        }
    }
    let loss = losses.iter().map(|&loss| f64::from(loss)).sum::<f64>() / rows.max(1) as f64;
    let [x, weight, bias] = wanted;
    ScoredLoss {
        loss: Array::filled(1, loss as f32),
        x: x.then(|| Array::from_buffer(of_x)),
        weight: weight.then(|| Array::from_buffer(of_weight)),
        bias: bias.then_some(of_bias),
    }
}

/// The fewest rows that are scored at a time.
const ROWS_AT_ONCE: usize = 256;

impl Targets<'_> {
    /// A row's loss; if wanted, its scores become their own gradient, times `scale`.
    fn turn_to_gradient(&self, row: usize, scores: &mut [f32], scale: f32, wanted: bool) -> f32 {
        let Some(target) = self.of(row) else {
            scores.fill(0.0);
            return 0.0;
        };
        let lse = dispatch(LogSumExp(scores));
        let mut expected = (1.0 - self.smoothing) * scores[target];
        if self.smoothing > 0.0 {
            expected += self.smoothing * (scores.iter().sum::<f32>() / self.classes as f32);
        }
        if wanted {
            let spread = self.smoothing / self.classes as f32;
            dispatch(Probabilities { x: scores, lse, spread, scale });
            scores[target] -= (1.0 - self.smoothing) * scale;
        }
        lse - expected
    }
}

/// `(e^(x − lse) − spread) · scale` in the place of the scores x.
struct Probabilities<'a> {
    x: &'a mut [f32],
    lse: f32,
    spread: f32,
    scale: f32,
}

impl WithSimd for Probabilities<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let (lse, scale) = (s.splat_f32s(self.lse), s.splat_f32s(self.scale));
        let offset = s.splat_f32s(-self.spread * self.scale);
        for i in 0..simd::registers(s, self.x) {
            let probability = simd::exp(s, s.sub_f32s(simd::get(s, self.x, i), lse));
            simd::set(s, self.x, i, s.mul_add_e_f32s(probability, scale, offset));
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
