//! The boundary between operations and devices.
//!
//! Each file is a group of kernels: what their settings mean, and one function an entry point, which picks the device.
//! Operations call nothing below this folder; a device's folder knows nothing above it.
//!
//! An entry point without a kernel for its arrays' device runs the CPU's on copies and moves the results back
//! ([`on_cpu`]). So a new device works from its first kernel on, and [`crate::traffic`] counts what it lacks. To add
//! one: a variant of [`Device`](crate::Device) and of [`Memory`](crate::storage::Memory), a folder, and an arm in each
//! entry point.

pub(crate) mod attention;
pub(crate) mod broadcast;
pub(crate) mod decode;
pub(crate) mod dropout;
pub(crate) mod embedding;
mod fallback;
pub(crate) mod layout;
pub(crate) mod linear;
pub(crate) mod loss;
pub(crate) mod lstm;
pub(crate) mod matmul;
pub(crate) mod memory;
pub(crate) mod norm;
mod operands;
pub(crate) mod optimiser;
pub(crate) mod pointwise;
pub(crate) mod reduce;
pub(crate) mod rotary;
pub(crate) mod softmax;

use fallback::{Moves, moves, on_cpu, on_cpu_in_place};
use operands::{Operand, operand};
