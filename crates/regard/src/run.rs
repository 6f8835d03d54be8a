//! A training run: what it is configured as, what it learns from, and the folder it leaves.

mod config;
mod folder;
mod given;
mod material;
mod measured;
mod notes;
pub mod plain;
mod reading;
mod session;
mod settings;
pub mod sources;
mod tokenizer;
mod vectors;
mod watch;

pub use config::{DataConfig, PRESETS, RunConfig, TokensConfig, TokensKind, preset};
pub use folder::RunFolder;
pub use given::Given;
pub use material::{Material, prepare};
pub use measured::Measured;
pub use reading::encode_as_trained;
pub use session::{Session, train_in};
pub use settings::{ensure_length, nearest};
pub use watch::{Voice, interrupted};
