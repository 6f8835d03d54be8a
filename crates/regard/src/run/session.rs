//! Training in a folder, from the beginning or from wherever it stopped.

use super::config::RunConfig;
use super::controls::{Attached, film_steps};
use super::folder::RunFolder;
use super::follow;
use super::initial_model::InitialModel;
use super::observer::{Reporting, RunObserver, RunningTotals};
use super::prepare::{PreparedRun, prepare_in};
use crate::compute::{Compute, Placement};
use crate::terminal;
use anyhow::{Context as _, Result, anyhow, bail};
use regard_nn::tokens::Tokenizer;
use regard_nn::train::parallel::{Alone, Group};
use regard_nn::train::{Progress, TrainingEnd, load_state, save_state, train_together};
use std::path::Path;

/// A run with everything it needs to continue.
pub struct Session<'a> {
    config: RunConfig,
    folder: RunFolder,
    prepared: PreparedRun,
    progress: Progress,
    note: RunningTotals,
    reporting: Reporting<'a>,
    attached: Attached,
}

impl<'a> Session<'a> {
    /// A new run in a folder that holds none, from random weights or a given model.
    pub fn begin(
        path: &Path,
        config: &RunConfig,
        given: Option<InitialModel>,
        placement: Placement,
        reporting: Reporting<'a>,
    ) -> Result<Self> {
        Self::begin_attached(path, config, given, placement, reporting, Attached::default())
    }

    /// The same, accompanied. A run with controls keeps snapshots, unless it is configured which.
    pub fn begin_attached(
        path: &Path,
        config: &RunConfig,
        given: Option<InitialModel>,
        placement: Placement,
        reporting: Reporting<'a>,
        attached: Attached,
    ) -> Result<Self> {
        let mut config = RunConfig { data: config.data.clone().located()?, ..config.clone() };
        config.from = given.as_ref().map(|given| given.folder.display().to_string());
        let (tokenizer, model) = given.map_or((None, None), |given| (given.tokenizer, Some(given.model)));
        let mut prepared = prepare_in(Some(path), &config, tokenizer, model)?;
        config.model = config.resolved(prepared.task.model())?;
        if attached.controls.is_some() && config.run.snapshots.is_empty() {
            let parameters = prepared.task.model().parameter_count();
            config.run.snapshots = film_steps(config.train.steps, parameters);
        }
        placement.place_to_train(prepared.task.model_mut())?;
        // From here on there is something to lose.
        super::interrupt_flag();
        let folder = RunFolder::create(path, &config)?;
        Ok(Self::at_first(config, folder, prepared, placement, reporting)?.attach(attached))
    }

    /// Accompanies the run.
    #[must_use]
    pub fn attach(self, attached: Attached) -> Self {
        Self { attached, ..self }
    }

    /// How many snapshots it keeps, and how many bytes each has at least.
    pub fn snapshots(&self) -> (usize, usize) {
        (self.config.run.snapshots.len(), 4 * self.prepared.task.model().parameter_count())
    }

    /// A run before its first step, with all written down that its folder needs.
    fn at_first(
        config: RunConfig,
        folder: RunFolder,
        prepared: PreparedRun,
        placement: Placement,
        reporting: Reporting<'a>,
    ) -> Result<Self> {
        write_readers(&folder, &prepared)?;
        let progress = Progress::new(&config.train);
        let note = RunningTotals {
            data: prepared.summary.clone(),
            checksum: Some(prepared.checksum),
            device: Some(placement.identity()),
            ..RunningTotals::default()
        };
        if config.from.is_some() {
            // The initial weights cannot be drawn again, and their file may be gone when the run is resumed.
            let (task, text) = (prepared.task.as_ref(), serde_json::to_string(&note)?);
            save_state(&folder.state(), task, &progress, &toml::to_string(&config)?, &text)?;
        }
        Ok(Self { config, folder, prepared, progress, note, reporting, attached: Attached::default() })
    }

    /// The run in a folder, from its last state.
    pub fn resume(path: &Path, compute: Compute, reporting: Reporting<'a>) -> Result<Self> {
        let (folder, config) = RunFolder::open_to_train(path)?;
        let placement = compute.placement_to_resume(&config.train)?;
        if !folder.state().exists() {
            if path.join(DONE).exists() {
                bail!("{} is done, and was kept without its training state", path.display());
            }
            reporting.remark("nothing was saved before it stopped; beginning anew");
            let given = config.from.as_deref().map(InitialModel::open).transpose()?;
            let (tokenizer, model) = given.map_or((None, None), |given| (given.tokenizer, Some(given.model)));
            let tokenizer = own_tokenizer(path)?.or(tokenizer);
            let mut prepared = prepare_in(Some(path), &config, tokenizer, model)?;
            placement.place_to_train(prepared.task.model_mut())?;
            return Self::at_first(config, folder, prepared, placement, reporting);
        }
        // The state has all parameters: what they began with is not needed any more.
        let mut without = config.clone();
        without.data.vectors = None;
        let mut prepared = prepare_in(Some(path), &without, own_tokenizer(path)?, None)?;
        placement.place_to_train(prepared.task.model_mut())?;
        let configuration = toml::to_string(&config)?;
        let (progress, note) =
            load_state(&folder.state(), prepared.task.as_mut(), &config.train, &configuration)?;
        let mut note: RunningTotals =
            serde_json::from_str(&note).context("the state's note cannot be understood")?;
        if note.data != prepared.summary {
            bail!("the data has changed: it was {}, it is {}", note.data, prepared.summary);
        }
        if note.checksum.is_some_and(|checksum| checksum != prepared.checksum) {
            bail!("the data has changed: as much as before ({}), but not the same", note.data);
        }
        reporting.remark(format!("going on from step {}", progress.step));
        let device = placement.identity();
        if let Some(before) = note.device.replace(device.clone()).filter(|before| *before != device) {
            reporting.remark(format!(
                "this run was on {before} and continues on {device}: its results will not be bit for bit those of a run that \
                 stayed there"
            ));
        }
        Ok(Self { config, folder, prepared, progress, note, reporting, attached: Attached::default() })
    }

