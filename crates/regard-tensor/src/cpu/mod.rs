//! The CPU's kernels, called by [`crate::kernels`] alone. All `unsafe` code is in device folders like this one, but for
//! the line that maps a file.
//!
//! Kernels take and return [`Array`](crate::array::Array)s and plain numbers, and find their settings' meanings in
//! [`crate::kernels`]; the operations above know nothing of slices, threads or instructions.

// Vector instructions are only used where a kernel is inlined into the function that enables them.
#![allow(clippy::inline_always)]

pub(crate) mod attention;
pub(crate) mod broadcast;
pub(crate) mod convert;
pub(crate) mod decode;
pub(crate) mod dropout;
pub(crate) mod embedding;
pub(crate) mod gemm;
pub(crate) mod layout;
pub(crate) mod linear;
pub(crate) mod loss;
pub(crate) mod lstm;
pub(crate) mod norm;
pub(crate) mod optimiser;
pub(crate) mod pointwise;
pub(crate) mod reduce;
pub(crate) mod rotary;
pub mod simd;
pub(crate) mod softmax;
pub mod threads;
mod tile;
mod transpose;
