//! A run that this process trains while the page shows it.

use crate::run::Controls;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A run in training, with its controls.
#[derive(Debug, Clone)]
pub struct LiveRun {
    /// Its folder.
    pub folder: PathBuf,
    /// Its controls.
    pub controls: Arc<Controls>,
}

/// The state of a run in training, as the page shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Live {
    /// The number of the latest step.
    pub step: u64,
    /// Its loss, once there is one.
    pub loss: Option<f64>,
    /// Its learning rate, if it is known.
    pub rate: Option<f32>,
    /// What the schedule's rate is multiplied by.
    pub factor: f32,
    /// Tokens per second, if they are known.
    pub speed: Option<f64>,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether it can be paused here: not if another process trains it.
    pub can_pause: bool,
    /// Whether its learning rate can be changed here.
    pub can_change_rate: bool,
    /// Why it failed, if it did.
    pub problem: Option<String>,
}

impl LiveRun {
    /// Whether this is the run in a folder.
    pub fn is_in(&self, folder: &Path) -> bool {
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        real(folder).is_some_and(|folder| Some(folder) == real(&self.folder))
    }

    /// Whether it has not ended well.
    pub fn is_unfinished(&self) -> bool {
        self.controls.end() != Some(Ok(()))
    }

    /// Why it failed, if it did.
    pub fn problem(&self) -> Option<String> {
        self.controls.end().and_then(Result::err)
    }

    /// How far it is; none if it has ended well.
    pub fn live(&self) -> Option<Live> {
        let problem = match self.controls.end() {
            Some(Ok(())) => return None,
            Some(Err(problem)) => Some(problem),
            None => None,
        };
        let (latest, running) = (self.controls.latest(), problem.is_none());
        Some(Live {
            step: latest.step,
            loss: latest.loss,
            rate: Some(latest.rate),
            factor: self.controls.factor(),
            speed: Some(latest.speed),
            paused: self.controls.is_paused(),
            can_pause: running,
            can_change_rate: running && !self.controls.rate_is_fixed(),
            problem,
        })
    }
}

impl Live {
    /// A run that another process trains.
    pub fn elsewhere(step: u64, loss: Option<f64>) -> Self {
        Self {
            step,
            loss,
            rate: None,
            factor: 1.0,
            speed: None,
            paused: false,
            can_pause: false,
            can_change_rate: false,
            problem: None,
        }
    }
}
