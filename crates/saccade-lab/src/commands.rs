//! One file a subcommand.

pub mod bench;
pub mod data;
pub mod evaluate;
pub mod fill;
pub mod predict;
pub mod tokens;
pub mod train;
