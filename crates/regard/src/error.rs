//! Ends that are the caller's doing: bad usage, for which the program exits with 2 as for a misspelt option, and signals, for
//! which it exits with 128 and the signal's number: 130 for Ctrl-C. Every other error ends it with 1.

use std::fmt;

/// A problem with the arguments, settings or files that the caller gave.
#[derive(Debug)]
pub struct UsageError(pub String);

/// A [`UsageError`] as functions of the program return it.
pub fn usage_error(problem: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(UsageError(problem.into()))
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Returns a [`UsageError`] from a function that returns `anyhow::Result`.
#[macro_export]
macro_rules! bad_usage {
    ($($text:tt)*) => {
        return Err($crate::error::UsageError(format!($($text)*)).into())
    };
}

/// A signal such as Ctrl-C asked the program to stop; finished work is kept. Holds a line that says how to continue.
#[derive(Debug)]
pub struct Interrupted(pub String);

impl Interrupted {
    /// For a command that continues when it is repeated.
    pub fn repeat() -> Self {
        Self("stopped; the same command continues from here".to_owned())
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Interrupted {}

/// An end that another rank reports: this one stays silent.
#[derive(Debug)]
pub struct Elsewhere {
    /// Whether all ranks stopped on request, so that nothing failed.
    pub stopped: bool,
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rank 0 reports it")
    }
}

impl std::error::Error for Elsewhere {}
