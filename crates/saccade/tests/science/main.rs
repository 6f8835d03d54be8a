//! The library's tests: properties, golden values, and models that learn.

mod builtin;
mod generation;
mod golden;
mod golden_models;
mod metrics;
