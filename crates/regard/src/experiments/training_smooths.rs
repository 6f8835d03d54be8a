//! Does training spread attention out, and do function words attend more diffusely than content words?

use super::tagger_models::{self as taggers, CLASSES, Sentence};
use super::tagger_reading::{self, Reading, View};
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict, those_that_apply};
use crate::figure::{Axis, Bar, Bars, ColourScale, Gallery, Matrix, Picture};
use crate::model::Opened;
use crate::statistics::paired;
use anyhow::Result;
use regard_nn::analysis::distance::divergence_of_weights;
use regard_nn::models::Visibility;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "training-smooths",
    claims: &["B2", "B3"],
    question: "Does training turn attention on arbitrary single words into smoother weights, and who attends diffusely?",
    prediction: "Before training the largest weight of a word is at least twice an equal share. Training raises the entropy of the \
        weights and lowers the largest one; after it, function words attend with higher entropy than content words.",
    design: "The taggers of `content-words` read test sentences with hidden words before and after training: entropy ÷ ln n and \
        the largest weight of the hidden words, the only ones whose answer enters the loss; the same sentences before and \
        after, paired by seed. Beside it the same of the words of whole sentences, and how far the weights of different \
        seeds are from each other.",
    changed: Some(
        "At first all words of whole sentences were judged. After the first runs the hidden words are, since the loss is about no others; \
         the rest are still measured and told beside. How many seeds there are was also chosen after them.",
    ),
    real_data: Some("a CoNLL-U treebank: a file, or a folder with train and test parts"),
    seconds: [1.5, 6.0, 60.0],
    run,
};

pub const STAGES: [&str; 2] = ["before training", "after training"];
/// The words whose attention is measured; the first are judged.
pub const ROWS: [&str; 2] = ["hidden words", "visible words"];
const BOTH_WAYS: Visibility = Visibility { causal: false, window: None };
/// So many sentences are compared between seeds.
const COMPARED: usize = 25;

/// A sentence's words and the weights of a tagger's first head when each of them is hidden.
pub type Shown = (Vec<String>, Vec<f32>);

#[derive(Serialize, Deserialize)]
struct Run {
    reading: Reading,
    weights: Vec<Shown>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = taggers::seeds(lab, 1);
    let steps = [0, taggers::last_step(lab)];
    let inputs: Vec<(u64, u64)> = seeds.iter().flat_map(|&seed| steps.map(|step| (seed, step))).collect();
    let sentences = taggers::test_sentences(lab)?;
    let runs = lab.parts("runs", &inputs, |&(seed, step)| {
        let opened = taggers::trained(lab, 1, seed)?.snapshot(step)?;
        let reading = tagger_reading::read(&opened, &sentences)?;
        Ok(Run { reading, weights: shown(&opened, &sentences[..sentences.len().min(COMPARED)])? })
    })?;
    let mut findings = Findings::new(&["stage", "words"]);
    for (index, (&(seed, step), run)) in inputs.iter().zip(&runs).enumerate() {
        let stage = STAGES[usize::from(step > 0)];
        for (rows, view) in ROWS.iter().zip([&run.reading.hidden, &run.reading.visible]) {
            add(&mut findings.measurements, (stage, rows), seed, view);
        }
        let others = inputs
            .iter()
            .zip(&runs)
            .enumerate()
            .filter(|(other, ((_, known), _))| *other != index && *known == step);
        let apart: Vec<f64> =
            others.filter_map(|(_, (_, other))| apart(&run.weights, &other.weights)).collect();
        if !apart.is_empty() {
            let mean = apart.iter().sum::<f64>() / apart.len() as f64;
            findings.measurements.add(&[&stage, &ROWS[0]], seed, "divergence from other seeds", mean);
        }
    }
    let chosen = example(&sentences[..sentences.len().min(COMPARED)]);
    draw(&mut findings, &runs, chosen);
    findings.verdicts = vec![judge_smoothness(&findings.measurements), judge_classes(&findings.measurements)];
    for stage in STAGES {
        for measure in
            ["entropy", "largest weight", "largest weight ÷ equal share", "divergence from other seeds"]
        {
            let value = findings.measurements.mean(&[&stage, &ROWS[0]], measure).mean;
            findings.fact(format!("{measure}: {stage}"), value);
        }
        for class in CLASSES {
            let value = findings.measurements.mean(&[&stage, &ROWS[0]], &format!("entropy of {class}")).mean;
            findings.fact(format!("entropy of {class}: {stage}"), value);
        }
    }
    Ok(findings)
}

