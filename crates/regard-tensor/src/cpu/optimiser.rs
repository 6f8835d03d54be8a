//! Updates of all parameters in one pass over memory.

use super::simd::{self, dispatch};
use super::threads::{self, ELEMENTS_PER_TASK, Shared};
use crate::array::Array;
use pulp::{Simd, WithSimd};

/// The numbers of one update, the same for every value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    /// `m = momentum·m + g; p −= rate·m`.
    Momentum { rate: f32, momentum: f32 },
    /// Adam: `m`, `v` are running means of g and g²; `p −= rate/(1−β₁ᵗ) · m / (√v/√(1−β₂ᵗ) + ε)`.
    Adam { rate: f32, beta1: f32, beta2: f32, epsilon: f32, step: i32 },
}

/// Decay of the parameters themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decay {
    /// Added to the gradient (L2 regularisation).
    pub coupled: f32,
    /// Multiplied with the rate and taken off the parameter directly (AdamW).
    pub decoupled: f32,
}

/// Where the gradient of a parameter is.
#[derive(Clone, Copy)]
pub(crate) enum Slope<'a> {
    Dense(&'a [f32]),
    /// Sorted distinct rows of a table, their values, and the table's width.
    Rows {
        rows: &'a [u32],
        values: &'a [f32],
        width: usize,
    },
}

/// One parameter with its gradient and running means.
pub(crate) struct Job<'a> {
    pub parameter: &'a mut [f32],
    pub slope: Slope<'a>,
    pub first: &'a mut [f32],
    /// Empty for rules that keep one running mean.
    pub second: &'a mut [f32],
    pub decay: Decay,
    /// What the rule's rate is multiplied with.
    pub pace: f32,
}

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

impl Job<'_> {
    /// How many values a task takes: whole rows where the gradient is in rows.
    fn share(&self) -> usize {
        match self.slope {
            Slope::Dense(_) => ELEMENTS_PER_TASK,
            Slope::Rows { width, .. } => threads::rows_per_task(width) * width.max(1),
        }
    }
}

/// Updates all parameters. `scale` multiplies every gradient (clipping).
pub(crate) fn update(rule: Rule, scale: f32, jobs: &mut [Job]) {
    let mut tasks = Vec::new();
    for (job, spec) in jobs.iter().enumerate() {
        let share = spec.share();
        tasks.extend((0..spec.parameter.len().div_ceil(share)).map(|piece| (job, piece * share)));
    }
    let shares: Vec<usize> = jobs.iter().map(Job::share).collect();
    let places: Vec<_> = jobs
        .iter_mut()
        .map(|job| {
            let len = job.parameter.len();
            (
                Shared::new(job.parameter),
                Shared::new(job.first),
                Shared::new(job.second),
                len,
                job.slope,
                (job.decay, rule.at_pace(job.pace)),
            )
        })
        .collect();
    threads::run(tasks.len(), |task| {
        let (job, start) = tasks[task];
        let (parameter, first, second, len, slope, (decay, rule)) = &places[job];
        let count = shares[job].min(len - start);
        let has_second = matches!(rule, Rule::Adam { .. });
        // SAFETY: each task has its own range of one parameter.
        let (p, m, v) = unsafe {
            (
                parameter.range(start, count),
                first.range(start, count),
                second.range(if has_second { start } else { 0 }, if has_second { count } else { 0 }),
            )
        };
        let step = Step { rule: *rule, scale, decay: *decay };
        match *slope {
            Slope::Dense(g) => step.apply(p, Some(&g[start..start + count]), m, v),
            Slope::Rows { rows, values, width } => step.apply_rows(p, (rows, values, width), start, m, v),
        }
    });
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

/// One parameter's part of an update.
pub(crate) fn job<'a>(
    parameter: &'a mut Array,
    slope: Slope<'a>,
    (first, second): (&'a mut Array, &'a mut Array),
    (decay, pace): (Decay, f32),
) -> Job<'a> {
    Job {
        parameter: parameter.slice_mut(),
        slope,
        first: first.slice_mut(),
        second: second.slice_mut(),
        decay,
        pace,
    }
}

/// A gradient, whole or in rows of a table.
pub(crate) fn slope<'a>(gradient: &'a Array, rows: Option<&'a [u32]>, width: usize) -> Slope<'a> {
    match rows {
        None => Slope::Dense(gradient.slice()),
        Some(rows) => Slope::Rows { rows, values: gradient.slice(), width },
    }
}
