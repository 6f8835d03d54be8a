//! What a person may do to a run while it trains, and what it reports meanwhile.
//!
//! The observer of the run and whoever shows it share one [`Controls`].

use serde::Serialize;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The factors that a learning rate can be multiplied by.
pub const FACTORS: RangeInclusive<f32> = 1.0 / 64.0..=64.0;

/// The latest step of a run that trains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LatestStep {
    /// Its number; 0 before the first.
    pub step: u64,
    /// The mean loss since the last line of metrics.
    pub loss: Option<f64>,
    /// Its learning rate.
    pub rate: f32,
    /// Tokens (or images) per second since the run began.
    pub speed: f64,
}

/// The controls of a run.
#[derive(Debug)]
pub struct Controls {
    paused: AtomicBool,
    /// The bits of the factor.
    factor: AtomicU32,
    rate_is_fixed: AtomicBool,
    latest: Mutex<LatestStep>,
    end: Mutex<Option<Result<(), String>>>,
}

impl Default for Controls {
    fn default() -> Self {
        Self {
            paused: AtomicBool::new(false),
            factor: AtomicU32::new(1.0_f32.to_bits()),
            rate_is_fixed: AtomicBool::new(false),
            latest: Mutex::default(),
            end: Mutex::default(),
        }
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Controls {
    /// Pauses the run after the step that it is at, or lets it continue.
    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
    }

    /// Whether it is to pause.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Multiplies the schedule's learning rates by a factor from now on. Whether that is possible: the factor is one of
    /// [`FACTORS`], and the rate is not fixed.
    pub fn set_factor(&self, factor: f32) -> bool {
        let possible = FACTORS.contains(&factor) && !self.rate_is_fixed();
        if possible {
            self.factor.store(factor.to_bits(), Ordering::Relaxed);
        }
        possible
    }

    /// The factor of the learning rate.
    pub fn factor(&self) -> f32 {
        f32::from_bits(self.factor.load(Ordering::Relaxed))
    }

    /// Ranks that train together cannot change their rate: all would have to do so at the same step.
    pub(super) fn fix_rate(&self) {
        self.rate_is_fixed.store(true, Ordering::Relaxed);
    }

    /// Whether the learning rate cannot be changed.
    pub fn rate_is_fixed(&self) -> bool {
        self.rate_is_fixed.load(Ordering::Relaxed)
    }

    pub(super) fn report(&self, latest: LatestStep) {
        *held(&self.latest) = latest;
    }

    /// The latest step.
    pub fn latest(&self) -> LatestStep {
        *held(&self.latest)
    }

    /// Reports that the run has ended, or why it failed.
    pub fn finish(&self, end: Result<(), String>) {
        *held(&self.end) = Some(end);
    }

    /// How it ended, once it has.
    pub fn end(&self) -> Option<Result<(), String>> {
        held(&self.end).clone()
    }
}

/// What accompanies a run besides its folder.
#[derive(Debug, Clone, Default)]
pub struct Attached {
    /// The controls of whoever watches it.
    pub controls: Option<Arc<Controls>>,
    /// The folder for `TensorBoard` event files.
    pub tensorboard: Option<PathBuf>,
}

/// The memory on disk that the snapshots of a film may take, unless they are very few, in bytes.
const FILM_BYTES: usize = 1 << 30;

/// The steps of which a run that is watched keeps its whole model: closer together at first, where most is learned.
pub fn film_steps(steps: u64, parameters: usize) -> Vec<u64> {
    let most = (FILM_BYTES / (4 * parameters.max(1))).clamp(4, 32);
    let share = |i: usize| (i as f64 / most as f64).powf(1.6);
    let mut found: Vec<u64> = (0..=most).map(|i| (steps as f64 * share(i)).round() as u64).collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_film_has_its_first_and_last_step_and_more_at_the_beginning() {
        let film = film_steps(300, 1_000_000);
        assert_eq!((film[0], film[film.len() - 1]), (0, 300));
        assert!(film.len() > 25 && film.windows(2).all(|pair| pair[0] < pair[1]), "{film:?}");
        assert!(film[1] - film[0] < film[film.len() - 1] - film[film.len() - 2]);
        assert_eq!(film_steps(2, 1000), [0, 1, 2]);
        // Large models are kept less often.
        assert_eq!(film_steps(1000, 124_000_000).len(), 5);
    }

    #[test]
    fn factors_that_make_no_sense_change_nothing() {
        let controls = Controls::default();
        for wrong in [f32::NAN, 0.0, -1.0, 1e9] {
            assert!(!controls.set_factor(wrong));
        }
        assert!(controls.set_factor(2.0));
        controls.fix_rate();
        assert!(!controls.set_factor(4.0));
        assert_eq!(controls.factor().to_bits(), 2.0_f32.to_bits());
    }
}
