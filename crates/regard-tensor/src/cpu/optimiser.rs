//! Updates of all parameters in one pass over memory.

use super::reduce;
use super::simd::{self, dispatch};
use super::threads::{self, ELEMENTS_PER_TASK, Shared};
use crate::array::Array;
use crate::kernels::optimiser::{Decay, Job, Rule, Slope, Update};
use pulp::{Simd, WithSimd};

impl Rule {
    /// The same with a rate that is `pace` times this one's.
    fn at_pace(self, pace: f32) -> Self {
        match self {
            Rule::Momentum { rate, momentum } => Rule::Momentum { rate: rate * pace, momentum },
            Rule::Adam { rate, beta1, beta2, epsilon, step } => {
                Rule::Adam { rate: rate * pace, beta1, beta2, epsilon, step }
            }
        }
    }
}

/// The root mean square of a parameter's values.
fn size(parameter: &Array) -> f32 {
    (reduce::sum_of_squares(parameter) / parameter.len().max(1) as f64).sqrt() as f32
}

/// How many values a task takes: whole rows where the gradient is in rows.
fn share(slope: Slope) -> usize {
    match slope {
        Slope::Dense(_) => ELEMENTS_PER_TASK,
        Slope::Rows { width, .. } => threads::rows_per_task(width) * width.max(1),
    }
}

/// Where one parameter's values are while tasks change them.
struct Places<'a> {
    parameter: Shared<f32>,
    first: Shared<f32>,
    second: Shared<f32>,
    len: usize,
    share: usize,
    slope: Gradient<'a>,
    step: Step,
}

/// A gradient's values.
#[derive(Clone, Copy)]
enum Gradient<'a> {
    Dense(&'a [f32]),
    Rows { rows: &'a [u32], values: &'a [f32], width: usize },
}

impl<'a> Places<'a> {
    fn new(update: Update, job: &'a mut Job) -> Self {
        let pace = update.relative.map_or(1.0, |smallest| size(job.parameter).max(smallest));
        let step = Step { rule: update.rule.at_pace(pace), scale: update.scale.slice()[0], decay: job.decay };
        let slope = match job.slope {
            Slope::Dense(values) => Gradient::Dense(values.slice()),
            Slope::Rows { rows, values, width } => {
                Gradient::Rows { rows: rows.slice(), values: values.slice(), width }
            }
        };
        Self {
            len: job.parameter.len(),
            share: share(job.slope),
            parameter: Shared::new(job.parameter.slice_mut()),
            first: Shared::new(job.first.slice_mut()),
            second: Shared::new(job.second.slice_mut()),
            slope,
            step,
        }
    }
}

/// Updates all parameters.
pub(crate) fn update(update: Update, jobs: &mut [Job]) {
    let places: Vec<Places> = jobs.iter_mut().map(|job| Places::new(update, job)).collect();
    let mut tasks = Vec::new();
    for (job, Places { len, share, .. }) in places.iter().enumerate() {
        tasks.extend((0..len.div_ceil(*share)).map(|piece| (job, piece * share)));
    }
    threads::run(tasks.len(), |task| {
        let (job, start) = tasks[task];
        let Places { parameter, first, second, len, share, slope, step } = &places[job];
        let count = (*share).min(len - start);
        let has_second = matches!(step.rule, Rule::Adam { .. });
        // SAFETY: each task has its own range of one parameter.
        let (p, m, v) = unsafe {
            (
                parameter.range(start, count),
                first.range(start, count),
                second.range(if has_second { start } else { 0 }, if has_second { count } else { 0 }),
            )
        };
        match *slope {
            Gradient::Dense(g) => step.apply(p, Some(&g[start..start + count]), m, v),
            Gradient::Rows { rows, values, width } => step.apply_rows(p, (rows, values, width), start, m, v),
        }
    });
}

/// What to multiply gradients with so that their norm is at most `limit`.
pub(crate) fn clip_scale(norm: &Array, limit: f32) -> Array {
    let norm = norm.slice()[0];
    Array::filled(1, if norm > limit { limit / norm } else { 1.0 })
}

#[derive(Clone, Copy)]
struct Step {
    rule: Rule,
    scale: f32,
    decay: Decay,
}

impl Step {
    fn apply(self, p: &mut [f32], g: Option<&[f32]>, m: &mut [f32], v: &mut [f32]) {
        dispatch(Apply { step: self, p, g, m, v });
    }

