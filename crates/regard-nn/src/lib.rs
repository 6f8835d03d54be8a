//! Attention in all its forms, and the transformers built on it.
//!
//! The first function of [`attention`] is scaled dot-product attention as the paper writes it; everything else in this
//! library is built around it or tested against it.

pub mod analysis;
pub mod attention;
pub mod block;
pub mod checkpoint;
mod checksum;
mod context;
pub mod data;
mod error;
pub mod generate;
pub mod layers;
pub mod metrics;
pub mod models;
mod parameter;
pub mod position;
mod probe;
pub mod recurrent;
#[doc(hidden)]
pub mod source;
pub mod tokens;
pub mod train;

pub use checksum::Checksum;
pub use context::Context;
pub use error::{Error, Result};
#[doc(hidden)]
pub use parameter::join as join_path;
pub use parameter::{Draw, Initial, Module, Parameter, Reader};
pub use probe::Probe;
pub use regard_tensor as tensor;
