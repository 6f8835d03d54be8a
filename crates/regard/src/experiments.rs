//! The experiments, one file each, in the order of the report; and the `models` and `instruments` that several of them share.
//!
//! A file reads from top to bottom: `EXPERIMENT` states question, prediction and design; enums name the conditions; `facts!` the
//! numbers for the report; `run` sweeps over conditions and seeds, draws and judges; `judge` compares intervals with the bounds of
//! the prediction, and its tests plant results on both sides of each bound.

mod activation;
mod bilstm_heads;
mod content_words;
mod cost;
mod exactness;
pub(crate) mod extensions;
mod head_count;
mod head_removal;
mod ingredients;
pub(crate) mod instruments;
pub(crate) mod lookup;
pub(crate) mod model_size;
pub(crate) mod models;
pub(crate) mod negation;
pub(crate) mod norm_placement;
mod permutation;
pub(crate) mod pooled_words;
pub(crate) mod positions;
mod random_heads;
pub(crate) mod scale_sweep;
mod tagger_heads;
mod three_architectures;
mod three_models;
pub(crate) mod trained_heads;
mod training_curve;
pub(crate) mod training_smooths;
mod untrained_attention;
pub(crate) mod vocabulary;
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
    bilstm_heads::EXPERIMENT,
    lookup::EXPERIMENT,
    permutation::EXPERIMENT,
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

/// Which checks of a verdict do not hold, by their places.
#[cfg(test)]
fn wrong(verdict: &crate::experiment::Verdict) -> Vec<usize> {
    let holds = |place: &usize| verdict.checks[*place].outcome == crate::experiment::Outcome::Holds;
    (0..verdict.checks.len()).filter(|place| !holds(place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Size;

    #[test]
    fn the_documentation_has_every_experiment_with_its_data_and_its_times() {
        let text = include_str!("../../../docs/experiments.md");
        for experiment in EXPERIMENTS {
            let [quick, standard, full] = [Size::Quick, Size::Standard, Size::Full]
                .map(|size| crate::terminal::duration(experiment.expected(size)));
            let data = experiment.data.wanted().unwrap_or("–");
            let (name, claims) = (experiment.name, experiment.claims.join(", "));
            let row = format!("| `{name}` | {claims} | {data} | {quick} | {standard} | {full} |");
            assert!(text.contains(&row), "docs/experiments.md lacks\n{row}");
        }
    }
}
