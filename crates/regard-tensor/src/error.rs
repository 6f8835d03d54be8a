//! The engine's error type.

use crate::storage::Device;
use std::fmt::Display;

/// An error of an operation: what it expected and what it got.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Shapes that do not fit the operation or one another.
    #[error("{operation}: expected {expected}, got {got}")]
    Shape {
        /// The operation that failed.
        operation: &'static str,
        /// What it expected.
        expected: String,
        /// What it got.
        got: String,
    },
    /// An index, id or axis out of range.
    #[error("{operation}: {what} {index} is out of range, there are {limit}")]
    OutOfRange {
        /// The operation that failed.
        operation: &'static str,
        /// The kind of index.
        what: &'static str,
        /// Its value.
        index: usize,
        /// The number of valid indices.
        limit: usize,
    },
    /// An invalid setting, such as a dropout probability of 2.
    #[error("{operation}: {what} must be {expected}, got {got}")]
    Setting {
        /// The operation that failed.
        operation: &'static str,
        /// The name of the setting.
        what: &'static str,
        /// Its allowed range.
        expected: &'static str,
        /// The given value.
        got: String,
    },
    /// Operands on different devices.
    #[error("{operation}: expected values on {expected}, got values on {got}")]
    Device {
        /// The operation that failed.
        operation: &'static str,
        /// The device of the first operand.
        expected: Device,
        /// The device of the operand that differs.
        got: Device,
    },
    /// An error of a CUDA device or its libraries.
    #[error(transparent)]
    Cuda(#[from] crate::cuda::Error),
    /// A backward pass from a value that was not computed from any tracked tensor.
    #[error("backward: this value does not depend on any tracked value")]
    Untracked,
    /// A second backward pass through a graph that the first one freed.
    #[error("backward: the graph was freed by an earlier pass; call `keep_graph` on that pass to keep it")]
    Freed,
    /// A checkpointed segment whose own code failed.
    #[error("a checkpointed segment failed: {0}")]
    Segment(String),
}

/// The result of every fallible function of the engine.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn shape(operation: &'static str, expected: impl Display, got: impl Display) -> Self {
        Self::Shape { operation, expected: expected.to_string(), got: got.to_string() }
    }

    pub(crate) fn setting(
        operation: &'static str,
        what: &'static str,
        expected: &'static str,
        got: impl Display,
    ) -> Self {
        Self::Setting { operation, what, expected, got: got.to_string() }
    }
}

/// Returns a shape error unless the condition holds.
pub(crate) fn ensure_shape(
    condition: bool,
    operation: &'static str,
    expected: impl FnOnce() -> String,
    got: impl FnOnce() -> String,
) -> Result<()> {
    if condition { Ok(()) } else { Err(Error::shape(operation, expected(), got())) }
}

/// Returns an out-of-range error unless `index < limit`.
pub(crate) fn ensure_below(
    operation: &'static str,
    what: &'static str,
    index: usize,
    limit: usize,
) -> Result<()> {
    if index < limit { Ok(()) } else { Err(Error::OutOfRange { operation, what, index, limit }) }
}
