//! Texts to learn from.

pub mod builtin;
