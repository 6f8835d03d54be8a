//! The folder a run leaves: one that both this program and Hugging Face's own can open.
//!
//! ```text
//! config.json  model.safetensors  tokenizer.json     the best model so far, in Hugging Face's form
//! train.toml                                         everything the run was configured as
//! metrics.csv                                        a line every few steps
//! state.safetensors                                  what resuming needs, and all it reads
//! train.ids  held-out.ids                            the tokens of a text that does not fit memory
//! snapshots/step-N/                                  whole models at chosen steps
//! lock                                               held by the process that trains here
//! done                                               of a run that an experiment or the page keeps: it is whole, and its state is gone
//! ```

use super::config::{self, RunConfig};
use crate::terminal;
use anyhow::{Context as _, Result, bail};
use regard_nn::checkpoint;
use regard_nn::data::file::write_whole;
use regard_nn::models::Model;
use regard_nn::tokens::Tokenizer;
use serde_json::{Map, Value};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The columns of `metrics.csv`.
pub const COLUMNS: &str = "step,train_loss,val_loss,learning_rate,seconds,gradient_norm,examples,tokens,val_accuracy,val_perplexity";

/// A run's folder.
pub struct RunFolder {
    path: PathBuf,
    /// As long as this is open, no other process trains here; it ends with the process, however that ends.
    lock: Option<File>,
}

impl RunFolder {
    /// Fails if a folder holds a run already.
    pub fn ensure_free(path: &Path) -> Result<()> {
        if ["state.safetensors", "train.toml"].iter().any(|name| path.join(name).exists()) {
            bail!(
                "{} holds a run already; continue it with `regard train --resume --out {}`, or choose another --out",
                path.display(),
                terminal::quoted(path)
            );
        }
        Ok(())
    }

    /// A folder for a new run. It must not hold one already.
    pub fn create(path: &Path, config: &RunConfig) -> Result<Self> {
        Self::ensure_free(path)?;
        std::fs::create_dir_all(path)
            .with_context(|| format!("cannot create the folder {}", path.display()))?;
        let folder = Self { path: path.to_owned(), lock: Some(lock(path)?) };
        Self::ensure_free(path)?;
        folder.write("train.toml", &toml::to_string(config)?)?;
        folder.write("metrics.csv", &format!("{COLUMNS}\n"))?;
        Ok(folder)
    }

    /// The folder of a run that was begun, and its configuration.
    pub fn open(path: &Path) -> Result<(Self, RunConfig)> {
        let folder = Self { path: path.to_owned(), lock: None };
        let file = folder.path.join("train.toml");
        let bytes = std::fs::read(&file).with_context(|| {
            format!("{} is not the folder of a run: cannot read train.toml", path.display())
        })?;
        let damaged = || format!("{} is damaged", file.display());
        let text = String::from_utf8(bytes).ok().context("it is not UTF-8").with_context(damaged)?;
        let config = config::parse(&text).with_context(damaged)?;
        Ok((folder, config))
    }

    /// The same, to resume training in it: fails if another process trains there.
    pub fn open_to_train(path: &Path) -> Result<(Self, RunConfig)> {
        let (mut folder, config) = Self::open(path)?;
        folder.lock = Some(lock(path)?);
        Ok((folder, config))
    }

