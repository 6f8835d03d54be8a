//! Updates of all parameters in one pass over memory.

use super::fallback::{count, put_back};
use super::on_cpu;
use crate::array::Array;
use crate::cpu;
use crate::error::Result;
use crate::ids::Ids;
use crate::storage::Device;

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
    match jobs.first().map_or(Device::Cpu, |job| job.parameter.device()) {
        Device::Cpu | Device::Apart => update_on_cpu(update, jobs),
    }
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
    match norm.device() {
        Device::Cpu | Device::Apart => {
            on_cpu("clip_scale", norm, |norm| cpu::optimiser::clip_scale(norm, limit))
        }
    }
}
