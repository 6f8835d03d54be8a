//! The one error type of the library.

use std::fmt::Display;
use std::path::Path;

/// What went wrong, what was expected and what came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on tensors failed.
    #[error(transparent)]
    Tensor(#[from] regard_tensor::Error),
    /// A configuration that cannot be built.
    #[error("{model}: {problem}")]
    Configuration {
        /// The model or layer it is for.
        model: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// An input that a model cannot take.
    #[error("{model}: {problem}")]
    Input {
        /// The model or layer it is for.
        model: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A file, text or tokenizer that cannot be used.
    #[error("{place}: {problem}")]
    Data {
        /// Where: a file, with the line if there is one, or a part of it.
        place: String,
        /// What was expected there and what came.
        problem: String,
    },
    /// A checkpoint that does not fit together, or that needs what is not implemented.
    #[error("{0}")]
    Checkpoint(String),
    /// Training went wrong beyond repair.
    #[error("the loss is {loss} at step {step}; a lower learning rate or clipping may help")]
    Diverged {
        /// The step.
        step: u64,
        /// What the loss became.
        loss: String,
    },
    /// Someone asked for the work to stop.
    #[error("cancelled")]
    Cancelled,
    /// Predictions that cannot be measured.
    #[error("{metric}: {problem}")]
    Metric {
        /// What was to be measured.
        metric: &'static str,
        /// Why it cannot be.
        problem: String,
    },
}

/// The result of every fallible function of the library.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A configuration of which no model can be built.
    pub fn configuration(model: &'static str, problem: impl Into<String>) -> Self {
        Self::Configuration { model, problem: problem.into() }
    }

    /// A checkpoint that cannot be opened or written.
    pub fn checkpoint(problem: impl Into<String>) -> Self {
        Self::Checkpoint(problem.into())
    }

    /// Inputs that a model or a function cannot take.
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

/// What is said about a file may quote it, and a file of another kind has lines of any length and characters of any kind: it
/// stays one line, and its middle is left out if it is long.
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