    /// Prints a summary of data and model.
    pub fn introduce(&self) {
        let model = self.prepared.task.model();
        let count = terminal::thousands(model.parameter_count() as u64);
        self.reporting.remark(format!(
            "{}\na {} with {count} parameters",
            self.prepared.summary,
            model.kind()
        ));
        for remark in &self.prepared.remarks {
            self.reporting.remark(remark);
        }
    }

    /// Trains to the end, unless it is stopped.
    pub fn learn(self) -> Result<(TrainingEnd, Progress)> {
        self.learn_with(&Alone)
    }

    /// The same as rank 0 of several, which alone writes and reports.
    pub fn learn_with(mut self, group: &dyn Group) -> Result<(TrainingEnd, Progress)> {
        if group.ranks() > 1 {
            follow::lead(group, &self.config, &self.folder, self.prepared.checksum)?;
        }
        let step = self.progress.step;
        let mut observer =
            RunObserver::new(&self.config, &self.folder, &self.prepared, self.note, step, self.reporting)?;
        if let Some(controls) = self.attached.controls.as_ref().filter(|_| group.ranks() > 1) {
            controls.fix_rate();
        }
        observer.attach(&self.attached, self.prepared.task.as_ref())?;
        let (task, config) = (self.prepared.task.as_mut(), &self.config.train);
        let end = train_together(task, config, &mut self.progress, &mut observer, group);
        if let Err(error) = end {
            // A rank that is gone takes no step with it: this one has all of the last.
            observer.save_after_failure(task, &self.progress, group);
            return Err(error.into());
        }
        Ok((end?, self.progress))
    }
}

/// The tokenizer that a run wrote, unless it stopped before.
fn own_tokenizer(path: &Path) -> Result<Option<Tokenizer>> {
    match path.join("tokenizer.json").is_file() {
        true => Ok(Some(Tokenizer::from_folder(path)?)),
        false => Ok(None),
    }
}

/// Writes how the model reads: its tokenizer, or what becomes of pixels.
fn write_readers(folder: &RunFolder, prepared: &PreparedRun) -> Result<()> {
    if let Some(tokenizer) = &prepared.tokenizer {
        folder.write_tokenizer(tokenizer)?;
    }
    if let Some(pixels) = &prepared.pixels {
        folder.write_pixels(pixels)?;
    }
    Ok(())
}

/// The file that marks a run as done.
pub const DONE: &str = "done";

/// Trains as configured in a folder, wherever an earlier attempt there has come to. Whether it was finished: not if Ctrl-C
/// was pressed. A finished run is not resumed, so its training state is not kept.
pub fn train_in(
    path: &Path,
    config: &RunConfig,
    placement: Placement,
    reporting: Reporting<'_>,
) -> Result<bool> {
    train_attached(path, config, placement, reporting, &Attached::default())
}

/// The same, accompanied.
pub fn train_attached(
    path: &Path,
    config: &RunConfig,
    placement: Placement,
    reporting: Reporting<'_>,
    attached: &Attached,
) -> Result<bool> {
    let done = path.join(DONE);
    if done.exists() {
        return Ok(true);
    }
    let session = match path.join("train.toml").exists() {
        true => {
            Session::resume(path, placement.into(), reporting).map(|session| session.attach(attached.clone()))
        }
        false => Session::begin_attached(path, config, None, placement, reporting, attached.clone()),
    };
    // Two experiments may need the same model at the same time.
    let session = session.map_err(|error| match RunFolder::is_taken(path) {
        true => anyhow!(
            "another process is training the same model in {}: repeat this command when that one has ended, and it uses the \
             model",
            path.display()
        ),
        false => error,
    })?;
    let (end, _) = session.learn()?;
    if end == TrainingEnd::Stopped {
        return Ok(false);
    }
    regard_nn::data::file::write_whole(&done, |_| Ok(()))?;
    // It does no harm if it stays.
    let _ = std::fs::remove_file(RunFolder::state_of(path));
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::preset;

    #[test]
    fn whoever_comes_second_is_told_to_repeat_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let lock = std::fs::File::create(path.join("lock")).unwrap();
        lock.lock().unwrap();
        let settings = ["data.texts=20", "data.limit=10", "train.steps=2", "train.batch_size=2"];
        let config = preset("bag", &settings.map(str::to_owned)).unwrap();
        let problem = || train_in(path, &config, Placement::CPU, Reporting::Silent).unwrap_err().to_string();
        let new = problem();
        assert!(
            new.contains("another process is training the same model") && new.contains("repeat"),
            "{new}"
        );
        // The other process has written its configuration in between.
        std::fs::write(path.join("train.toml"), toml::to_string(&config).unwrap()).unwrap();
        assert_eq!(problem(), new);
        assert!(!new.contains("--resume"), "{new}");
        std::fs::remove_file(path.join("train.toml")).unwrap();
        drop(lock);
        assert!(train_in(path, &config, Placement::CPU, Reporting::Silent).unwrap());
    }
}
