//! The experiments, one file each, in the order of the report.

mod exactness;
mod language_models;
mod lookup;
mod negation;
mod pooled_words;
mod scale_sweep;
mod sentiment_models;
mod three_models;
mod trained_heads;

use crate::experiment::Experiment;

/// All of them.
pub const EXPERIMENTS: &[Experiment] = &[
    exactness::EXPERIMENT,
    scale_sweep::EXPERIMENT,
    three_models::EXPERIMENT,
    pooled_words::EXPERIMENT,
    negation::EXPERIMENT,
    lookup::EXPERIMENT,
    trained_heads::EXPERIMENT,
];

/// An experiment by its name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}