fn add(table: &mut Measurements, (stage, rows): (&str, &str), seed: u64, view: &View) {
    let measures = [
        ("entropy", view.entropy),
        ("largest weight", view.largest),
        ("largest weight ÷ equal share", view.largest_share),
        ("largest weight on a neighbour", view.beside()),
    ];
    for (measure, value) in measures.into_iter().filter_map(|(measure, value)| Some((measure, value?))) {
        table.add(&[&stage, &rows], seed, measure, value);
    }
    for (class, value) in CLASSES.iter().zip(view.by_class) {
        if let Some(value) = value {
            table.add(&[&stage, &rows], seed, format!("entropy of {class}"), value);
        }
    }
}

/// The weights of the first head on sentences.
fn shown(opened: &Opened, sentences: &[Sentence]) -> Result<Vec<Shown>> {
    let one = |sentence: &Sentence| {
        let first = tagger_reading::maps(opened, sentence)?.into_iter().next();
        Ok((sentence.words.clone(), first.unwrap_or_default()))
    };
    sentences.iter().map(one).collect()
}

/// The sentence to show: the first of a length that is easy to read.
pub fn example(sentences: &[Sentence]) -> usize {
    sentences.iter().position(|sentence| (8..=12).contains(&sentence.len())).unwrap_or(0)
}

/// The mean Jensen–Shannon divergence, in bits, of two taggers' weights on the same sentences.
fn apart(a: &[Shown], b: &[Shown]) -> Option<f64> {
    let pairs = a.iter().zip(b).filter_map(|((words, a), (_, b))| {
        divergence_of_weights(a, b, words.len(), BOTH_WAYS).ok().flatten()
    });
    let all: Vec<f64> = pairs.collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

fn draw(findings: &mut Findings, runs: &[Run], chosen: usize) {
    let at = |run: &Run| run.weights.get(chosen).cloned();
    // Runs come in pairs, before and after; two seeds are shown.
    let maps: Vec<Shown> = runs.iter().take(4).filter_map(at).collect();
    if let Some((words, _)) = maps.first() {
        let empty = Gallery::new(2, ColourScale::sequential("weight"))
            .column_titles(STAGES.map(str::to_owned).to_vec())
            .row_titles((1..=maps.len() / 2).map(|seed| format!("seed {seed}")).collect())
            .words(words.clone(), words.clone())
            .side(300.0);
        let gallery = maps.iter().fold(empty, |gallery, (words, weights)| {
            match Matrix::new(words.len(), words.len(), weights.clone()) {
                Ok(matrix) => gallery.map("", matrix),
                Err(_) => gallery,
            }
        });
        findings.figure(
            "before_and_after",
            "One head on a test sentence, before and after it was trained to tell content words from function words: each row is \
             what the word attends to while it is hidden. Two seeds.",
            Picture::new("What training does to attention").panel(gallery),
        );
    }
    let bars = |rows: &'static str| {
        let empty = Bars::upright(
            CLASSES.map(str::to_owned).to_vec(),
            Axis::linear("entropy ÷ ln n").range(0.0, 1.0),
        );
        STAGES.into_iter().fold(empty.half(), |bars, stage| {
            let bar = |class: &str| {
                let interval = findings.measurements.mean(&[&stage, &rows], &format!("entropy of {class}"));
                Bar::new(interval.mean).interval(interval.low.max(0.0), interval.high.min(1.0))
            };
            bars.series(stage, CLASSES.into_iter().map(bar).collect())
        })
    };
    findings.figure(
        "entropy_by_class",
        "Entropy of the weights by the class of the word that attends (1: equal weights); mean over seeds with 95 % intervals. \
         Only hidden words have an answer that enters the loss.",
        Picture::new("Who attends diffusely")
            .columns(2)
            .titled_panel("hidden words", bars(ROWS[0]))
            .titled_panel("the words of whole sentences", bars(ROWS[1])),
    );
}

