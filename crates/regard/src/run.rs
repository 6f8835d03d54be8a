//! A training run: its configuration, its data and its folder.
//!
//! [`prepare`] turns a configuration into a task, from random weights or an [`InitialModel`]; a [`Session`] trains it, watched by
//! an observer that writes metrics and states, which [`Controls`] pause and speed up; [`EvaluationData`] is what the trained model is tested on. [`sources`] and
//! [`text_files`] read data as it is published.

mod config;
mod config_fields;
mod controls;
mod encode;
mod evaluation_data;
mod event_file;
mod folder;
mod follow;
mod initial_model;
pub mod memory;
mod observer;
mod prepare;
mod session;
mod settings;
pub mod sources;
pub mod text_files;
mod tokenizer;
mod word_vectors;

pub use crate::signals::interrupt_flag;
pub use config::{DataConfig, PRESETS, Preset, RunConfig, TokensConfig, TokensKind, preset};
pub use controls::{Attached, Controls, FACTORS, LatestStep};
pub use encode::encode_as_trained;
pub use evaluation_data::EvaluationData;
pub use folder::RunFolder;
pub use follow::follow;
pub use initial_model::InitialModel;
pub use observer::Reporting;
pub use prepare::{PreparedRun, prepare};
pub(crate) use session::DONE;
pub use session::{Session, train_attached, train_in};
pub use settings::{ensure_length, nearest};
