//! Updates of all parameters in one pass over memory.

use super::fallback::{count, put_back};
use super::on_cpu;
use crate::array::Array;
use crate::error::Result;
use crate::ids::Ids;
use crate::storage::{DataType, Kernels};
use crate::{cpu, cuda};

/// The numbers of one update, the same for every value.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// `m = momentum·m + g; p −= rate·m`.
    Momentum {
        /// The learning rate.
        rate: f32,
        /// The share of the last step that is kept.
        momentum: f32,
    },
    /// Adam: `m`, `v` are running means of g and g²; `p −= rate/(1−β₁ᵗ) · m / (√v/√(1−β₂ᵗ) + ε)`.
    Adam {
        /// The learning rate.
        rate: f32,
        /// Decay of the running mean of gradients.
        beta1: f32,
        /// Decay of the running mean of their squares.
        beta2: f32,
        /// Added to the root of the running mean of squares.
        epsilon: f32,
        /// The number of this update, from 1.
        step: i32,
    },
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
    Dense(&'a Array),
    /// Sorted distinct rows of a table, their values, and the table's width.
    Rows {
        rows: &'a Ids,
        values: &'a Array,
        width: usize,
    },
}

/// One parameter with its gradient and running means.
pub(crate) struct Job<'a> {
    pub parameter: &'a mut Array,
    pub slope: Slope<'a>,
    pub first: &'a mut Array,
    /// Empty for rules that keep one running mean.
    pub second: &'a mut Array,
    pub decay: Decay,
}

/// How all parameters of an update change.
#[derive(Clone, Copy)]
pub(crate) struct Update<'a> {
    pub rule: Rule,
    /// One value that multiplies every gradient (clipping).
    pub scale: &'a Array,
    /// If given, each parameter's rate is multiplied by the root mean square of its values, or by this if they are smaller.
    pub relative: Option<f32>,
}

/// Updates all parameters.
pub(crate) fn update(update: Update, jobs: &mut [Job]) -> Result<()> {
    let kernels = |job: &Job| {
        let arrays = [&*job.parameter, &*job.first, &*job.second];
        // Parameters and running means that have 16 bits are widened for the CPU.
        let all_f32 = arrays.iter().all(|array| array.data_type() == DataType::F32);
        if all_f32 { job.parameter.kernels() } else { Kernels::Cpu }
    };
    let on_cuda = !jobs.is_empty() && jobs.iter().all(|job| kernels(job) == Kernels::Cuda);
    if on_cuda { cuda::update::update(update, jobs) } else { update_on_cpu(update, jobs) }
}

fn update_on_cpu(update: Update, jobs: &mut [Job]) -> Result<()> {
    if update.scale.is_ready() && jobs.iter().all(Job::is_ready) {
        cpu::optimiser::update(update, jobs);
        return Ok(());
    }
    count("optimiser", update.scale.device());
    let scale = update.scale.to_host();
    let mut copies: Vec<Copy> = jobs.iter().map(Copy::of).collect();
    let mut copied: Vec<Job> = copies.iter_mut().map(Copy::job).collect();
    cpu::optimiser::update(Update { scale: &scale, ..update }, &mut copied);
    for (job, copy) in jobs.iter_mut().zip(copies) {
        put_back(&copy.parameter, job.parameter)?;
        put_back(&copy.first, job.first)?;
        put_back(&copy.second, job.second)?;
    }
    Ok(())
}

impl Job<'_> {
    fn is_ready(&self) -> bool {
        let slope = match self.slope {
            Slope::Dense(values) => values.is_ready(),
            Slope::Rows { rows, values, .. } => rows.is_ready() && values.is_ready(),
        };
        slope && [&*self.parameter, &*self.first, &*self.second].into_iter().all(Array::is_ready)
    }
}

/// A job with arrays of its own, in main memory.
struct Copy {
    parameter: Array,
    values: Array,
    rows: Option<(Ids, usize)>,
    first: Array,
    second: Array,
    decay: Decay,
}

impl Copy {
    fn of(job: &Job) -> Self {
        let (values, rows) = match job.slope {
            Slope::Dense(values) => (values, None),
            Slope::Rows { rows, values, width } => (values, Some((rows.to_host(), width))),
        };
        Self {
            parameter: job.parameter.to_host(),
            values: values.to_host(),
            rows,
            first: job.first.to_host(),
            second: job.second.to_host(),
            decay: job.decay,
        }
    }

    fn job(&mut self) -> Job<'_> {
        let slope = match &self.rows {
            None => Slope::Dense(&self.values),
            Some((rows, width)) => Slope::Rows { rows, values: &self.values, width: *width },
        };
        Job {
            parameter: &mut self.parameter,
            slope,
            first: &mut self.first,
            second: &mut self.second,
            decay: self.decay,
        }
    }
}

/// What to multiply gradients with so that their norm (one value) is at most `limit`: one value.
pub(crate) fn clip_scale(norm: &Array, limit: f32) -> Result<Array> {
    match norm.kernels() {
        Kernels::Cuda => cuda::update::clip_scale(norm, limit),
        Kernels::Cpu => on_cpu("clip_scale", norm, |norm| cpu::optimiser::clip_scale(norm, limit)),
    }
}
