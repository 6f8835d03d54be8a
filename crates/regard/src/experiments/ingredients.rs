//! What would make the first classifier better: pre-trained vectors, trained projections, positions, residuals, more data?

use super::bag_models::{self as bags, Form};
use super::sentiment_models as sentiment;
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict};
use crate::figure::{Axis, IntervalRow, Intervals, Picture};
use crate::statistics::paired;
use anyhow::Result;
use regard_nn::data::vectors::WordVectors;

pub const EXPERIMENT: Experiment = Experiment {
    name: "ingredients",
    claims: &["A6"],
    question: "What makes the simple classifier better: pre-trained vectors, trained attention, positions, residuals, data?",
    prediction: "Each of pre-trained word vectors, trained projections, positions, a residual connection and four times the data, \
        added alone to a bag of word vectors under untrained attention with four heads, raises the accuracy on test texts.",
    design: "The classifier of `word-vectors` with attention over the vectors whose projections stay as they were drawn; each \
        ingredient switched on by itself, and all but the vectors together. Same data, steps and rate; paired by seed. \
        Pre-trained vectors (`--vectors FILE`, GloVe or fastText) are compared with vectors of the same width drawn at \
        random.",
    changed: Some(
        "After first runs, bags with attention got fewer steps, smaller batches and fewer words of a text than plain ones, which learn \
         more slowly and cost less; and of long texts the last words are read instead of the first. Standard size had five seeds, which \
         left it open; it has fifteen.",
    ),
    real_data: Some("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv"),
    seconds: [15.0, 70.0, 900.0],
    run,
};

const HEADS: usize = 4;
/// More data is so many times as much.
const MORE: usize = 4;
const BASE: &str = "none of these";
const VECTORS: &str = "pre-trained vectors";
const SAME_WIDTH: &str = "vectors of that width, drawn at random";
const INGREDIENTS: [&str; 4] =
    ["trained projections", "positions", "residual connection", "four times the data"];
const ALL: &str = "all four";

/// The forms that are compared, by name.
fn forms() -> Vec<(&'static str, Form)> {
    let base = Form { heads: HEADS, ..Form::PLAIN };
    let all = Form { trained: true, positions: true, residual: true, data: MORE, ..base };
    vec![
        (BASE, base),
        (INGREDIENTS[0], Form { trained: true, ..base }),
        (INGREDIENTS[1], Form { positions: true, ..base }),
        (INGREDIENTS[2], Form { residual: true, ..base }),
        (INGREDIENTS[3], Form { data: MORE, ..base }),
        (ALL, all),
    ]
}

/// The forms for vectors of a width: as many heads as divide it.
fn vector_forms(width: usize) -> [(&'static str, Form); 2] {
    let heads = if width.is_multiple_of(HEADS) { HEADS } else { 1 };
    let base = Form { heads, width: Some(width), ..Form::PLAIN };
    [(SAME_WIDTH, base), (VECTORS, Form { vectors: true, ..base })]
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = lab.seeds_of_small_models();
    let texts = sentiment::test_texts(lab)?;
    let mut forms = forms();
    if let Some(file) = lab.conditions.vectors {
        let none: [&str; 0] = [];
        forms.extend(vector_forms(WordVectors::open(file, &none)?.dimension()));
    }
    let inputs: Vec<(&str, Form, u64)> =
        forms.iter().flat_map(|&(name, form)| seeds.iter().map(move |&seed| (name, form, seed))).collect();
    let accuracies = lab.parts("accuracies", &inputs, |&(_, form, seed)| {
        let opened = bags::trained(lab, form, seed)?.open()?;
        bags::accuracy(&opened, &bags::config(lab, form, seed)?, &texts)
    })?;
    let mut findings = Findings::new(&["with"]);
    for ((name, _, seed), accuracy) in inputs.iter().zip(accuracies) {
        findings.measurements.add(&[name], *seed, "accuracy", accuracy);
    }
    draw(&mut findings);
    findings.verdicts = vec![judge(&findings.measurements)];
    for (name, _) in forms {
        let value = findings.measurements.mean(&[&name], "accuracy").mean;
        findings.fact(format!("accuracy: {name}"), value);
    }
    Ok(findings)
}

/// What an ingredient adds to the accuracy; nothing if it was not measured.
fn gain(table: &Measurements, name: &str) -> Option<crate::statistics::Interval> {
    let without = if name == VECTORS { SAME_WIDTH } else { BASE };
    let with = table.find(&[&name], "accuracy");
    (!with.is_empty()).then(|| paired(&with, &table.values(&[&without], "accuracy")))
}

fn draw(findings: &mut Findings) {
    let empty = Intervals::new(Axis::linear("accuracy with it − without it")).reference(0.0);
    let names = INGREDIENTS.into_iter().chain([VECTORS, ALL]);
    let panel = names.fold(empty, |panel, name| {
        let (mean, low, high) = gain(&findings.measurements, name)
            .map_or((f64::NAN, f64::NAN, f64::NAN), |gain| (gain.mean, gain.low, gain.high));
        panel.line(IntervalRow::new(name, mean, low, high))
    });
    findings.figure(
        "gains",
        "What each ingredient adds to the accuracy on test texts, alone; mean over seeds with 95 % intervals.",
        Picture::new("What makes a simple classifier better").panel(panel),
    );
}

fn judge(table: &Measurements) -> Verdict {
    let accuracy = |name: &str| 100.0 * table.mean(&[&name], "accuracy").mean;
    let vectors = match gain(table, VECTORS) {
        Some(gain) => format!("Pre-trained vectors add {:+.1} points.", 100.0 * gain.mean),
        None => "Pre-trained vectors were not measured: bring a file of GloVe or fastText (as text) with `--vectors FILE`."
            .to_owned(),
    };
    let parts: Vec<String> = INGREDIENTS
        .iter()
        .filter_map(|name| Some(format!("{name} {:+.1}", 100.0 * gain(table, name)?.mean)))
        .collect();
    let finding = format!(
        "Untrained attention alone: {:.1} % of test texts right. Points added: {}; all four together {:+.1}. {vectors}",
        accuracy(BASE),
        parts.join(", "),
        accuracy(ALL) - accuracy(BASE),
    );
    let check = |name: &str| {
        let what = format!("accuracy: {name} − without");
        match gain(table, name) {
            Some(gain) => Check::new(what, gain, Bound::Above(0.0)),
            None => Check::not_measured(what, Bound::Above(0.0)),
        }
    };
    Verdict::new("A6", INGREDIENTS.into_iter().chain([VECTORS]).map(check).collect(), finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(gain: f64, vectors: Option<f64>) -> Measurements {
        let mut table = Measurements::new(&["with"]);
        for seed in 0..4 {
            let noise = 0.002 * seed as f64;
            table.add(&[&BASE], seed, "accuracy", 0.7 + noise);
            table.add(&[&SAME_WIDTH], seed, "accuracy", 0.7 + noise);
            for name in INGREDIENTS {
                table.add(&[&name], seed, "accuracy", 0.7 + gain + 1.5 * noise);
            }
            if let Some(vectors) = vectors {
                table.add(&[&VECTORS], seed, "accuracy", 0.7 + vectors + 1.5 * noise);
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_gains() {
        assert_eq!(judge(&planted(0.05, Some(0.1))).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(-0.05, Some(0.1))).outcome, Outcome::Fails);
        assert_eq!(judge(&planted(0.05, Some(-0.1))).outcome, Outcome::Fails);
        let without = judge(&planted(0.05, None));
        assert_eq!(without.outcome, Outcome::Undecided, "one of five is missing");
        assert!(without.finding.contains("--vectors"));
    }
}
