//! Updates of the engine's parameters, and the norm of their gradients.

use super::device::Device;
use super::memory::{Buffer, View};
use super::optimiser::{self, Optimiser};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::kernels::embedding;
use crate::kernels::memory::{convert, filled};
use crate::kernels::optimiser::{Job, Slope, Update};
use crate::storage::DataType;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

/// One for each device: tables that stay there from step to step.
static OPTIMISERS: Mutex<Option<HashMap<usize, Optimiser>>> = Mutex::new(None);

fn with_optimiser<T>(device: &Arc<Device>, work: impl FnOnce(&mut Optimiser) -> Result<T>) -> Result<T> {
    let mut all = OPTIMISERS.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    match all.entry(device.ordinal()) {
        Entry::Occupied(mut entry) => work(entry.get_mut()),
        Entry::Vacant(entry) => work(entry.insert(Optimiser::new(device)?)),
    }
}

/// Updates all parameters and their copies in bf16.
pub(crate) fn update(update: Update, jobs: &mut [Job]) -> Result<()> {
    let gradients = jobs.iter().map(dense).collect::<Result<Vec<Array>>>()?;
    let paces = jobs.iter().map(|job| pace(update.relative, job)).collect::<Result<Vec<_>>>()?;
    let scale = convert(update.scale, DataType::F32)?;
    let device = scale.cuda()?.device();
    let mut entries = Vec::with_capacity(jobs.len());
    for ((job, gradient), pace) in jobs.iter_mut().zip(&gradients).zip(&paces) {
        let (parameter, shadow) = job.parameter.cuda_mut_with_rounded(true)?;
        entries.push(optimiser::Job {
            parameter,
            gradient: gradient.cuda()?,
            first: job.first.cuda_mut()?,
            second: if job.second.len() == 0 { None } else { Some(job.second.cuda_mut()?) },
            shadow,
            pace: pace.as_ref().map(Buffer::view),
            coupled: job.decay.coupled,
            decoupled: job.decay.decoupled,
        });
    }
    with_optimiser(device, |optimiser| {
        Ok(optimiser.update(update.rule, Some(scale.cuda()?), &mut entries)?)
    })
}

/// The gradient of a job with all its rows, in f32.
fn dense(job: &Job) -> Result<Array> {
    match job.slope {
        Slope::Dense(values) => convert(values, DataType::F32),
        Slope::Rows { rows, values, .. } => {
            let mut dense = filled(values.device(), job.parameter.len(), 0.0)?;
            embedding::add_rows(&mut dense, rows, values)?;
            Ok(dense)
        }
    }
}

/// What multiplies the rate of a parameter, if steps are relative.
fn pace(relative: Option<f32>, job: &Job) -> Result<Option<Buffer>> {
    let Some(smallest) = relative else { return Ok(None) };
    Ok(Some(optimiser::pace(job.parameter.cuda()?, smallest)?))
}

/// The Euclidean norm of all arrays together: one value.
pub(crate) fn norm(arrays: &[&Array]) -> Result<Array> {
    let arrays = arrays.iter().map(|array| convert(array, DataType::F32)).collect::<Result<Vec<_>>>()?;
    let views = arrays.iter().map(Array::cuda).collect::<Result<Vec<View>>>()?;
    let Some(first) = views.first() else {
        return Err(Error::shape("global_norm", "at least one gradient", 0));
    };
    let out = with_optimiser(first.device(), |optimiser| Ok(optimiser.norm(&views, f32::INFINITY)?))?;
    Ok(Array::from(out).part(0, 1))
}

/// What to multiply gradients of this norm with so that it is at most `limit`: one value.
pub(crate) fn clip_scale(norm: &Array, limit: f32) -> Result<Array> {
    let norm = convert(norm, DataType::F32)?;
    Ok(optimiser::clip_scale(norm.cuda()?, limit)?.into())
}
