//! One file a subcommand.

pub mod bench;
