//! A training run: what it is configured as, what it learns from, and the folder it leaves.

mod config;
mod folder;
mod material;
mod session;
pub mod sources;
mod watch;

pub use config::{DataConfig, ModelConfig, PRESETS, RunConfig, TokensConfig, TokensKind, nearest, preset};
pub use folder::RunFolder;
pub use material::{Material, build, prepare};
pub use session::{Session, train_in};
pub use watch::{Voice, interrupted};
