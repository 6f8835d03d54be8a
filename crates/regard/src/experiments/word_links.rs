//! After training, does attention link words that belong together?

use super::tagger_models::{self as taggers, Sentence};
use super::tagger_reading::{self, Offsets, Reading};
use super::training_smooths::{ROWS, STAGES, example};
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict, those_that_apply};
use crate::figure::{Axis, Bar, Bars, ColourScale, HeatMap, Matrix, Picture};
use crate::statistics::paired;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const EXPERIMENT: Experiment = Experiment {
    name: "word-links",
    claims: &["B4"],
    question: "After training, does attention link words that belong together in the sentence?",
    prediction: "Training raises the weight on words that the attending word depends on or that depend on it; after it, the other \
        word with the largest weight is such a one more often than at the best fixed offset; and the weight between \
        words that judge, which are alike in meaning, rises as well.",
    design: "The taggers of `content-words` read test sentences whose trees are known, before and after training, paired by seed. \
        For each hidden word (only their answers enter the loss; the others are measured beside): the weight on its syntactic neighbours, and whether the other word with the largest weight \
        is one. The offset (“the next word”) is the one that is best on these very words. Judging words are those of a \
        list of praise and blame; pairs that are also linked by syntax are left out.",
    changed: Some(
        "At first all words of whole sentences were judged; after the first runs the hidden ones are, as in `training-smooths`. The best \
         offset was later computed for these very words, too. Standard size got fifteen seeds instead of five.",
    ),
    real_data: Some("a CoNLL-U treebank: a file, or a folder with train and test parts"),
    seconds: [1.5, 6.0, 60.0],
    run,
};

/// So many relations are shown, the most frequent ones.
const RELATIONS: usize = 9;
const SOURCE: &str = "Clark et al. (2019), the best head of BERT-base";

#[derive(Serialize, Deserialize)]
struct Run {
    reading: Reading,
    /// Which words of each sentence were hidden; the same for all seeds.
    hidden: Vec<Vec<bool>>,
    /// The weights on the sentence that is shown.
    example: Vec<f32>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = taggers::seeds(lab, 1);
    let steps = [0, taggers::last_step(lab)];
    let inputs: Vec<(u64, u64)> = seeds.iter().flat_map(|&seed| steps.map(|step| (seed, step))).collect();
    let sentences = taggers::test_sentences(lab)?;
    let chosen = example(&sentences);
    let runs = lab.parts("runs", &inputs, |&(seed, step)| {
        let opened = taggers::trained(lab, 1, seed)?.snapshot(step)?;
        let example =
            tagger_reading::maps(&opened, &sentences[chosen])?.into_iter().next().unwrap_or_default();
        let hidden = taggers::hide(opened.tokenizer()?, &sentences)?.into_iter().map(|(_, hidden)| hidden);
        Ok(Run { reading: tagger_reading::read(&opened, &sentences)?, hidden: hidden.collect(), example })
    })?;
    let offsets = tagger_reading::offsets(&sentences, runs.first().map_or(&[], |run| &run.hidden));
    let mut findings = Findings::new(&["stage", "words"]);
    for (&(seed, step), run) in inputs.iter().zip(&runs) {
        let stage = STAGES[usize::from(step > 0)];
        for (rows, view) in ROWS.iter().zip([&run.reading.hidden, &run.reading.visible]) {
            let measures = [
                ("weight on linked words", view.linked),
                ("largest weight on a linked word", view.linked_first),
                ("weight between judging words ÷ equal share", view.related),
            ];
            for (measure, value) in measures {
                if let Some(value) = value {
                    findings.measurements.add(&[&stage, rows], seed, measure, value);
                }
            }
        }
        for (relation, (right, _)) in &run.reading.hidden.relations {
            findings.measurements.add(&[&stage, &ROWS[0]], seed, relation_measure(relation), *right);
        }
    }
    let relations = most_frequent(runs.first().map(|run| &run.reading.hidden.relations));
    draw(&mut findings, &runs, &sentences[chosen], &offsets, &relations);
    findings.verdicts = vec![judge(&findings.measurements, &offsets)];
    let rows = relations.iter().map(|relation| {
        let at = |stage: &str| {
            findings.measurements.mean_if_measured(&[&stage, &ROWS[0]], &relation_measure(relation)).mean
        };
        let (offset, right) = offsets.relations.get(relation).copied().unwrap_or((1, 0.0));
        let numbers = [at(STAGES[0]), at(STAGES[1]), right].map(|value| value.to_string());
        std::iter::once(relation.clone()).chain(numbers).chain([offset.to_string()]).collect()
    });
    let rows = rows.collect();
    findings.table(
        "relations",
        &["relation", "before", "after", "best_offset_accuracy", "best_offset"],
        rows,
    );
    for stage in STAGES {
        for measure in ["weight on linked words", "largest weight on a linked word"] {
            let value = findings.measurements.mean_if_measured(&[&stage, &ROWS[0]], measure).mean;
            findings.fact(format!("{measure}: {stage}"), value);
        }
    }
    findings.fact("best offset", offsets.linked.0 as f64);
    findings.fact("largest weight on a linked word: best offset", offsets.linked.1);
    findings.fact("largest weight on a linked word: chance", offsets.chance);
    Ok(findings)
}