    /// Rows with a gradient one by one, the stretches between them with a gradient of zero: the update is the
    /// same as with a dense gradient.
    fn apply_rows(
        self,
        p: &mut [f32],
        (rows, values, width): (&[u32], &[f32], usize),
        start: usize,
        m: &mut [f32],
        v: &mut [f32],
    ) {
        let (first, end) = (start / width, (start + p.len()) / width);
        let mut from = rows.partition_point(|&row| (row as usize) < first);
        let mut done = 0;
        let v_range = |a: usize, b: usize, v: &[f32]| if v.is_empty() { 0..0 } else { a..b };
        while done < p.len() {
            let next = rows.get(from).map_or(end, |&row| (row as usize).min(end));
            let stop = (next - first) * width;
            if stop > done {
                let range = v_range(done, stop, v);
                self.apply(&mut p[done..stop], None, &mut m[done..stop], &mut v[range]);
                done = stop;
            }
            if next < end {
                let stop = done + width;
                let g = &values[from * width..(from + 1) * width];
                let range = v_range(done, stop, v);
                self.apply(&mut p[done..stop], Some(g), &mut m[done..stop], &mut v[range]);
                done = stop;
                from += 1;
            }
        }
    }
}

struct Apply<'a> {
    step: Step,
    p: &'a mut [f32],
    g: Option<&'a [f32]>,
    m: &'a mut [f32],
    v: &'a mut [f32],
}

impl WithSimd for Apply<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let Self { step: Step { rule, scale, decay }, p, g, m, v } = self;
        let (scale, coupled) = (s.splat_f32s(scale), s.splat_f32s(decay.coupled));
        match rule {
            Rule::Momentum { rate, momentum } => {
                let keep = s.splat_f32s(1.0 - rate * decay.decoupled);
                let (rate, momentum) = (s.splat_f32s(-rate), s.splat_f32s(momentum));
                for i in 0..simd::registers(s, p) {
                    let old = simd::get(s, p, i);
                    let g = scaled_gradient(s, g, i, scale, s.mul_f32s(coupled, old));
                    let mean = s.mul_add_e_f32s(simd::get(s, m, i), momentum, g);
                    simd::set(s, m, i, mean);
                    simd::set(s, p, i, s.mul_add_e_f32s(rate, mean, s.mul_f32s(old, keep)));
                }
            }
            Rule::Adam { rate, beta1, beta2, epsilon, step } => {
                let keep = s.splat_f32s(1.0 - rate * decay.decoupled);
                let correction1 = 1.0 - f64::from(beta1).powi(step);
                let correction2 = 1.0 - f64::from(beta2).powi(step);
                let rate = s.splat_f32s((-f64::from(rate) / correction1) as f32);
                let inverse_root = s.splat_f32s((1.0 / correction2.sqrt()) as f32);
                let epsilon = s.splat_f32s(epsilon);
                let (b1, c1) = (s.splat_f32s(beta1), s.splat_f32s(1.0 - beta1));
                let (b2, c2) = (s.splat_f32s(beta2), s.splat_f32s(1.0 - beta2));
                for i in 0..simd::registers(s, p) {
                    let old = simd::get(s, p, i);
                    let g = scaled_gradient(s, g, i, scale, s.mul_f32s(coupled, old));
                    let mean = s.mul_add_e_f32s(simd::get(s, m, i), b1, s.mul_f32s(g, c1));
                    let square = s.mul_add_e_f32s(simd::get(s, v, i), b2, s.mul_f32s(s.mul_f32s(g, g), c2));
                    simd::set(s, m, i, mean);
                    simd::set(s, v, i, square);
                    let deviation = s.mul_add_e_f32s(s.sqrt_f32s(square), inverse_root, epsilon);
                    let change = s.div_f32s(s.mul_f32s(rate, mean), deviation);
                    simd::set(s, p, i, s.mul_add_e_f32s(old, keep, change));
                }
            }
        }
    }
}

/// scale·g + decay, where no gradient means 0.
#[inline(always)]
fn scaled_gradient<S: Simd>(s: S, g: Option<&[f32]>, i: usize, scale: S::f32s, decay: S::f32s) -> S::f32s {
    match g {
        Some(g) => s.mul_add_e_f32s(simd::get(s, g, i), scale, decay),
        None => decay,
    }
}
