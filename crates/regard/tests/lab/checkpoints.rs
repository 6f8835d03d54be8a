//! Checkpoints on the command line: generate, trace, verify, import, pull, and files that mean harm.

mod chat;
mod devices;
mod generate;
mod gguf;
mod hostile;
mod import;
pub mod made;
mod models;
mod pictures;
mod predict;
mod pull;
pub mod server;
mod trace;
