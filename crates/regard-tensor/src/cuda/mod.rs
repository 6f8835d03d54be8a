//! The CUDA device: memory, programs, matrix products and kernels.
//!
//! Building needs no CUDA. The driver, NVRTC and cuBLASLt are loaded when a device is opened; a missing one is an
//! [`Error`] that says how to install it. Kernels are the `.cu` files of this folder. NVRTC compiles them for the device
//! at hand when they are first needed, and the machine code is cached on disk.
//!
//! A kernel's file in Rust checks sizes and types, allocates the results and launches. All work of a device goes to one
//! stream, so that calls take effect in the order in which they are made, and memory can be reused as soon as the host
//! drops it. Sums are taken in an order fixed by the shapes, without atomics: the same inputs give the same bits.

pub mod arithmetic;
mod arrays;
pub(crate) mod attention;
mod axes;
pub(crate) mod collective;
pub mod columns;
pub mod decode;
mod device;
pub(crate) mod distances;
pub mod dropout;
pub mod embedding;
mod error;
mod few_rows;
mod launch;
pub mod layout;
mod library;
pub(crate) mod linear;
pub mod loss;
pub(crate) mod lstm;
pub mod matmul;
mod memory;
pub mod norm;
pub mod optimiser;
mod plans;
pub mod pointwise;
mod private;
mod program;
pub(crate) mod recording;
pub mod reduce;
pub mod rotary;
pub(crate) mod scored;
pub mod softmax;
mod sort;
mod staging;
mod timer;
pub(crate) mod update;

pub(crate) use arrays::Stored;
pub use device::{Description, Device, count, devices, ensure_usable};
pub use error::{Error, Result};
pub use memory::{Buffer, Element, Usage, Value, View, ViewMut};
pub use timer::Timer;
