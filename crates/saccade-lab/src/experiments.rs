//! The experiments, one file each, in the order of the report.

mod activation;
mod cost;
mod cross_attention;
mod exactness;
mod extension_costs;
mod extensions;
mod head_removal;
mod language_models;
mod lookup;
mod model_size;
mod negation;
mod norm_placement;
mod pooled_words;
mod positions;
mod scale_sweep;
mod sentiment_models;
mod stopwatch;
mod three_architectures;
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
    positions::EXPERIMENT,
    model_size::EXPERIMENT,
    norm_placement::EXPERIMENT,
    activation::EXPERIMENT,
    head_removal::EXPERIMENT,
    cost::EXPERIMENT,
    three_architectures::EXPERIMENT,
    extensions::EXPERIMENT,
];

/// An experiment by its name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}
