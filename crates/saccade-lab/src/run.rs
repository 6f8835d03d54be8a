//! A training run: what it is configured as, what it learns from, and the folder it leaves.

mod config;
mod folder;
mod material;
pub mod sources;
mod watch;

pub use config::{DataConfig, ModelConfig, PRESETS, RunConfig, TokensConfig, preset};
pub use folder::RunFolder;
pub use material::{Material, prepare};
pub use watch::{Note, Watch, interrupted};
