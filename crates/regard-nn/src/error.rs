//! The library's error type.

use std::fmt::Display;
use std::path::Path;

/// An error of the library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor operation failed.
    #[error(transparent)]
    Tensor(#[from] regard_tensor::Error),
    /// An invalid configuration.
    #[error("{model}: {problem}")]
    Configuration {
        /// The model, layer or function.
        model: &'static str,
        /// The problem.
        problem: String,
    },
    /// An input that a model cannot process.
    #[error("{model}: {problem}")]
    Input {
        /// The model, layer or function.
        model: &'static str,
        /// The problem.
        problem: String,
    },
    /// An unusable file, text or tokenizer.
    #[error("{place}: {problem}")]
    Data {
        /// The location: a file, with the line if known, or a part of it.
        place: String,
        /// What was expected there and what was found.
        problem: String,
    },
    /// An inconsistent checkpoint, or one that needs a feature that is not implemented.
    #[error("{0}")]
    Checkpoint(String),
    /// Training diverged.
    #[error("the loss is {loss} at step {step}; a lower learning rate or clipping may help")]
    Diverged {
        /// The step.
        step: u64,
        /// The loss.
        loss: String,
    },
    /// The operation was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// A metric that is undefined for the given predictions.
    #[error("{metric}: {problem}")]
    Metric {
        /// The metric.
        metric: &'static str,
        /// Why it is undefined.
        problem: String,
    },
}

/// The result of every fallible function of the library.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An invalid configuration.
    pub fn configuration(model: &'static str, problem: impl Into<String>) -> Self {
        Self::Configuration { model, problem: problem.into() }
    }

    /// A checkpoint that cannot be read or written.
    pub fn checkpoint(problem: impl Into<String>) -> Self {
        Self::Checkpoint(problem.into())
    }

    /// Inputs that a model or function cannot process.
    pub fn input(model: &'static str, problem: impl Into<String>) -> Self {
        Self::Input { model, problem: problem.into() }
    }

    pub(crate) fn data(place: impl Display, problem: impl Display) -> Self {
        Self::Data { place: place.to_string(), problem: bounded(&problem.to_string()) }
    }

    pub(crate) fn file(path: &Path, problem: impl Display) -> Self {
        Self::data(path.display(), problem)
    }

    /// Lines count from 1.
    pub(crate) fn line(path: &Path, line: usize, problem: impl Display) -> Self {
        Self::data(format_args!("{}, line {line}", path.display()), problem)
    }

    pub(crate) fn metric(metric: &'static str, problem: impl Into<String>) -> Self {
        Self::Metric { metric, problem: problem.into() }
    }
}

/// Limits a message about a file. It may quote the file, whose lines can be of any length and contain any characters:
/// control characters are replaced, and the middle of a long message is left out.
fn bounded(problem: &str) -> String {
    const MOST: usize = 400;
    let problem = problem.replace(char::is_control, "\u{fffd}");
    let count = problem.chars().count();
    if count <= MOST {
        return problem;
    }
    let start: String = problem.chars().take(MOST - MOST / 4).collect();
    let end: String = problem.chars().skip(count - MOST / 4).collect();
    format!("{start} […] {end}")
}
