//! After training, does attention link words that belong together?

use super::instruments::tagger_attention::{self, Offsets};
use super::models::tagger::{self as taggers, Sentence, Stage, Words};
use crate::experiment::{
    Bound, Check, Experiment, Findings, Lab, SMALL_MODELS, Sizes, Sweep, Table, Verdict, charts, facts,
    those_that_apply,
};
use crate::figure::{Axis, Bar, Bars, ColourScale, HeatMap, Matrix, Picture};
use crate::statistics::paired;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const EXPERIMENT: Experiment = Experiment {
    name: "word-links",
    claims: &["B4"],
    question: "After training, does attention link words that belong together in the sentence?",
    prediction: "Training raises the weight on words that the attending word depends on or that depend on it. After training, the other \
        word with the largest weight is such a word more often than the word at the best fixed offset is. The weight between sentiment \
        words, which are similar in meaning, rises as well.",
    design: "The taggers of `content-words` read test sentences with known dependency trees, before and after training, paired by seed. \
        For each hidden word (only their answers enter the loss; the others are reported, too): the weight on its syntactic neighbours, \
        and whether the other word with the largest weight is one. The offset (“the next word”) is the best one for these very words. \
        Sentiment words come from a list; pairs that are also linked by syntax are left out.",
    changed: Some(
        "At first all words of whole sentences were judged; after the first runs the hidden words are, as in `training-smooths`. Later the \
         best offset was computed for these words, too. Standard size got fifteen seeds instead of five.",
    ),
    real_data: Some("a CoNLL-U treebank: a file, or a folder with train and test parts"),
    conditions: &["stage", "words"],
    seeds: SMALL_MODELS,
    seconds: Sizes::quick(1.5).standard(6.0).full(60.0),
    run,
};

/// So many relations are shown, the most frequent ones.
const RELATIONS: usize = 9;
const SOURCE: &str = "Clark et al. (2019), the best head of BERT-base";

const LINKED: &str = "weight on linked words";
const LARGEST_LINKED: &str = "largest weight on a linked word";
const RELATED: &str = "weight between judging words ÷ equal share";

type Measured = Table<(Stage, Words)>;

