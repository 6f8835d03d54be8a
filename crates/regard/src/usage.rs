//! Ends that are the caller's doing: what was asked for wrongly, for which the program exits with 2 as for a misspelt option, and
//! Ctrl-C, for which it exits with 130.

use std::fmt;

/// What was wrong with what was asked for.
#[derive(Debug)]
pub struct Usage(pub String);

impl Usage {
    /// Says what is wrong.
    pub fn error(problem: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self(problem.into()))
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Returns such an error from a function that returns `anyhow::Result`.
#[macro_export]
macro_rules! bad_usage {
    ($($text:tt)*) => {
        return Err($crate::usage::Usage(format!($($text)*)).into())
    };
}

/// Ctrl-C was pressed, and what was done so far is kept. Holds the next step for whoever wants to go on.
#[derive(Debug)]
pub struct Stopped(pub String);

impl Stopped {
    /// A command that goes on when it is given again.
    pub fn repeat() -> Self {
        Self("stopped; the same command goes on from here".to_owned())
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Stopped {}
