//! The library's tests: properties, golden values, and models that learn.

mod anything;
mod attention;
mod builtin;
mod cache;
mod causality;
mod checkpoint_files;
mod checkpoint_hostile;
mod checkpoint_round_trip;
mod generation;
mod golden;
mod golden_layers;
mod golden_models;
mod learn_gpt;
mod learning;
mod linear;
mod metrics;
mod numbers;
mod parameter_counts;
mod patterns;
mod positions;
mod probe_changes;
mod probe_gradients;
mod probe_sites;
mod refusals;
mod sampling;
mod zoo;
