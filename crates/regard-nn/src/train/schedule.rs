//! Learning rate schedules.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// How the learning rate decreases after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Decay {
    /// It stays constant.
    Constant,
    /// Cosine decay to the lowest rate.
    Cosine,
    /// Linear decay to the lowest rate.
    Linear,
}

/// A learning rate with warm-up and decay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Schedule {
    /// The highest rate.
    pub highest: f32,
    /// The rate at the end.
    pub lowest: f32,
    /// The number of warm-up steps, in which it rises linearly to the highest rate.
    pub warmup: u64,
    /// How it decreases after the warm-up.
    pub decay: Decay,
    /// The step at which the decay ends; 0 for the last step.
    pub decay_until: u64,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { highest: 1e-3, lowest: 0.0, warmup: 0, decay: Decay::Constant, decay_until: 0 }
    }
}

impl Schedule {
    /// The rate of the update number `step` (from 0) of `steps`.
    pub fn at(&self, step: u64, steps: u64) -> f32 {
        if step < self.warmup {
            return self.highest * (step + 1) as f32 / (self.warmup + 1) as f32;
        }
        let until = if self.decay_until == 0 { steps } else { self.decay_until };
        let span = until.saturating_sub(self.warmup).max(1);
        let progress = ((step - self.warmup) as f64 / span as f64).min(1.0);
        let left = match self.decay {
            Decay::Constant => 1.0,
            Decay::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
            Decay::Linear => 1.0 - progress,
        };
        self.lowest + (self.highest - self.lowest) * left as f32
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.highest >= 0.0
            && self.lowest >= 0.0
            && self.highest.is_finite()
            && self.lowest <= self.highest
        {
            return Ok(());
        }
        let problem = format!(
            "highest and lowest must be at least 0, and highest not below lowest; got {} and {}",
            self.highest, self.lowest
        );
        Err(Error::configuration("train", problem))
    }
}
