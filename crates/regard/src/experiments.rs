//! The experiments, one file each, in the order of the report.

mod activation;
mod bag_models;
mod content_words;
mod cost;
mod cross_attention;
mod digit_reader;
mod exactness;
mod extension_costs;
mod extensions;
mod guessed_words;
mod head_count;
mod head_patterns;
mod head_removal;
mod ingredients;
mod language_models;
mod lookup;
mod model_size;
mod negation;
mod norm_placement;
mod pooled_words;
mod positions;
mod random_heads;
mod scale_sweep;
mod sentiment_models;
mod stopwatch;
mod tagger_heads;
mod tagger_models;
mod tagger_reading;
mod three_architectures;
mod three_models;
mod trained_heads;
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

/// The largest of some sizes: infinite if one of them is not a number, which `max` would pass over.
fn largest(sizes: impl IntoIterator<Item = f64>) -> f64 {
    sizes.into_iter().fold(0.0, |most, size| if size.is_nan() { f64::INFINITY } else { most.max(size) })
}

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

    #[test]
    fn the_documentation_has_every_experiment_with_its_data_and_its_times() {
        let text = include_str!("../../../docs/experiments.md");
        for experiment in EXPERIMENTS {
            let [quick, standard, full] = experiment.seconds.map(crate::terminal::duration);
            let data = experiment.real_data.unwrap_or("–");
            let (name, claims) = (experiment.name, experiment.claims.join(", "));
            let row = format!("| `{name}` | {claims} | {data} | {quick} | {standard} | {full} |");
            assert!(text.contains(&row), "docs/experiments.md lacks\n{row}");
        }
    }
}