fn judge_smoothness(table: &Measurements) -> Verdict {
    let of = |stage: usize, measure: &str| table.values(&[&STAGES[stage], &ROWS[0]], measure);
    let mean = |stage: usize, measure: &str| table.mean(&[&STAGES[stage], &ROWS[0]], measure);
    let change = |measure: &str| paired(&of(1, measure), &of(0, measure));
    let visible = |stage: usize| table.mean(&[&STAGES[stage], &ROWS[1]], "entropy").mean;
    let share = "largest weight ÷ equal share";
    let finding = format!(
        "Before training the largest weight is {:.2} times an equal share, after it {:.2} times; the entropy goes from {:.3} to {:.3} \
         of that of equal weights (of words that are not hidden: from {:.3} to {:.3}). Two seeds' weights diverge by {:.3} bits before and \
         by {:.3} after.",
        mean(0, share).mean,
        mean(1, share).mean,
        mean(0, "entropy").mean,
        mean(1, "entropy").mean,
        visible(0),
        visible(1),
        mean(0, "divergence from other seeds").mean,
        mean(1, "divergence from other seeds").mean,
    );
    let checks = vec![
        Check::new("entropy ÷ ln n: after − before training", change("entropy"), Bound::Above(0.0)),
        Check::new("largest weight: after − before training", change("largest weight"), Bound::Below(0.0)),
        Check::new("before training: largest weight ÷ an equal share", mean(0, share), Bound::Above(2.0)),
    ];
    Verdict::new("B2", checks, finding).because(|checks| {
        let beside = "largest weight on a neighbour";
        let found = format!(
            "What tells the class of a word stands next to it, and training finds that: the largest weight is on the word before or after \
             in {:.0} % of cases before and in {:.0} % after. Nothing in the loss asks for weight on anything else.",
            100.0 * mean(0, beside).mean,
            100.0 * mean(1, beside).mean,
        );
        let sharper = checks[0].fails() || checks[1].fails();
        those_that_apply([
            (sharper && change(beside).low > 0.0, found.as_str()),
            (checks[2].fails(), "Before training no single word stands out."),
        ])
    })
}

fn judge_classes(table: &Measurements) -> Verdict {
    let entropy = |stage: usize, rows: usize, class: usize| {
        table.values(&[&STAGES[stage], &ROWS[rows]], &format!("entropy of {}", CLASSES[class]))
    };
    let difference = |stage, rows| paired(&entropy(stage, rows, 0), &entropy(stage, rows, 1));
    let finding = format!(
        "The entropy of the weights of function words minus that of content words, both hidden, is {:+.3} after training and {:+.3} \
         before it. Of words that are not hidden: {:+.3} after training.",
        difference(1, 0).mean,
        difference(0, 0).mean,
        difference(1, 1).mean,
    );
    let check = Check::new(
        "after training: entropy ÷ ln n of function words − of content words",
        difference(1, 0),
        Bound::Above(0.0),
    );
    Verdict::new("B3", vec![check], finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(entropy: [f64; 2], largest: [f64; 2], classes: [f64; 2]) -> Measurements {
        let mut table = Measurements::new(&["stage", "words"]);
        for (stage, name) in STAGES.iter().enumerate() {
            for rows in ROWS {
                for seed in 0..4 {
                    let noise = 0.001 * (seed * (1 + stage as u64)) as f64;
                    table.add(&[name, &rows], seed, "entropy", entropy[stage] + noise);
                    table.add(&[name, &rows], seed, "largest weight", largest[stage] + noise);
                    table.add(
                        &[name, &rows],
                        seed,
                        "largest weight ÷ equal share",
                        10.0 * largest[stage] + noise,
                    );
                    for (class, value) in CLASSES.iter().zip(classes) {
                        let noise = noise * value;
                        table.add(&[name, &rows], seed, format!("entropy of {class}"), value + noise);
                    }
                }
            }
        }
        table
    }

    #[test]
    fn verdicts_follow_the_weights() {
        let smoother = planted([0.6, 0.9], [0.5, 0.2], [0.9, 0.8]);
        assert_eq!(judge_smoothness(&smoother).outcome, Outcome::Holds);
        assert_eq!(judge_classes(&smoother).outcome, Outcome::Holds);
        let sharper = planted([0.9, 0.6], [0.2, 0.5], [0.7, 0.8]);
        assert_eq!(judge_smoothness(&sharper).outcome, Outcome::Fails);
        assert_eq!(judge_classes(&sharper).outcome, Outcome::Fails);
        let already_smooth = planted([0.8, 0.9], [0.15, 0.12], [0.9, 0.8]);
        let already_smooth = judge_smoothness(&already_smooth);
        assert_eq!(already_smooth.outcome, Outcome::Fails);
        assert_eq!(already_smooth.why.as_deref(), Some("Before training no single word stands out."));
    }
}
