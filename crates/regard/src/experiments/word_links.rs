//! After training, does attention link words that belong together?

use super::instruments::tagger_attention::{self, Offsets};
use super::models::tagger::{self as taggers, Sentence, Stage, Words};
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, SMALL_MODELS, Sizes, Sweep, Table, Verdict, charts, facts,
    those_that_apply,
};
use crate::figure::{Axis, Bar, Bars, ColourScale, HeatMap, Matrix, Picture};
use crate::statistics::{Sample, paired};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const EXPERIMENT: Experiment = Experiment {
    name: "word-links",
    claims: &["B4", "B7"],
    question: "After training, does attention link words that belong together, by syntax and by meaning?",
    prediction: "Training raises the weight on words that the attending word depends on or that depend on it. After training, the other \
        word with the largest weight is such a word more often than the word at the best fixed offset is. By meaning: after training, \
        words of one semantic field give each other more weight than words of shuffled fields do, by at least a twentieth of an equal \
        share, and by more than before training.",
    design: "The taggers of `content-words` read test sentences with known dependency trees, before and after training, paired by seed. \
        For each hidden word (only their answers enter the loss; the others are reported, too): the weight on its syntactic neighbours, \
        and whether the other word with the largest weight is one. The offset (“the next word”) is the best one for these very words. \
        Semantic fields (story, look, sound, acting, directing …) are those of the built-in lexicon. They are measured between words that \
        are not hidden, since a hidden word has no meaning to go by; pairs linked by syntax and repeated words are left out; fields are \
        shuffled among words twenty times. Claims are testable if the trained tagger is right more often than the more frequent class.",
    changed: None,
    data: Data::Text("a CoNLL-U treebank: a file, or a folder with train and test parts"),
    conditions: &["stage", "words"],
    seeds: SMALL_MODELS,
    seconds: Sizes::quick(1.5).standard(6.0).full(60.0),
    trains: |lab| Ok(vec![taggers::config(lab, 1, lab.first_seed())?]),
    run,
};

/// So many relations are shown, the most frequent ones.
const RELATIONS: usize = 9;
const SOURCE: &str = "Clark et al. (2019), the best head of BERT-base";

const LINKED: &str = "weight on linked words";
const LARGEST_LINKED: &str = "largest weight on a linked word";
const RELATED: &str = "weight between sentiment words ÷ equal share";
const SAME_FIELD: &str = "weight between words of one field ÷ equal share";
const SHUFFLED_FIELD: &str = "weight between words of shuffled fields ÷ equal share";
const ACCURACY: &str = "accuracy";
const MAJORITY: &str = "share of the more frequent class";
/// The smallest excess of weight within a field that counts, in equal shares.
const NOTICEABLE: f64 = 0.05;

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
                rows.add_some((stage, words), SAME_FIELD, view.same_field);
                rows.add_some((stage, words), SHUFFLED_FIELD, view.shuffled_field);
            }
            rows.add((stage, Words::Hidden), ACCURACY, reading.accuracy());
            rows.add((stage, Words::Hidden), MAJORITY, reading.majority);
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
    findings.verdicts = vec![judge(&table, &offsets), judge_fields(&table)];
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

/// That the taggers learned their task.
fn learned(table: &Measured) -> Check {
    let of = |measure| table.values((Stage::After, Words::Hidden), measure);
    taggers::learned(&of(ACCURACY), &of(MAJORITY))
}

/// The weight within semantic fields beyond that within shuffled ones, by seed.
fn within_fields(table: &Measured, stage: Stage) -> Sample {
    let of = |measure| table.find((stage, Words::Visible), measure);
    of(SAME_FIELD).minus(&of(SHUFFLED_FIELD))
}

