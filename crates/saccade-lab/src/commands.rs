//! One file a subcommand.

pub mod bench;
pub mod data;
pub mod evaluate;
pub mod experiment;
pub mod fill;
pub mod generate;
pub mod import;
pub mod predict;
pub mod pull;
pub mod serve;
pub mod tokens;
pub mod trace;
pub mod train;
pub mod verify;
pub mod view;
