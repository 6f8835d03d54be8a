//! The model that is trained when there is none, so that the page always has something to show.

use super::live_run::LiveRun;
use crate::compute::Placement;
use crate::run::{Attached, Controls, Reporting, RunConfig, preset, train_attached};
use anyhow::Result;
use std::path::Path;
use std::sync::Arc;

/// The name of its folder among the runs.
pub const NAME: &str = "demonstration";

/// A small GPT over words: large enough for heads that differ, small enough for less than a minute.
fn config() -> Result<RunConfig> {
    let settings = [
        "model.n_layers=3",
        "model.d_model=96",
        "model.context=64",
        "data.texts=2000",
        "train.steps=300",
        "train.batch_size=12",
        "train.evaluate_every=50",
        "train.rate.warmup=30",
        "train.rate.highest=2e-3",
        "run.log_every=2",
    ];
    preset("words-gpt", &settings.map(str::to_owned))
}

/// Begins or resumes training in a folder, in the background.
pub fn begin(folder: &Path) -> Result<LiveRun> {
    let config = config()?;
    let controls = Arc::new(Controls::default());
    let run = LiveRun { folder: folder.to_owned(), controls: Arc::clone(&controls) };
    let folder = folder.to_owned();
    std::thread::spawn(move || {
        let attached = Attached { controls: Some(Arc::clone(&controls)), tensorboard: None };
        let outcome = match train_attached(&folder, &config, Placement::CPU, Reporting::Silent, &attached) {
            Ok(true) => Ok(()),
            Ok(false) => Err("the training was stopped".to_owned()),
            Err(error) => Err(format!("{error:#}")),
        };
        controls.finish(outcome);
    });
    Ok(run)
}