fn judge_fields(table: &Measured) -> Verdict {
    let what = "after training: weight within a field − within shuffled fields, equal shares";
    let growth = "the same, after − before training";
    let (excess, more) = ("words of one field attend to each other", "training makes them");
    let [before, after] = Stage::ALL.map(|stage| within_fields(table, stage));
    if after.is_empty() {
        let missing = |what, bound, part: &str| Check::not_measured(what, bound).part(part);
        let checks =
            vec![missing(what, Bound::Above(NOTICEABLE), excess), missing(growth, Bound::Above(0.0), more)];
        return Verdict::new("B7", checks, "No sentence has two words of one field.")
            .requires(learned(table));
    }
    let mean = |stage, measure| table.find((stage, Words::Visible), measure).mean().mean;
    let judging = table.find((Stage::After, Words::Visible), RELATED);
    let judging = match judging.is_empty() {
        true => String::new(),
        false => format!(
            " Sentiment words give each other {:.2} times an equal share before and {:.2} times after.",
            mean(Stage::Before, RELATED),
            mean(Stage::After, RELATED)
        ),
    };
    let finding = format!(
        "Words of one semantic field give each other {:.3} times an equal share before training and {:.3} times after it; words of \
         shuffled fields {:.3} and {:.3} times.{judging}",
        mean(Stage::Before, SAME_FIELD),
        mean(Stage::After, SAME_FIELD),
        mean(Stage::Before, SHUFFLED_FIELD),
        mean(Stage::After, SHUFFLED_FIELD),
    );
    let checks = vec![
        Check::new(what, after.mean(), Bound::Above(NOTICEABLE)).part(excess),
        Check::new(growth, paired(&after, &before), Bound::Above(0.0)).part(more),
    ];
    Verdict::new("B7", checks, finding).requires(learned(table)).because(|checks| {
        those_that_apply([(
            checks.iter().any(Check::fails),
            "The task does not ask for it: whether a word is a content word shows in its neighbours, and only hidden words, whose meaning \
             is not known, are answered for.",
        )])
    })
}

fn judge(table: &Measured, offsets: &Offsets) -> Verdict {
    let of = |stage, measure: &str| table.values((stage, Words::Hidden), measure);
    let mean = |stage, words, measure: &str| table.mean((stage, words), measure).mean;
    let hidden = |stage, measure: &str| mean(stage, Words::Hidden, measure);
    let (offset, right) = offsets.linked;
    let finding = format!(
        "The weight on words that a word depends on, or that depend on it, goes from {:.1} % to {:.1} % (words that are not \
         hidden: {:.1} % to {:.1} %). The other word with the largest weight is one in {:.1} % of cases before training and {:.1} % after; \
         the word at the fixed offset {offset:+} is one in {:.1} %, a random word in {:.1} %.",
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
    let checks = vec![
        Check::new("weight on linked words: after − before training", change(LINKED), Bound::Above(0.0))
            .part("training raises the weight on linked words"),
        Check::new(
            "largest weight on a linked word: after − best fixed offset",
            paired(&after, &after.map(|_| right)),
            Bound::Above(0.0),
        )
        .part("attention finds them better than a fixed offset"),
    ];
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
        ])
    };
    Verdict::new("B4", checks, finding)
        .requires(learned(table))
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

    fn table(linked: [f64; 2], first: f64, fields: [f64; 2]) -> Measured {
        let mut table = Table::new();
        for stage in Stage::ALL {
            for seed in 0..4 {
                let (at, condition) = (stage as usize, (stage, Words::Hidden));
                let noise = 0.001 * (seed * (1 + at as u64)) as f64;
                table.add(condition, seed, LINKED, linked[at] + noise);
                table.add(condition, seed, LARGEST_LINKED, first + noise);
                table.add(condition, seed, ACCURACY, 0.8 + noise);
                table.add(condition, seed, MAJORITY, 0.6);
                table.add((stage, Words::Visible), seed, SAME_FIELD, fields[at] + 2.0 * noise);
                table.add((stage, Words::Visible), seed, SHUFFLED_FIELD, 1.0 + noise);
            }
        }
        table
    }

    fn planted(linked: [f64; 2], first: f64) -> Verdict {
        judge(
            &table(linked, first, [1.0; 2]),
            &Offsets { linked: (1, 0.4), relations: BTreeMap::new(), chance: 0.2 },
        )
    }

    #[test]
    fn the_verdict_follows_the_weights() {
        assert_eq!(planted([0.2, 0.5], 0.6).outcome, Outcome::Holds);
        assert_eq!(planted([0.5, 0.2], 0.3).outcome, Outcome::Fails);
        assert_eq!(planted([0.5, 0.2], 0.6).outcome, Outcome::InPart);
        assert_eq!(planted([0.2, 0.5], 0.3).outcome, Outcome::InPart, "an offset does better");
    }

    #[test]
    fn fields_must_stand_out_from_shuffled_ones_and_more_than_before() {
        let judged = |fields| judge_fields(&table([0.2, 0.5], 0.6, fields));
        assert_eq!(judged([1.0, 1.5]).outcome, Outcome::Holds);
        assert_eq!(judged([1.5, 1.3]).outcome, Outcome::InPart, "they did before training");
        assert_eq!(judged([1.2, 0.9]).outcome, Outcome::Fails);
        let mut none = Table::new();
        for seed in 0..3 {
            none.add((Stage::After, Words::Hidden), seed, ACCURACY, 0.8 + 0.01 * seed as f64);
            none.add((Stage::After, Words::Hidden), seed, MAJORITY, 0.6);
        }
        assert_eq!(judge_fields(&none).outcome, Outcome::NotMeasured);
    }
}
