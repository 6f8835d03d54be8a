//! Training in a folder, from the beginning or from wherever it stopped.

use super::config::RunConfig;
use super::folder::RunFolder;
use super::material::{Material, prepare};
use super::watch::{Note, Voice, Watch};
use crate::terminal;
use anyhow::{Context as _, Result, bail};
use saccade::models::Model;
use saccade::tokens::Tokenizer;
use saccade::train::{End, Progress, load_state, train};
use std::path::Path;

/// A run with everything it needs to go on.
pub struct Session {
    config: RunConfig,
    folder: RunFolder,
    material: Material,
    progress: Progress,
    note: Note,
    voice: Voice,
}

impl Session {
    /// A new run in a folder that holds none, from random weights or a model, with a tokenizer of its own or this one.
    pub fn begin(
        path: &Path,
        config: &RunConfig,
        tokenizer: Option<Tokenizer>,
        model: Option<Model>,
        voice: Voice,
    ) -> Result<Self> {
        let material = prepare(config, tokenizer, model)?;
        // From here on there is something to lose.
        super::interrupted();
        let folder = RunFolder::create(path, config)?;
        write_readers(&folder, &material)?;
        Ok(Self::fresh(config.clone(), folder, material, voice))
    }

    fn fresh(config: RunConfig, folder: RunFolder, material: Material, voice: Voice) -> Self {
        let progress = Progress::new(&config.train);
        let note = Note { data: material.summary.clone(), ..Note::default() };
        Self { config, folder, material, progress, note, voice }
    }

    /// The run in a folder, from its last state.
    pub fn resume(path: &Path, voice: Voice) -> Result<Self> {
        let (folder, config) = RunFolder::open(path)?;
        let tokenizer = match path.join("tokenizer.json").is_file() {
            true => Some(Tokenizer::from_folder(path)?),
            false => None,
        };
        let mut material = prepare(&config, tokenizer, None)?;
        if !folder.state().exists() {
            voice.remark("nothing was saved before it stopped; beginning anew");
            // It may have stopped before these were written, too.
            write_readers(&folder, &material)?;
            return Ok(Self::fresh(config, folder, material, voice));
        }
        let configuration = toml::to_string(&config)?;
        let (progress, note) =
            load_state(&folder.state(), material.task.as_mut(), &config.train, &configuration)?;
        let note: Note = serde_json::from_str(&note).context("the state's note cannot be understood")?;
        if note.data != material.summary {
            bail!("the data has changed: it was {}, it is {}", note.data, material.summary);
        }
        voice.remark(format!("going on from step {}", progress.step));
        Ok(Self { config, folder, material, progress, note, voice })
    }

    /// What it learns from and what learns.
    pub fn introduce(&self) {
        let model = self.material.task.model();
        let count = terminal::thousands(model.module().parameter_count() as u64);
        self.voice.remark(format!("{}\na {} with {count} parameters", self.material.summary, model.kind()));
    }

    /// Trains to the end, unless it is stopped.
    pub fn learn(mut self) -> Result<(End, Progress)> {
        let step = self.progress.step;
        let mut watch = Watch::new(&self.config, &self.folder, &self.material, self.note, step, self.voice)?;
        let end = train(self.material.task.as_mut(), &self.config.train, &mut self.progress, &mut watch)?;
        Ok((end, self.progress))
    }
}

/// Writes how the model reads: its tokenizer, or what becomes of pixels.
fn write_readers(folder: &RunFolder, material: &Material) -> Result<()> {
    if let Some(tokenizer) = &material.tokenizer {
        folder.write_tokenizer(tokenizer)?;
    }
    if let Some(pixels) = &material.pixels {
        folder.write_pixels(pixels)?;
    }
    Ok(())
}

/// The file that says that a run is done.
const DONE: &str = "done";

/// Trains as configured in a folder, wherever an earlier attempt there has come to. Whether it was finished: not if Ctrl-C
/// was pressed.
pub fn train_in(path: &Path, config: &RunConfig, voice: Voice) -> Result<bool> {
    let done = path.join(DONE);
    if done.exists() {
        return Ok(true);
    }
    let session = match path.join("train.toml").exists() {
        true => Session::resume(path, voice)?,
        false => Session::begin(path, config, None, None, voice)?,
    };
    let (end, _) = session.learn()?;
    if end == End::Stopped {
        return Ok(false);
    }
    saccade::data::file::write_whole(&done, |_| Ok(()))?;
    Ok(true)
}
