//! One file a subcommand.

pub mod bench;
pub mod generate;
pub mod import;
pub mod pull;
pub mod trace;
pub mod verify;

/// A wrong use of the command line that its grammar could not see: the program exits with 2.
#[derive(Debug)]
pub struct Usage(String);

impl Usage {
    /// Says what is wrong.
    pub fn error(problem: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self(problem.into()))
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