fn relation_measure(relation: &str) -> String {
    format!("largest weight on the head, {relation}")
}

/// A relation of Universal Dependencies with what it is called outside of them.
fn plain_name(relation: &str) -> String {
    let plain = match relation.split(':').next().unwrap_or(relation) {
        "acl" => "clause of a noun",
        "advcl" => "clause of a verb",
        "advmod" => "adverb",
        "amod" => "adjective",
        "appos" => "apposition",
        "aux" => "auxiliary",
        "case" => "preposition",
        "cc" => "and, or, but",
        "compound" => "compound",
        "conj" => "joined by and, or",
        "cop" => "form of be",
        "det" => "article",
        "flat" => "part of a name",
        "mark" => "that, if, to",
        "nmod" => "noun of a noun",
        "nsubj" => "subject",
        "obj" => "object",
        "obl" => "noun of a verb",
        "punct" => "punctuation",
        _ => return relation.to_owned(),
    };
    format!("{plain} ({relation})")
}

/// The names of the most frequent relations.
fn most_frequent(relations: Option<&BTreeMap<String, (f64, u64)>>) -> Vec<String> {
    let mut all: Vec<(&String, u64)> =
        relations.into_iter().flatten().map(|(name, (_, count))| (name, *count)).collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all.into_iter().take(RELATIONS).map(|(name, _)| name.clone()).collect()
}

fn draw(findings: &mut Findings, runs: &[Run], sentence: &Sentence, offsets: &Offsets, relations: &[String]) {
    let mut picture = Picture::new("Does attention follow the sentence's structure?")
        .subtitle("Frames mark pairs of words of which one depends on the other")
        .columns(2);
    // The first two runs are of the first seed: before and after.
    for (run, stage) in runs.iter().zip(STAGES) {
        let words = &sentence.words;
        let Ok(matrix) = Matrix::new(words.len(), words.len(), run.example.clone()) else { continue };
        let map = HeatMap::new(matrix, ColourScale::sequential("weight").range(0.0, 1.0))
            .words(words.clone(), words.clone())
            .names("from", "to");
        let pairs = (0..words.len()).flat_map(|a| (0..words.len()).map(move |b| (a, b)));
        let linked = pairs.filter(|&(a, b)| a != b && sentence.linked(a, b));
        picture = picture.titled_panel(stage, linked.fold(map, |map, (a, b)| map.highlight(a, b)));
    }
    findings.figure(
        "linked_words",
        "One head on a test sentence, first seed, before and after training: each row is what the word attends to while it is hidden.",
        picture,
    );
    let bar = |stage: &str, relation: &String| {
        let interval =
            findings.measurements.mean_if_measured(&[&stage, &ROWS[0]], &relation_measure(relation));
        Bar::new(interval.mean).interval(interval.low.max(0.0), interval.high.min(1.0))
    };
    let names = relations.iter().map(|relation| plain_name(relation)).collect();
    let empty = Bars::lying(names, Axis::linear("share of words").percent().range(0.0, 1.0));
    let bars = STAGES.into_iter().fold(empty, |bars, stage| {
        bars.series(stage, relations.iter().map(|relation| bar(stage, relation)).collect())
    });
    let offset =
        |relation: &String| Bar::new(offsets.relations.get(relation).map_or(f64::NAN, |best| best.1));
    let bars = bars.series("best fixed offset", relations.iter().map(offset).collect());
    findings.figure(
        "relations",
        "How often the other word with the largest weight is the one that a word depends on, by relation (Universal \
         Dependencies), beside the best fixed offset of that very relation; mean over seeds with 95 % intervals. Links in both directions, \
         and one offset for all of them, are counted in the text.",
        Picture::new("A head against a fixed offset").panel(bars),
    );
}

