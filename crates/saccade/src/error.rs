//! The one error type of the library.

use std::path::Path;

/// What went wrong, what was expected and what came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on tensors failed.
    #[error(transparent)]
    Tensor(#[from] saccade_tensor::Error),
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
    /// A file that cannot be read, written or understood.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A checkpoint that does not fit together, or that needs what is not implemented.
    #[error("{0}")]
    Checkpoint(String),
    /// Someone asked for the work to stop.
    #[error("cancelled")]
    Cancelled,
}

/// The result of every fallible function of the library.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn configuration(model: &'static str, problem: impl Into<String>) -> Self {
        Self::Configuration { model, problem: problem.into() }
    }

    pub(crate) fn file(path: &Path, problem: impl Into<String>) -> Self {
        Self::File { path: path.display().to_string(), problem: problem.into() }
    }

    pub(crate) fn checkpoint(problem: impl Into<String>) -> Self {
        Self::Checkpoint(problem.into())
    }

    pub(crate) fn input(model: &'static str, problem: impl Into<String>) -> Self {
        Self::Input { model, problem: problem.into() }
    }
}