facts! {
    MEAN(measure: &'static str, stage: Stage) = "{measure}: {stage}";
    BEST_OFFSET = "best offset";
    BY_OFFSET = "largest weight on a linked word: best offset";
    BY_CHANCE = "largest weight on a linked word: chance";
}

#[derive(Serialize, Deserialize)]
struct Read {
    /// Which words of each sentence were hidden; the same for all seeds.
    hidden: Vec<Vec<bool>>,
    /// How many hidden words have each relation.
    relations: BTreeMap<String, u64>,
    /// The weights on the sentence that is shown.
    example: Vec<f32>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let sentences = taggers::test_sentences(lab)?;
    let chosen = &sentences[taggers::example(&sentences)];
    let sweep: Sweep<_, _, Read> =
        lab.sweep("runs", taggers::before_and_after(lab, 1), |stage, seed, rows| {
            let opened = taggers::trained(lab, 1, seed)?.snapshot(stage.step(lab))?;
            let reading = tagger_attention::read(&opened, &sentences)?;
            for words in Words::ALL {
                let view = reading.of(words);
                rows.add_some((stage, words), LINKED, view.linked);
                rows.add_some((stage, words), LARGEST_LINKED, view.linked_first);
                rows.add_some((stage, words), RELATED, view.related);
            }
            let relations = reading.hidden.relations;
            for (relation, (right, _)) in &relations {
                rows.add((stage, Words::Hidden), relation_measure(relation), *right);
            }
            let hidden = taggers::hide(opened.tokenizer()?, &sentences)?.into_iter();
            Ok(Read {
                hidden: hidden.map(|(_, hidden)| hidden).collect(),
                relations: relations.into_iter().map(|(relation, (_, count))| (relation, count)).collect(),
                example: tagger_attention::maps(&opened, chosen)?.into_iter().next().unwrap_or_default(),
            })
        })?;
    let first = sweep.results().next();
    let offsets = tagger_attention::offsets(&sentences, first.map_or(&[], |run| &run.hidden));
    let relations = most_frequent(first.map(|run| &run.relations));
    let mut findings = Findings::default();
    draw(&mut findings, &sweep, chosen, &offsets, &relations);
    let table = sweep.table;
    findings.verdicts = vec![judge(&table, &offsets)];
    let mean = |stage, measure: &str| table.mean_if_measured((stage, Words::Hidden), measure).mean;
    let rows = relations.iter().map(|relation| {
        let at = |stage| mean(stage, &relation_measure(relation));
        let (offset, right) = offsets.relations.get(relation).copied().unwrap_or((1, 0.0));
        let numbers = [at(Stage::Before), at(Stage::After), right].map(|value| value.to_string());
        std::iter::once(relation.clone()).chain(numbers).chain([offset.to_string()]).collect()
    });
    let header = ["relation", "before", "after", "best_offset_accuracy", "best_offset"];
    findings.table("relations", &header, rows.collect());
    for stage in Stage::ALL {
        for measure in [LINKED, LARGEST_LINKED] {
            findings.fact(MEAN.of((measure, stage)), mean(stage, measure));
        }
    }
    findings.fact(BEST_OFFSET, offsets.linked.0 as f64);
    findings.fact(BY_OFFSET, offsets.linked.1);
    findings.fact(BY_CHANCE, offsets.chance);
    findings.finish(lab, table)
}

fn relation_measure(relation: &str) -> String {
    format!("largest weight on the head, {relation}")
}

/// A relation of Universal Dependencies with its name in plain grammar.
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
fn most_frequent(relations: Option<&BTreeMap<String, u64>>) -> Vec<String> {
    let mut all: Vec<(&String, &u64)> = relations.into_iter().flatten().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    all.into_iter().take(RELATIONS).map(|(name, _)| name.clone()).collect()
}

fn draw(
    findings: &mut Findings,
    sweep: &Sweep<Stage, (Stage, Words), Read>,
    sentence: &Sentence,
    offsets: &Offsets,
    relations: &[String],
) {
    let mut picture = Picture::new("Does attention follow the structure of the sentence?")
        .subtitle("Frames mark pairs of words of which one depends on the other")
        .columns(2);
    // The first two runs are of the first seed: before and after.
    for (run, stage) in sweep.results().zip(Stage::ALL) {
        let words = &sentence.words;
        let Ok(matrix) = Matrix::new(words.len(), words.len(), run.example.clone()) else { continue };
        let map = HeatMap::new(matrix, ColourScale::sequential("weight").range(0.0, 1.0))
            .words(words.clone(), words.clone())
            .names("query", "key");
        let pairs = (0..words.len()).flat_map(|a| (0..words.len()).map(move |b| (a, b)));
        let linked = pairs.filter(|&(a, b)| a != b && sentence.linked(a, b));
        picture = picture.titled_panel(stage.name(), linked.fold(map, |map, (a, b)| map.highlight(a, b)));
    }
    findings.figure(
        "linked_words",
        "One head on a test sentence, first seed, before and after training: each row shows where the word attends while it is hidden.",
        picture,
    );
    let names = relations.iter().map(|relation| plain_name(relation)).collect();
    let empty = Bars::lying(names, Axis::linear("share of words").percent().range(0.0, 1.0));
    let names: Vec<&String> = relations.iter().collect();
    let bars = charts::grouped(empty, Stage::ALL, &names, |stage, relation| {
        charts::share(sweep.table.mean_if_measured((stage, Words::Hidden), relation_measure(relation)))
    });
    let offset =
        |relation: &String| Bar::new(offsets.relations.get(relation).map_or(f64::NAN, |best| best.1));
    let bars = bars.series("best fixed offset", relations.iter().map(offset).collect());
    findings.figure(
        "relations",
        "How often the other word with the largest weight is the one that a word depends on, by relation (Universal \
         Dependencies), beside the best fixed offset for that relation; mean over seeds with 95 % intervals. The text counts links in \
         both directions, and one offset for all of them.",
        Picture::new("A head against a fixed offset").panel(bars),
    );
}

fn judge(table: &Measured, offsets: &Offsets) -> Verdict {
    let of = |stage, measure: &str| table.values((stage, Words::Hidden), measure);
    let mean = |stage, words, measure: &str| table.mean((stage, words), measure).mean;
    let hidden = |stage, measure: &str| mean(stage, Words::Hidden, measure);
    let (offset, right) = offsets.linked;
    let pairs = table.find((Stage::After, Words::Hidden), RELATED);
    let alike = match pairs.is_empty() {
        true => "no sentence has two sentiment words.".to_owned(),
        false => format!(
            "sentiment words give each other {:.2} times an equal share before and {:.2} times after.",
            hidden(Stage::Before, RELATED),
            hidden(Stage::After, RELATED)
        ),
    };
    let finding = format!(
        "By syntax: the weight on words that a word depends on, or that depend on it, goes from {:.1} % to {:.1} % (words that are not \
         hidden: {:.1} % to {:.1} %). The other word with the largest weight is one in {:.1} % of cases before training and {:.1} % after; \
         the word at the fixed offset {offset:+} is one in {:.1} %, a random word in {:.1} %. By meaning: {alike}",
        100.0 * hidden(Stage::Before, LINKED),
        100.0 * hidden(Stage::After, LINKED),
        100.0 * mean(Stage::Before, Words::Visible, LINKED),
        100.0 * mean(Stage::After, Words::Visible, LINKED),
        100.0 * hidden(Stage::Before, LARGEST_LINKED),
        100.0 * hidden(Stage::After, LARGEST_LINKED),
        100.0 * right,
        100.0 * offsets.chance,
    );
    let change = |measure: &str| paired(&of(Stage::After, measure), &of(Stage::Before, measure));
    let after = of(Stage::After, LARGEST_LINKED);
    let mut checks = vec![
        Check::new("weight on linked words: after − before training", change(LINKED), Bound::Above(0.0)),
        Check::new(
            "largest weight on a linked word: after − best fixed offset",
            paired(&after, &after.map(|_| right)),
            Bound::Above(0.0),
        ),
    ];
    if !pairs.is_empty() {
        let what = "weight between sentiment words ÷ equal share: after − before";
        checks.push(Check::new(what, change(RELATED), Bound::Above(0.0)));
    }
    let ours = |relation: &str| {
        let values = table.find((Stage::After, Words::Hidden), relation_measure(relation));
        (!values.is_empty()).then(|| values.mean().mean)
    };
    let offset = |relation: &str| offsets.relations.get(relation).map(|best| best.1);
    let why = |checks: &[Check]| {
        those_that_apply([
            (
                checks[0].fails(),
                "Training moves weight away from the words that a word is linked to: others predict its class better.",
            ),
            (
                checks[1].fails(),
                "The word at a fixed offset is a linked word more often than the word with the largest weight.",
            ),
            (
                checks.get(2).is_some_and(Check::fails),
                "The neighbours of a word are enough to predict its class, and other sentiment words do not help: training takes \
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
        let mut table = Table::new();
        for stage in Stage::ALL {
            for seed in 0..4 {
                let (at, condition) = (stage as usize, (stage, Words::Hidden));
                let noise = 0.001 * (seed * (1 + at as u64)) as f64;
                table.add(condition, seed, LINKED, linked[at] + noise);
                table.add(condition, seed, LARGEST_LINKED, first + noise);
                table.add(condition, seed, RELATED, related[at] + noise);
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