fn judge(table: &Measurements, offsets: &Offsets) -> Verdict {
    let of = |stage: usize, measure: &str| table.values(&[&STAGES[stage], &ROWS[0]], measure);
    let mean =
        |stage: usize, rows: usize, measure: &str| table.mean(&[&STAGES[stage], &ROWS[rows]], measure).mean;
    let (linked, first, related) = (
        "weight on linked words",
        "largest weight on a linked word",
        "weight between judging words ÷ equal share",
    );
    let (offset, right) = offsets.linked;
    let pairs = table.find(&[&STAGES[1], &ROWS[0]], related);
    let alike = match pairs.is_empty() {
        true => "no sentence has two words that judge.".to_owned(),
        false => format!(
            "words that judge give each other {:.2} times an equal share before and {:.2} times after.",
            mean(0, 0, related),
            mean(1, 0, related)
        ),
    };
    let finding = format!(
        "By syntax: the weight on words that a word depends on, or that depend on it, goes from {:.1} % to {:.1} % (words that are not \
         hidden: {:.1} % to {:.1} %). The other word with the largest weight is one in {:.1} % of cases before and {:.1} % after training; at \
         the fixed offset {offset:+} it is in {:.1} %, by chance in {:.1} %. By meaning: {alike}",
        100.0 * mean(0, 0, linked),
        100.0 * mean(1, 0, linked),
        100.0 * mean(0, 1, linked),
        100.0 * mean(1, 1, linked),
        100.0 * mean(0, 0, first),
        100.0 * mean(1, 0, first),
        100.0 * right,
        100.0 * offsets.chance,
    );
    let after = of(1, first);
    let baseline = after.map(|_| right);
    let mut checks = vec![
        Check::new(
            "weight on linked words: after − before training",
            paired(&of(1, linked), &of(0, linked)),
            Bound::Above(0.0),
        ),
        Check::new(
            "largest weight on a linked word: after − best fixed offset",
            paired(&after, &baseline),
            Bound::Above(0.0),
        ),
    ];
    if !pairs.is_empty() {
        let change = paired(&of(1, related), &of(0, related));
        checks.push(Check::new(
            "weight between judging words ÷ equal share: after − before",
            change,
            Bound::Above(0.0),
        ));
    }
    let ours = |relation: &str| {
        let values = table.find(&[&STAGES[1], &ROWS[0]], &relation_measure(relation));
        (!values.is_empty()).then(|| values.mean().mean)
    };
    let offset = |relation: &str| offsets.relations.get(relation).map(|best| best.1);
    let why = |checks: &[Check]| {
        those_that_apply([
            (
                checks[0].fails(),
                "Training moves weight away from the words that a word belongs to: others tell more about its class.",
            ),
            (
                checks[1].fails(),
                "A neighbour at a fixed place is a linked word more often than the word that the head finds.",
            ),
            (
                checks.get(2).is_some_and(Check::fails),
                "To tell the class of a word the words next to it are enough, and no other word that judges is needed: training takes the \
             weight away from them.",
            ),
        ])
    };
    Verdict::new("B4", checks, finding)
        .because(why)
        .published("direct object", 0.868, ours("obj"), SOURCE)
        .published("direct object, best fixed offset", 0.400, offset("obj"), SOURCE)
        .published("determiner", 0.943, ours("det"), SOURCE)
        .published("determiner, best fixed offset", 0.517, offset("det"), SOURCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(linked: [f64; 2], first: f64, related: [f64; 2]) -> Verdict {
        let mut table = Measurements::new(&["stage", "words"]);
        for (stage, name) in STAGES.iter().enumerate() {
            for seed in 0..4 {
                let noise = 0.001 * (seed * (1 + stage as u64)) as f64;
                table.add(&[name, &ROWS[0]], seed, "weight on linked words", linked[stage] + noise);
                table.add(&[name, &ROWS[0]], seed, "largest weight on a linked word", first + noise);
                table.add(
                    &[name, &ROWS[0]],
                    seed,
                    "weight between judging words ÷ equal share",
                    related[stage] + noise,
                );
            }
        }
        judge(&table, &Offsets { linked: (1, 0.4), relations: BTreeMap::new(), chance: 0.2 })
    }

    #[test]
    fn the_verdict_follows_the_weights() {
        assert_eq!(planted([0.2, 0.5], 0.6, [1.0, 1.5]).outcome, Outcome::Holds);
        assert_eq!(planted([0.5, 0.2], 0.6, [1.0, 1.5]).outcome, Outcome::Fails);
        assert_eq!(planted([0.2, 0.5], 0.3, [1.0, 1.5]).outcome, Outcome::Fails, "an offset does better");
        assert_eq!(planted([0.2, 0.5], 0.6, [1.5, 1.0]).outcome, Outcome::Fails);
    }
}
