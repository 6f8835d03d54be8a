//! The library's tests: properties, golden values, and models that learn.

mod attention;
mod builtin;
mod causality;
mod generation;
mod golden;
mod golden_layers;
mod golden_models;
mod linear;
mod metrics;
mod numbers;
mod patterns;
mod positions;
