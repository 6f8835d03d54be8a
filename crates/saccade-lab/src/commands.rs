//! One file a subcommand.

pub mod ablate;
pub mod bench;
pub mod data;
pub mod embeddings;
pub mod evaluate;
pub mod experiment;
pub mod fill;
pub mod generate;
pub mod heads;
pub mod import;
pub mod influence;
pub mod predict;
pub mod pull;
pub mod report;
pub mod serve;
pub mod tokens;
pub mod trace;
pub mod train;
pub mod verify;
pub mod view;