    /// Whether another process trains in a folder.
    pub fn is_taken(path: &Path) -> bool {
        let lock = OpenOptions::new().append(true).open(path.join("lock"));
        lock.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// The configuration of the run in a folder, if a run made it.
    pub fn config_in(path: &Path) -> Result<Option<RunConfig>> {
        match path.join("train.toml").exists() {
            true => Ok(Some(Self::open(path)?.1)),
            false => Ok(None),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that resuming reads.
    pub fn state(&self) -> PathBuf {
        Self::state_of(&self.path)
    }

    /// The state that the run in a folder resumes from. A run that is done and kept by an experiment has none any more.
    pub fn state_of(folder: &Path) -> PathBuf {
        folder.join("state.safetensors")
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(write_whole(&self.path.join(name), |file| file.write_all(text.as_bytes()))?)
    }

    /// Writes the tokenizer, so that the run can be used and resumed without its data.
    pub fn write_tokenizer(&self, tokenizer: &Tokenizer) -> Result<()> {
        write_tokenizer(&self.path, tokenizer)
    }

    /// Writes how images become what the model reads.
    pub fn write_pixels(&self, pixels: &Value) -> Result<()> {
        self.write("preprocessor_config.json", &format!("{pixels:#}\n"))
    }

    /// Writes the model as the best so far.
    pub fn write_model(&self, model: &dyn Model, config_fields: &Map<String, Value>) -> Result<()> {
        Ok(checkpoint::save(model, &self.path, config_fields)?)
    }

    /// The folder of the model that a run had at a step.
    pub fn snapshot(run: &Path, step: u64) -> PathBuf {
        run.join("snapshots").join(format!("step-{step}"))
    }

    /// The steps of which the run in a folder kept the whole model, in order.
    pub fn snapshots(run: &Path) -> Vec<u64> {
        let entries = std::fs::read_dir(run.join("snapshots")).into_iter().flatten().flatten();
        let step = |name: &str| name.strip_prefix("step-")?.parse::<u64>().ok();
        let mut steps: Vec<u64> = entries.filter_map(|entry| step(entry.file_name().to_str()?)).collect();
        steps.retain(|&step| Self::snapshot(run, step).join("config.json").is_file());
        steps.sort_unstable();
        steps
    }

    /// Writes a whole model at a step, with all that the run's own model is read with. It has its name when it is whole:
    /// whoever watches the run opens it at once.
    pub fn write_snapshot(
        &self,
        step: u64,
        model: &dyn Model,
        config_fields: &Map<String, Value>,
        tokenizer: Option<&Tokenizer>,
    ) -> Result<()> {
        let folder = self.path.join("snapshots").join(format!(".step-{step}"));
        if folder.exists() {
            // An attempt that was killed.
            std::fs::remove_dir_all(&folder)?;
        }
        checkpoint::save(model, &folder, config_fields)?;
        for name in ["train.toml", "preprocessor_config.json"] {
            if let Ok(text) = std::fs::read(self.path.join(name)) {
                write_whole(&folder.join(name), |file| file.write_all(&text))?;
            }
        }
        tokenizer.map_or(Ok(()), |tokenizer| write_tokenizer(&folder, tokenizer))?;
        let whole = Self::snapshot(&self.path, step);
        if whole.exists() {
            // Of a run that is resumed from before this step.
            std::fs::remove_dir_all(&whole)?;
        }
        std::fs::rename(&folder, &whole)
            .with_context(|| format!("cannot write the snapshot {}", whole.display()))
    }

    /// Opens the metrics to add lines, without those after a step: a run that continues from there writes them again.
    pub fn metrics_up_to(&self, step: u64) -> Result<File> {
        let path = self.path.join("metrics.csv");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut kept = format!("{COLUMNS}\n");
        for line in text.lines().skip(1) {
            let whole = line.split(',').count() == COLUMNS.split(',').count();
            let at = line.split(',').next().and_then(|step| step.parse::<u64>().ok());
            if whole && at.is_some_and(|at| at <= step) {
                kept.push_str(line);
                kept.push('\n');
            }
        }
        self.write("metrics.csv", &kept)?;
        OpenOptions::new()
            .append(true)
            .open(&path)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Takes the lock of a folder, which is held until it is dropped.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let cannot = || format!("cannot write {}", path.display());
    let file = OpenOptions::new().create(true).append(true).open(&path).with_context(cannot)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => bail!("another process is training in {}", folder.display()),
        // Some file systems have no locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

fn write_tokenizer(folder: &Path, tokenizer: &Tokenizer) -> Result<()> {
    tokenizer.save(folder.join("tokenizer.json"))?;
    let text = tokenizer.configuration_json();
    Ok(write_whole(&folder.join("tokenizer_config.json"), |file| file.write_all(text.as_bytes()))?)
}
