//! What a trained model is measured on: the part of data that it did not learn from, and which part that is.

use super::config::{DataConfig, RunConfig};
use super::material::data_key;
use super::sources::{self, TEST_TEXTS, Tagged, split_point, text_files};
use anyhow::{Context as _, Result};
use saccade::data::Labelled;
use saccade::data::idx::Images;
use saccade::data::text::{IN_MEMORY, TokenStream};
use saccade::tokens::Tokenizer;
use std::path::{Path, PathBuf};

/// Data to measure on, beside what the model has learned from, if that is known.
pub struct Measured {
    config: DataConfig,
    learned: Option<RunConfig>,
}

/// Something to measure on, and what it is.
pub type Part<T> = (T, String);

impl Measured {
    /// Data for a model of a run: what was asked for, else what the run learned from.
    pub fn new(path: Option<String>, learned: Option<RunConfig>) -> Self {
        let data = learned.as_ref().map(|run| run.data.clone()).unwrap_or_default();
        let path = path.or_else(|| data.path.clone());
        Self { config: DataConfig { path, ..data }, learned }
    }

    /// How the data is to be read.
    pub fn config(&self) -> &DataConfig {
        &self.config
    }

    fn path(&self) -> Option<&Path> {
        self.config.path.as_deref().map(Path::new)
    }

    /// The run that learned from this very path: whatever comes without a part for tests is measured on as it was held out.
    fn own(&self) -> Option<&RunConfig> {
        let learned = self.learned.as_ref()?;
        let same = |path: &str| std::fs::canonicalize(path).ok();
        (same(learned.data.path.as_deref()?)? == same(self.config.path.as_deref()?)?).then_some(learned)
    }

    /// A running text for a language model. Ids that do not fit memory are kept in a file until it is dropped.
    pub fn language(&self, tokenizer: &Tokenizer) -> Result<Part<TokenStream>> {
        let Some(path) = self.path() else {
            return Ok((sources::test_stream(&self.config, tokenizer, TEST_TEXTS)?, built_in("corpus")));
        };
        let (files, held) = self.text_parts(path)?;
        let folder = TemporaryFolder::new()?;
        let most = self.config.in_memory.unwrap_or(IN_MEMORY);
        let stream = TokenStream::read_within(&files, tokenizer, most, &folder.0.join("ids"))?;
        match held {
            None => Ok((stream, names(&files))),
            Some(share) => Ok((stream.hold_out(share)?.1, tail(&files, share))),
        }
    }

    /// Texts, one a line.
    pub fn texts(&self) -> Result<Part<Vec<String>>> {
        let Some(path) = self.path() else {
            return Ok((sources::test_texts(&self.config)?, built_in("corpus")));
        };
        let (files, held) = self.text_parts(path)?;
        let mut lines = sources::lines(&files)?;
        match held {
            None => Ok((lines, names(&files))),
            Some(share) => Ok((lines.split_off(split_point(lines.len(), share)?), tail(&files, share))),
        }
    }

    /// The files of a text to read, and the share at their end that counts, if not all of it does.
    fn text_parts(&self, path: &Path) -> Result<(Vec<PathBuf>, Option<f64>)> {
        let (train, held) = text_files(path)?;
        if let Some(test) = sources::test_text(path, &train)?.or(held) {
            return Ok((vec![test], None));
        }
        Ok((train, self.own().map(|run| run.data.held_out)))
    }

    /// Texts with their classes.
    pub fn labelled(&self) -> Result<Part<Labelled>> {
        let Some(path) = self.path() else {
            return Ok((sources::test_labelled(&self.config)?, built_in("corpus")));
        };
        if sources::is_imdb(path)? {
            return Ok((sources::test_labelled(&self.config)?, format!("{}, its test part", path.display())));
        }
        let file = sources::test_file(path, &sources::TABLES)?;
        let all = sources::labelled_table(&file, &self.config)?;
        match self.own().filter(|_| path.is_file()) {
            None => Ok((all, file.display().to_string())),
            Some(run) => {
                let held = all.hold_out(run.data.held_out, data_key(run))?.1;
                Ok((
                    held,
                    format!("{}, the {} of it that was held out", path.display(), share(run.data.held_out)),
                ))
            }
        }
    }

    /// Sentences with the classes of their words.
    pub fn tagged(&self) -> Result<Part<Vec<Tagged>>> {
        let Some(path) = self.path() else {
            return Ok((sources::test_tagged(&self.config)?, built_in("corpus")));
        };
        let file = sources::test_file(path, &sources::TREEBANKS)?;
        let mut all = sources::test_tagged(&self.config)?;
        match self.own().filter(|_| path.is_file()) {
            None => Ok((all, file.display().to_string())),
            Some(run) => {
                let held = all.split_off(split_point(all.len(), run.data.held_out)?);
                Ok((held, tail(&[file], run.data.held_out)))
            }
        }
    }

    /// Images with their classes.
    pub fn images(&self) -> Result<Part<Images>> {
        let about = self.path().map(|path| format!("{}, its test part (t10k)", path.display()));
        Ok((sources::test_images(&self.config)?, about.unwrap_or_else(|| built_in("digits"))))
    }

    /// Sentences with their translations.
    pub fn pairs(&self, part: &str) -> Result<Part<Vec<(String, String)>>> {
        let about = self.path().map(|path| format!("{}, its part {part}", path.display()));
        Ok((sources::test_pairs(&self.config, part)?, about.unwrap_or_else(|| built_in("pairs"))))
    }
}

fn built_in(what: &str) -> String {
    format!("the test part of the built-in {what}")
}

fn names(files: &[PathBuf]) -> String {
    match files {
        [one] => one.display().to_string(),
        files => {
            let first = files.first().map(|file| file.display().to_string()).unwrap_or_default();
            format!("{first} and {} other files", files.len().saturating_sub(1))
        }
    }
}

fn tail(files: &[PathBuf], held: f64) -> String {
    format!("{}, the last {}, which was held out", names(files), share(held))
}

fn share(share: f64) -> String {
    format!("{} %", (share * 10_000.0).round() / 100.0)
}

/// A folder for a file of ids, for as long as it is being read; who has the file open keeps it.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("saccade-{}", std::process::id()));
        // It must be new: what someone else has put there is not to be written to.
        std::fs::create_dir(&path).with_context(|| format!("cannot create the folder {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
