//! The one error type of the library.

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
    pub(crate) fn configuration(model: &'static str, problem: impl Into<String>) -> Self {
        Self::Configuration { model, problem: problem.into() }
    }

    pub(crate) fn metric(metric: &'static str, problem: impl Into<String>) -> Self {
        Self::Metric { metric, problem: problem.into() }
    }
}
