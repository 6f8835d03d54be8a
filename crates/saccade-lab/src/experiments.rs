//! The experiments, one file each, in the order of the report.

mod bag_models;
mod content_words;
mod exactness;
mod head_count;
mod ingredients;
mod negation;
mod pooled_words;
mod random_heads;
mod scale_sweep;
mod sentiment_models;
mod tagger_heads;
mod tagger_models;
mod tagger_reading;
mod three_models;
mod training_curve;
mod training_smooths;
mod untrained_attention;
mod vocabulary;
mod word_links;
mod word_vectors;

use crate::experiment::Experiment;

/// All of them.
pub const EXPERIMENTS: &[Experiment] = &[
    vocabulary::EXPERIMENT,
    word_vectors::EXPERIMENT,
    untrained_attention::EXPERIMENT,
    random_heads::EXPERIMENT,
    ingredients::EXPERIMENT,
    head_count::EXPERIMENT,
    content_words::EXPERIMENT,
    training_smooths::EXPERIMENT,
    word_links::EXPERIMENT,
    tagger_heads::EXPERIMENT,
    training_curve::EXPERIMENT,
    exactness::EXPERIMENT,
    scale_sweep::EXPERIMENT,
    three_models::EXPERIMENT,
    pooled_words::EXPERIMENT,
    negation::EXPERIMENT,
];

/// An experiment by its name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}
