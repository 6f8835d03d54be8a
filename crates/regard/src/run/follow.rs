//! Training as one of several ranks: rank 0 leads, the others follow.
//!
//! Rank 0 has the run's folder. The others receive its configuration, its tokenizer and its last state, read the data
//! themselves, and write nothing.

use super::config::{self, RunConfig};
use super::folder::RunFolder;
use super::observer::RunningTotals;
use super::prepare::prepare_in;
use crate::compute::Compute;
use crate::ranks;
use crate::signals::interrupt_flag;
use crate::temporary_folder::TemporaryFolder;
use anyhow::{Context as _, Result};
use regard_nn::tokens::Tokenizer;
use regard_nn::train::parallel::Group;
use regard_nn::train::{Flow, Observer, Progress, Step, Task, TrainingEnd, load_state, train_together};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What followers receive besides the configuration.
const FILES: [&str; 3] = ["tokenizer.json", "tokenizer_config.json", "state.safetensors"];

/// Sends the run to all ranks, and waits until they are ready.
pub(super) fn lead(group: &dyn Group, config: &RunConfig, folder: &RunFolder, checksum: u64) -> Result<()> {
    let mut files = vec![toml::to_string(config)?.into_bytes()];
    for name in FILES {
        let path = folder.path().join(name);
        files.push(if path.exists() { std::fs::read(&path)? } else { Vec::new() });
    }
    ranks::broadcast(group, &files)?;
    ranks::together(group, Ok(()))?;
    ranks::ensure_same(group, "data", checksum)
}

/// Trains as a rank other than 0.
pub fn follow(group: &dyn Group, compute: Compute) -> Result<TrainingEnd> {
    let files = ranks::broadcast(group, &[])?;
    let (folder, ready) = match TemporaryFolder::new() {
        Ok(folder) => {
            let ready = get_ready(folder.path(), &files, compute);
            (Some(folder), ready)
        }
        Err(error) => (None, Err(error)),
    };
    let (config, mut task, mut progress, checksum, factor) = ranks::together(group, ready)?;
    drop(folder);
    ranks::ensure_same(group, "data", checksum)?;
    let mut observer = Following { stop: interrupt_flag(), factor };
    Ok(train_together(&mut *task, &config.train, &mut progress, &mut observer, group)?)
}

/// A run that is ready: configuration, task, progress, checksum of the data, factor of the learning rate.
type Ready = (RunConfig, Box<dyn Task>, Progress, u64, f32);

/// The run as rank 0 has it.
fn get_ready(folder: &Path, files: &[Vec<u8>], compute: Compute) -> Result<Ready> {
    let text = files.first().and_then(|file| String::from_utf8(file.clone()).ok());
    let text = text.context("rank 0 sent no configuration")?;
    let mut config = config::parse(&text)?;
    let placement = compute.placement_to_resume(&config.train)?;
    for (name, file) in FILES.iter().zip(&files[1..]).filter(|(_, file)| !file.is_empty()) {
        std::fs::write(folder.join(name), file)?;
    }
    let has = |name: &str| folder.join(name).exists();
    let tokenizer = if has(FILES[0]) { Some(Tokenizer::from_folder(folder)?) } else { None };
    if has(FILES[2]) {
        // The state has all parameters.
        config.data.vectors = None;
    }
    let mut prepared = prepare_in(Some(folder), &config, tokenizer, None)?;
    placement.place_to_train(prepared.task.model_mut())?;
    let (progress, note) = match has(FILES[2]) {
        true => load_state(&folder.join(FILES[2]), prepared.task.as_mut(), &config.train, &text)?,
        false => (Progress::new(&config.train), String::new()),
    };
    let totals = serde_json::from_str::<RunningTotals>(&note).unwrap_or_default();
    Ok((config, prepared.task, progress, prepared.checksum, totals.rate_factor.unwrap_or(1.0)))
}

/// Stops when a signal says so.
struct Following {
    stop: Arc<AtomicBool>,
    /// What the learning rates were multiplied by when the run was last watched.
    factor: f32,
}

impl Observer for Following {
    fn sees_gradients(&self) -> bool {
        false
    }

    fn rate(&mut self, _: u64, scheduled: f32) -> f32 {
        scheduled * self.factor
    }

    fn stepped(&mut self, _: &Step, _: &dyn Task, _: &Progress) -> regard_nn::Result<Flow> {
        Ok(if self.stop.load(Ordering::Relaxed) { Flow::Stop } else { Flow::Continue })
    }
}
