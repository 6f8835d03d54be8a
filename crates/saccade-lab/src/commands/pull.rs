//! `saccade pull`.
use anyhow::Result;
use clap::Args;
/// Pull.
#[derive(Args)]
pub struct Pull {}
impl Pull {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        Ok(())
    }
}
