//! One file a subcommand.

pub mod bench;
pub mod tokens;
pub mod train;
