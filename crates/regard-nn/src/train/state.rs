//! The progress of a run, and the file from which it can resume.

use super::{Evaluation, OptimiserKind, Task, TrainConfig};
use crate::checkpoint::{StoredWeights, write_tensors};
use crate::checksum::Checksum;
use crate::data::batches::DataPosition;
use crate::error::{Error, Result};
use regard_tensor::optimiser::Optimiser;
use regard_tensor::{Shape, Tensor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The progress of a run.
pub struct Progress {
    /// The number of updates made.
    pub step: u64,
    /// The position in the data.
    pub position: DataPosition,
    /// The lowest evaluation loss and its step.
    pub best: Option<(f64, u64)>,
    /// The number of evaluations since then.
    pub since_best: u64,
    pub(super) optimiser: Optimiser,
}

impl Progress {
    /// A run before its first step.
    pub fn new(config: &TrainConfig) -> Self {
        Self {
            step: 0,
            position: DataPosition::default(),
            best: None,
            since_best: 0,
            optimiser: config.optimiser(),
        }
    }

    /// Records an evaluation; returns whether it is the best so far.
    pub(super) fn record(&mut self, evaluation: &Evaluation) -> bool {
        let better = self.best.is_none_or(|(best, _)| evaluation.loss < best);
        if better {
            self.best = Some((evaluation.loss, self.step));
            self.since_best = 0;
        } else {
            self.since_best += 1;
        }
        better
    }

    pub(super) fn patience_is_over(&self, config: &TrainConfig) -> bool {
        config.patience > 0 && self.since_best >= config.patience
    }
}

/// The part of a state that is not a tensor.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Numbers {
    step: u64,
    updates: u32,
    position: DataPosition,
    /// The bits of the number, so that it is restored exactly.
    best: Option<(u64, u64)>,
    since_best: u64,
    /// The configuration of the run; a run cannot resume with another one.
    configuration: String,
    /// Data of the caller.
    note: String,
}

const KEY: &str = "regard";
const CHECKSUM: &str = "checksum";

/// A checksum of everything in a state, in hexadecimal as stored in the file. Without it a run could resume from a damaged
/// file unnoticed.
fn checksum(numbers: &str, tensors: &BTreeMap<String, Tensor>) -> String {
    let mut sum = Checksum::default();
    sum.bytes(numbers.as_bytes());
    for (name, tensor) in tensors {
        sum.bytes(name.as_bytes());
        tensor.shape().iter().for_each(|&length| sum.number(length as u64));
        sum.values(&tensor.values());
    }
    format!("{:016x}", sum.value())
}

/// Writes everything a run needs to resume: parameters, optimiser, step, position in the data.
pub fn save_state(
    path: &Path,
    task: &dyn Task,
    progress: &Progress,
    configuration: &str,
    note: &str,
) -> Result<()> {
    let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
    let parameters = task.model().parameters();
    for (name, parameter) in &parameters {
        tensors.insert(format!("parameters/{name}"), parameter.tensor().detach());
    }
    for ((name, _), (first, second)) in parameters.iter().zip(progress.optimiser.moments()) {
        tensors.insert(format!("first/{name}"), first);
        tensors.insert(format!("second/{name}"), second);
    }
    let numbers = Numbers {
        step: progress.step,
        updates: progress.optimiser.steps(),
        position: progress.position,
        best: progress.best.map(|(loss, step)| (loss.to_bits(), step)),
        since_best: progress.since_best,
        configuration: configuration.to_owned(),
        note: note.to_owned(),
    };
    let numbers = serde_json::to_string(&numbers).map_err(|error| Error::file(path, error.to_string()))?;
    let checksum = checksum(&numbers, &tensors);
    write_tensors(path, &tensors, &[(KEY, &numbers), (CHECKSUM, &checksum)])
}

/// Restores the task's parameters and position in the data from a file. Returns the progress and the caller's note.
pub fn load_state(
    path: &Path,
    task: &mut dyn Task,
    config: &TrainConfig,
    configuration: &str,
) -> Result<(Progress, String)> {
    let stored = StoredWeights::from_files(&[path])?;
    ensure_whole(path, &stored)?;
    let numbers = stored.metadata(KEY).ok_or_else(|| Error::file(path, "is not the state of a run"))?;
    let numbers: Numbers = serde_json::from_str(numbers)
        .map_err(|error| Error::file(path, format!("is not the state of a run: {error}")))?;
    if numbers.configuration != configuration {
        return Err(Error::file(path, "is the state of a run with another configuration"));
    }
    let read = |name: &str, shape: &[usize]| -> Result<Tensor> {
        match stored.read(name)? {
            Some(tensor) if tensor.shape()[..] == *shape => Ok(tensor),
            Some(tensor) => {
                let problem = format!("has {name} of {}, expected {}", tensor.shape(), Shape::from(shape));
                Err(Error::file(path, problem))
            }
            None => Err(Error::file(path, format!("has no {name}"))),
        }
    };
    let mut moments = Vec::new();
    for (name, parameter) in task.model_mut().parameters_mut() {
        let device = parameter.tensor().device();
        let values = read(&format!("parameters/{name}"), parameter.tensor().shape())?;
        if numbers.updates > 0 {
            let moment = |kind: &str| -> Result<Tensor> {
                let name = format!("{kind}/{name}");
                // SGD has no running mean of squares.
                let empty = kind == "second" && config.optimiser == OptimiserKind::Sgd;
                let moment = read(&name, &[if empty { 0 } else { values.count() }])?;
                Ok(Tensor::new(&moment.values(), moment.shape())?.to(device)?)
            };
            moments.push((moment("first")?, moment("second")?));
        }
        // A copy, because the file may be replaced while the run continues.
        parameter.tensor_mut().set_values(&values.values())?;
    }
    let mut progress = Progress {
        step: numbers.step,
        position: numbers.position,
        best: numbers.best.map(|(bits, step)| (f64::from_bits(bits), step)),
        since_best: numbers.since_best,
        optimiser: config.optimiser(),
    };
    progress.optimiser.restore(numbers.updates, &moments);
    task.seek(numbers.position)?;
    Ok((progress, numbers.note))
}

/// Returns an error if a state does not match its checksum. States of earlier versions have none.
fn ensure_whole(path: &Path, stored: &StoredWeights) -> Result<()> {
    let Some(expected) = stored.metadata(CHECKSUM) else { return Ok(()) };
    let mut tensors = BTreeMap::new();
    for name in stored.names() {
        tensors.extend(stored.read(name)?.map(|tensor| (name.to_owned(), tensor)));
    }
    if checksum(stored.metadata(KEY).unwrap_or_default(), &tensors) != expected {
        return Err(Error::file(path, "is damaged: its checksum does not match"));
    }
    Ok(())
}
