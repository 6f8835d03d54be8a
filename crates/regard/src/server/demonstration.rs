//! The model that is trained when there is none, so that the page always has something to show.

use crate::compute::Placement;
use crate::run::{Reporting, RunConfig, preset, train_in};
use anyhow::Result;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The name of its folder among the runs.
pub const NAME: &str = "demonstration";

/// The progress of the training.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainingProgress {
    /// Steps that are done.
    pub step: u64,
    /// Steps in all.
    pub steps: u64,
    /// The loss of the last steps, once there is one.
    pub loss: Option<f64>,
    /// Steps and losses so far.
    pub curve: Vec<(u64, f64)>,
    /// Seconds since it began.
    pub seconds: f64,
    /// Why it failed, if it did.
    pub problem: Option<String>,
}

/// A training in the background, or none.
pub struct Demonstration(Option<BackgroundTraining>);

struct BackgroundTraining {
    folder: PathBuf,
    steps: u64,
    began: Instant,
    /// How it ended, once it has.
    end: Arc<Mutex<Option<Result<(), String>>>>,
}

/// A small GPT over words: large enough for heads that differ, small enough for less than a minute.
fn config() -> Result<RunConfig> {
    let settings = [
        "model.n_layers=3",
        "model.d_model=96",
        "model.context=64",
        "data.texts=2000",
        "train.steps=300",
        "train.batch_size=12",
        "train.evaluate_every=100",
        "train.rate.warmup=30",
        "train.rate.highest=2e-3",
    ];
    preset("words-gpt", &settings.map(str::to_owned))
}

impl Demonstration {
    /// No training.
    pub fn none() -> Self {
        Self(None)
    }

    /// Begins or resumes training in a folder.
    pub fn begin(folder: &Path) -> Result<Self> {
        let config = config()?;
        let end = Arc::new(Mutex::new(None));
        let training = BackgroundTraining {
            folder: folder.to_owned(),
            steps: config.train.steps,
            began: Instant::now(),
            end: Arc::clone(&end),
        };
        let folder = folder.to_owned();
        std::thread::spawn(move || {
            let outcome = match train_in(&folder, &config, Placement::CPU, Reporting::Silent) {
                Ok(true) => Ok(()),
                Ok(false) => Err("the training was stopped".to_owned()),
                Err(error) => Err(format!("{error:#}")),
            };
            *end.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        });
        Ok(Self(Some(training)))
    }

    /// Its progress; none if there is no training, or it has ended well.
    pub fn progress(&self) -> Option<TrainingProgress> {
        let BackgroundTraining { folder, steps, began, end } = self.0.as_ref()?;
        let ended = end.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if ended == Some(Ok(())) {
            return None;
        }
        let curve = losses(&folder.join("metrics.csv"));
        let (step, loss) = curve.last().map_or((0, None), |&(step, loss)| (step, Some(loss)));
        let seconds = began.elapsed().as_secs_f64();
        let problem = ended.and_then(Result::err);
        Some(TrainingProgress { step, steps: *steps, loss, curve, seconds, problem })
    }
}

/// The most points of a curve.
const MOST_POINTS: usize = 1000;

/// The steps and losses in a run's metrics.
fn losses(path: &Path) -> Vec<(u64, f64)> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let point = |line: &str| {
        let mut fields = line.split(',');
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let points: Vec<(u64, f64)> = text.lines().filter_map(point).collect();
    let every = points.len().div_ceil(MOST_POINTS).max(1);
    points.into_iter().step_by(every).collect()
}
