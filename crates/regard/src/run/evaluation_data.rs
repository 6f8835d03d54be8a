//! Evaluation data: the part of a data set that a model was not trained on, and which part that is.

use super::config::{DataConfig, RunConfig};
use super::prepare::data_key;
use super::sources::{self, TEST_TEXTS, Tagged, split_point};
use super::text_files::{count_lines, some_lines, test_text, train_and_validation};
use crate::corpus::evenly;
use crate::temporary_folder::TemporaryFolder;
use anyhow::Result;
use regard_nn::data::Labelled;
use regard_nn::data::idx::Images;
use regard_nn::data::text::{IN_MEMORY, TokenStream};
use regard_nn::tokens::Tokenizer;
use std::path::{Path, PathBuf};

/// Data to evaluate on, with the configuration of the run that trained the model, if known.
pub struct EvaluationData {
    config: DataConfig,
    learned: Option<RunConfig>,
}

/// Data with a description of it.
pub type Described<T> = (T, String);

impl EvaluationData {
    /// Data for a model of a run: the given path, else the run's own data.
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

    /// The run that was trained on this very file: evaluation then uses what it held out.
    fn learner(&self, file: &Path, kinds: &[&str]) -> Option<&RunConfig> {
        let learned = self.learned.as_ref()?;
        let from = sources::training_file(Path::new(learned.data.path.as_deref()?), kinds).ok()?;
        is_same(&from, file).then_some(learned)
    }

    /// A running text for a language model. Ids that do not fit memory are kept in a file until it is dropped.
    pub fn language(&self, tokenizer: &Tokenizer) -> Result<Described<TokenStream>> {
        let Some(path) = self.path() else {
            return Ok((sources::test_stream(&self.config, tokenizer, TEST_TEXTS)?, built_in("corpus")));
        };
        let (files, overlap) = self.text_parts(path)?;
        let folder = TemporaryFolder::new()?;
        let most = self.config.in_memory.unwrap_or(IN_MEMORY);
        let stream = TokenStream::read_within(&files, tokenizer, most, &folder.path().join("ids"))?;
        let about = overlap.describe(&files);
        match overlap {
            Overlap::HeldOut(share) => Ok((stream.hold_out(share)?.1, about)),
            Overlap::None | Overlap::Trained => Ok((stream, about)),
        }
    }

    /// Texts, one a line, at most so many (0: all), spread over them.
    pub fn texts(&self, limit: usize) -> Result<Described<Vec<String>>> {
        let Some(path) = self.path() else {
            let texts = sources::test_texts(&self.config)?;
            return Ok((evenly(&texts, limit).cloned().collect(), built_in("corpus")));
        };
        let (files, overlap) = self.text_parts(path)?;
        let count = count_lines(&files)?;
        let from = match overlap {
            Overlap::HeldOut(share) => split_point(count, share)?,
            Overlap::None | Overlap::Trained => 0,
        };
        Ok((some_lines(&files, from..count, limit)?, overlap.describe(&files)))
    }

    /// The files of a text to read, and how they overlap with the training data.
    fn text_parts(&self, path: &Path) -> Result<(Vec<PathBuf>, Overlap)> {
        let (train, held) = train_and_validation(path)?;
        let files = match test_text(path, &train)?.or(held) {
            Some(test) => vec![test],
            None => train,
        };
        let overlap = self.overlap(&files);
        Ok((files, overlap))
    }

    /// How the files of a text overlap with the training data.
    fn overlap(&self, files: &[PathBuf]) -> Overlap {
        let Some((run, path)) = self.learned.as_ref().and_then(|run| Some((run, run.data.path.as_deref()?)))
        else {
            return Overlap::None;
        };
        let Ok((train, held)) = train_and_validation(Path::new(path)) else { return Overlap::None };
        let learned = |file: &PathBuf| train.iter().any(|known| is_same(known, file));
        match files.iter().filter(|file| learned(file)).count() {
            0 => Overlap::None,
            // The end of them all together was held out, unless another file was.
            count if count == files.len() && count == train.len() && held.is_none() => {
                Overlap::HeldOut(run.data.held_out)
            }
            _ => Overlap::Trained,
        }
    }

    /// Texts with their classes.
    pub fn labelled(&self) -> Result<Described<Labelled>> {
        let Some(path) = self.path() else {
            return Ok((sources::test_labelled(&self.config)?, built_in("corpus")));
        };
        if sources::is_imdb(path)? {
            return Ok((sources::test_labelled(&self.config)?, format!("{}, its test part", path.display())));
        }
        let file = sources::test_file(path, &sources::TABLES)?;
        let all = sources::labelled_table(&file, &self.config)?;
        match self.learner(&file, &sources::TABLES) {
            None => Ok((all, file.display().to_string())),
            Some(run) => {
                let held = all.hold_out(run.data.held_out, data_key(run))?.1;
                Ok((
                    held,
                    format!("{}, the {} of it that was held out", file.display(), share(run.data.held_out)),
                ))
            }
        }
    }

    /// Sentences with the classes of their words.
    pub fn tagged(&self) -> Result<Described<Vec<Tagged>>> {
        let Some(path) = self.path() else {
            return Ok((sources::test_tagged(&self.config)?, built_in("corpus")));
        };
        let file = sources::test_file(path, &sources::TREEBANKS)?;
        let mut all = sources::test_tagged(&self.config)?;
        match self.learner(&file, &sources::TREEBANKS) {
            None => Ok((all, file.display().to_string())),
            Some(run) => {
                let held = all.split_off(split_point(all.len(), run.data.held_out)?);
                Ok((held, Overlap::HeldOut(run.data.held_out).describe(&[file])))
            }
        }
    }

    /// Images with their classes.
    pub fn images(&self) -> Result<Described<Images>> {
        let about = self.path().map(|path| format!("{}, its test part (t10k)", path.display()));
        Ok((sources::test_images(&self.config)?, about.unwrap_or_else(|| built_in("digits"))))
    }

    /// Sentences with their translations.
    pub fn pairs(&self, part: &str) -> Result<Described<Vec<(String, String)>>> {
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

/// How files to evaluate on overlap with the training data.
#[derive(Clone, Copy, PartialEq)]
enum Overlap {
    /// Not at all, as far as is known.
    None,
    /// They are the training data, of which this share at the end was held out.
    HeldOut(f64),
    /// All or most of them were trained on.
    Trained,
}

impl Overlap {
    /// Describes the part of the files that is evaluated.
    fn describe(self, files: &[PathBuf]) -> String {
        match self {
            Self::None => names(files),
            Self::HeldOut(held) => format!("{}, the last {}, which was held out", names(files), share(held)),
            Self::Trained => format!("{}, which the model has learned from", names(files)),
        }
    }
}

/// Whether two paths are the same file.
fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn share(share: f64) -> String {
    format!("{} %", (share * 10_000.0).round() / 100.0)
}
