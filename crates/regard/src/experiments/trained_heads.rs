//! Do heads specialise without supervision? The same measures of every head before and after training.

use super::instruments::head_patterns::{Measured, PATTERNS, Pattern, RELATIONS, labels, material, measure};
use super::models::language as models;
use crate::experiment::claims::SOURCES;
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Rows, Sizes, Sweep, Table, Verdict, charts, facts, named,
    those_that_apply,
};
use crate::figure::{Axis, Bar, Bars, ColourScale, Gallery, Matrix, Picture};
use crate::model::Opened;
use crate::run::sources;
use crate::statistics::paired;
use anyhow::{Context as _, Result};
use regard_nn::analysis::dependencies::Parsed;
use regard_nn::analysis::heads::record_weights;
use regard_nn::analysis::{Tokens, all_heads};
use regard_nn::models::Model;
use regard_nn::tokens::Special;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

pub const EXPERIMENT: Experiment = Experiment {
    name: "trained-heads",
    claims: &["E2"],
    question: "Do heads specialise without supervision, as previous-token, delimiter, subject–verb, modifier–noun and long-range \
        heads?",
    prediction: "For each of the five patterns, the head of the trained model that shows it most shows it more than any head \
        of the untrained model; and the most-attended word of the best head is the subject of a verb, and the modifier of \
        a noun, more often than the word at any fixed distance. Each pattern is a part. The claim is testable if the model's loss is below \
        that of the unigram distribution.",
    design: "A GPT over words learns to predict the next word of the built-in corpus. On texts outside the training data: each head's \
        mean weight on the previous token, on delimiters, and on tokens 8 or more positions away; on parsed sentences: its weight from a \
        verb to its subject and from a noun to its modifier. The head is chosen on one half of the examples and measured on the other; the \
        same is done with the model before its first step.",
    changed: None,
    data: Data::BuiltIn,
    conditions: &["pattern"],
    seeds: Sizes::quick(3).standard(5),
    seconds: Sizes::quick(9.0).standard(130.0).full(3_000.0).large(600.0),
    trains: |lab| Ok(vec![models::base(lab, lab.first_seed())?]),
    run,
};

const SOURCE: &str = SOURCES[4];
const SINKS: &str = "Gu et al., 2024: heads that give the first token more than 0.3 of their weight";

named! {
    /// The model before its first step and after its last.
    enum Stage { Trained = "trained", Untrained = "untrained" }
}

const BEST_HEAD: &str = "right, best head";
const BEST_UNTRAINED: &str = "right, best untrained head";
const BEST_OFFSET: &str = "right, best fixed offset";
const LABELLED: &str = "share of heads with a label";
const SINK_SHARE: &str = "share of heads that are sinks";
const LOSS: &str = "loss";
const TEST_LOSS: &str = "loss on test text";
const UNIGRAM: &str = "loss of the unigram distribution";

facts! {
    HEAD(pattern: Pattern) = "head: {pattern}";
    LABELS = "labels";
    HEADS = "heads";
    WEIGHT(pattern: Pattern, stage: Stage) = "{pattern}, {stage}";
    MEAN_LOSS = "loss";
    pub MODEL = "model";
}

/// What is shown of a run, beside its measurements.
#[derive(Serialize, Deserialize)]
struct Shown {
    /// By pattern: the chosen head of the trained model, as layer and head.
    chosen: Vec<Option<(usize, usize)>>,
    /// Labels that heads got by rule: layer, head, label.
    labels: Vec<(usize, usize, String)>,
    heads: usize,
    example: Option<Example>,
}

/// A sentence and the weights of all heads on it, untrained and trained.
#[derive(Serialize, Deserialize)]
struct Example {
    words: Vec<String>,
    /// By layer: (heads, words, words).
    untrained: Vec<Vec<f32>>,
    trained: Vec<Vec<f32>>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let Sweep { table, runs } = lab.sweep_seeds("runs", |seed, rows| read(lab, seed, rows))?;
    let mut findings = Findings::default();
    draw(&mut findings, &table, runs.iter().find_map(|run| run.result.example.as_ref()));
    findings.verdicts = vec![judge(&table)];
    if let Some(run) = runs.first() {
        report(&mut findings, &table, &run.result);
    }
    // The report opens this model.
    if let Some(&seed) = lab.seeds().first() {
        findings.word(MODEL, models::trained_base(lab, seed)?.folder.display().to_string());
    }
    findings.finish(lab, table)
}

fn weight(stage: Stage) -> String {
    format!("weight, {stage}")
}

/// What the report says about the heads of the first seed.
fn report(findings: &mut Findings, table: &Table<Pattern>, run: &Shown) {
    let name = |layer: usize, head: usize| format!("{layer}.{head}");
    for ((pattern, _), chosen) in PATTERNS.into_iter().zip(&run.chosen) {
        let chosen = chosen.map_or("none".to_owned(), |(layer, head)| name(layer, head));
        findings.word(HEAD.of(pattern), chosen);
    }
    let labels = run.labels.iter().map(|(layer, head, label)| format!("{} {label}", name(*layer, *head)));
    let labels: Vec<String> = labels.collect();
    findings.word(LABELS, if labels.is_empty() { "none".to_owned() } else { labels.join(", ") });
    findings.fact(HEADS, run.heads as f64);
    for (pattern, _) in PATTERNS {
        findings.facts(WEIGHT, Stage::ALL.map(|stage| (pattern, stage)), |(pattern, stage)| {
            table.mean(pattern, weight(stage)).mean
        });
    }
    findings.fact(MEAN_LOSS, table.mean(Pattern::Any, LOSS).mean);
}

fn read(lab: &Lab, seed: u64, rows: &mut Rows<Pattern>) -> Result<Shown> {
    let run = models::trained_base(lab, seed)?;
    let (trained, untrained) = (run.open()?, run.snapshot(0)?);
    let length = models::base(lab, seed)?.data.length;
    let material = material(lab, &trained, length)?;
    let (after, before) = (measure(&*trained.model, &material)?, measure(&*untrained.model, &material)?);
    let heads = all_heads(&*trained.model)?;
    let mut chosen = Vec::new();
    for (pattern, _) in PATTERNS {
        // Nothing where the texts have no example of it.
        let best = after.best(pattern).zip(before.best(pattern));
        rows.add_some(pattern, weight(Stage::Trained), best.map(|(after, _)| after.1));
        rows.add_some(pattern, weight(Stage::Untrained), best.map(|(_, before)| before.1));
        chosen.push(best.map(|((head, _), _)| (heads[head].layer, heads[head].head)));
    }
    for (pattern, relation) in RELATIONS {
        // Nothing where the texts have too few such pairs.
        let right = || {
            let direction = after.best_direction(relation)?;
            let of = |measured: &Measured| measured.best_match(relation, direction);
            Some([of(&after)?, of(&before)?, after.best_offset(relation, direction)?])
        };
        for (measure, value) in
            [BEST_HEAD, BEST_UNTRAINED, BEST_OFFSET].into_iter().zip(right().into_iter().flatten())
        {
            rows.add(pattern, measure, value);
        }
    }
    let labels = labels(lab, &*trained.model, &*untrained.model, &material, length)?;
    let labelled: BTreeSet<_> = labels.iter().map(|label| (label.0, label.1)).collect();
    rows.add(Pattern::Any, LABELLED, labelled.len() as f64 / heads.len().max(1) as f64);
    rows.add(Pattern::Any, SINK_SHARE, after.sinks());
    rows.add(Pattern::Any, LOSS, run.loss()?);
    let config = models::base(lab, seed)?;
    rows.add(Pattern::Any, TEST_LOSS, models::test_loss(lab, &config, &trained)?);
    rows.add(Pattern::Any, UNIGRAM, models::unigram_loss(lab, &config, trained.tokenizer()?)?);
    let example = if seed == lab.first_seed() { example(&trained, &untrained)? } else { None };
    Ok(Shown { chosen, labels, heads: heads.len(), example })
}

/// The first sentence of a readable length that has both a subject and a modifier.
fn example(trained: &Opened, untrained: &Opened) -> Result<Option<Example>> {
    let tokenizer = trained.tokenizer()?;
    for sentence in sources::builtin_test()?.iter().flat_map(Parsed::from_text) {
        let encoding = tokenizer.encode(&sentence.text, Special::Drop)?;
        let has = |relation: &str| sentence.words.iter().any(|word| word.relation == relation);
        let unknown = tokenizer.special().unknown.is_some_and(|unknown| encoding.ids.contains(&unknown));
        if !(8..=11).contains(&encoding.ids.len()) || unknown || !has("nsubj") || !has("amod") {
            continue;
        }
        let see = |model: &dyn Model| -> Result<Vec<Vec<f32>>> {
            let seen = record_weights(model, &[Tokens::from_encoding(&encoding)])?;
            Ok(seen.iter().map(|weights| weights.all().to_vec()).collect())
        };
        return Ok(Some(Example {
            words: encoding.offsets.iter().map(|span| sentence.text[span.clone()].to_owned()).collect(),
            untrained: see(&*untrained.model).context("the untrained model")?,
            trained: see(&*trained.model)?,
        }));
    }
    Ok(None)
}

fn draw(findings: &mut Findings, table: &Table<Pattern>, example: Option<&Example>) {
    if let Some(Example { words, untrained, trained }) = example {
        let n = words.len();
        let heads = trained.first().map_or(0, |layer| layer.len() / (n * n).max(1));
        let mut gallery = Gallery::new(heads, ColourScale::sequential("weight").range(0.0, 1.0));
        let mut titles = Vec::new();
        for (when, layers) in [("untrained", untrained), ("trained", trained)] {
            for (i, layer) in layers.iter().enumerate() {
                titles.push(format!("layer {i}, {when}"));
                for head in layer.chunks(n * n) {
                    if let Ok(matrix) = Matrix::new(n, n, head.to_vec()) {
                        gallery = gallery.masked_map("", matrix, |row, column| column > row);
                    }
                }
            }
        }
        let gallery = gallery
            .row_titles(titles)
            .column_titles((0..heads).map(|head| format!("head {head}")).collect())
            .words(words.clone(), words.clone());
        findings.figure(
            "heads_of_all_layers",
            "Every head on one sentence outside the training data: before the first step, and after the last. Rows attend, columns are \
             attended to; hatched: masked.",
            Picture::new("What training does to the heads").panel(gallery),
        );
    }
    let patterns = PATTERNS.map(|(pattern, _)| pattern);
    let axis = Axis::linear("weight of the head that has most").from_zero();
    let empty = Bars::upright(charts::names(patterns), axis);
    let panel = charts::grouped(empty, [Stage::Untrained, Stage::Trained], &patterns, |stage, pattern| {
        charts::share(table.mean(pattern, weight(stage)))
    });
    let panel = panel.series("published", PATTERNS.map(|(_, value)| Bar::new(value)).to_vec());
    findings.figure(
        "patterns_before_and_after",
        "For each pattern the head that shows it most, chosen on other examples: mean weight, with 95 % intervals over seeds.",
        Picture::new("Five patterns, before and after training").panel(panel),
    );
}

fn judge(table: &Table<Pattern>) -> Verdict {
    let of = |pattern, stage| table.mean(pattern, weight(stage)).mean;
    let right = |pattern, measure| 100.0 * table.mean(pattern, measure).mean;
    let [previous, delimiters, subject, modifier, far] =
        PATTERNS.map(|(pattern, _)| of(pattern, Stage::Trained));
    let finding = format!(
        "The best heads put {previous:.2} of their weight on the previous token, {delimiters:.2} on delimiters, {subject:.2} on a verb's \
         subject, {modifier:.2} on a noun's modifier and {far:.2} far away. The best head finds the subject in {:.0} % of cases (best \
         fixed offset: {:.0} %) and the modifier in {:.0} % ({:.0} %). {:.0} % of heads get a label by rule.",
        right(Pattern::Subject, BEST_HEAD),
        right(Pattern::Subject, BEST_OFFSET),
        right(Pattern::Modifier, BEST_HEAD),
        right(Pattern::Modifier, BEST_OFFSET),
        100.0 * table.mean(Pattern::Any, LABELLED).mean,
    );
    let gain = |pattern| {
        let [trained, untrained] = Stage::ALL.map(|stage| table.values(pattern, weight(stage)));
        paired(&trained, &untrained)
    };
    let beyond = |pattern| paired(&table.values(pattern, BEST_HEAD), &table.values(pattern, BEST_OFFSET));
    let mut checks: Vec<Check> = PATTERNS
        .iter()
        .map(|&(pattern, _)| {
            let what = format!("{pattern}: weight of the best head, trained − untrained");
            Check::new(what, gain(pattern), Bound::Above(0.0)).part(pattern.name())
        })
        .collect();
    checks.extend(RELATIONS.map(|(pattern, _)| {
        let what = format!("{pattern}: share that the best head finds − that a fixed offset finds");
        Check::new(what, beyond(pattern), Bound::Above(0.0)).part(pattern.name())
    }));
    let sinks = table.mean(Pattern::Any, SINK_SHARE).mean;
    let why = |checks: &[Check]| {
        let evenly = format!(
            "An untrained head spreads its weight over all earlier tokens, and {:.2} of it is 8 or more positions away; heads that learn to \
             attend to something attend nearer ({far:.2}). Weight far away is no skill by itself.",
            of(Pattern::Far, Stage::Untrained),
        );
        let names = |places: std::ops::Range<usize>, of: &dyn Fn(usize) -> Pattern| {
            let failing: Vec<&str> =
                places.filter(|&place| checks[place].fails()).map(|place| of(place).name()).collect();
            failing.join(", ")
        };
        let untrained = names(0..4, &|place| PATTERNS[place].0);
        let offsets = names(5..7, &|place| RELATIONS[place - 5].0);
        those_that_apply([
            (checks[4].fails(), evenly.as_str()),
            (
                !untrained.is_empty(),
                &format!(
                    "A head of the untrained model shows more of this than the best of the trained one: {untrained}."
                ),
            ),
            (
                !offsets.is_empty(),
                &format!("A fixed distance is right more often than the best head: {offsets}."),
            ),
        ])
    };
    let any = |measure| table.values(Pattern::Any, measure);
    let verdict = Verdict::new("E2", checks, finding)
        .requires(models::learned("the GPT", &any(TEST_LOSS), &any(UNIGRAM)))
        .because(why)
        .published("share of heads that are sinks, GPT-2 XL", 0.77, Some(sinks), SINKS)
        .published("share of heads that are sinks, LLaMA-3 8B", 0.99, Some(sinks), SINKS);
    PATTERNS.into_iter().fold(verdict, |verdict, (pattern, theirs)| {
        let ours = of(pattern, Stage::Trained);
        verdict.published(format!("weight of the best head: {pattern}"), theirs, Some(ours), SOURCE)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(trained: f64, untrained: f64, head: f64, offset: f64) -> Table<Pattern> {
        let mut table = Table::new();
        for seed in 0..4 {
            let noise = 0.002 * seed as f64;
            table.add(Pattern::Any, seed, TEST_LOSS, 3.0 + noise);
            table.add(Pattern::Any, seed, UNIGRAM, 5.0);
            for (pattern, _) in PATTERNS {
                table.add(pattern, seed, weight(Stage::Trained), trained + noise);
                table.add(pattern, seed, weight(Stage::Untrained), untrained - noise);
                table.add(pattern, seed, BEST_HEAD, head + noise);
                table.add(pattern, seed, BEST_OFFSET, offset - noise);
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_heads() {
        assert_eq!(judge(&planted(0.7, 0.2, 0.8, 0.5)).outcome, Outcome::Holds);
        assert_eq!(
            judge(&planted(0.2, 0.2, 0.8, 0.5)).outcome,
            Outcome::Undecided,
            "the first seed shows no gain"
        );
        assert_eq!(judge(&planted(0.1, 0.3, 0.8, 0.5)).outcome, Outcome::Fails);
        let offset = judge(&planted(0.7, 0.2, 0.4, 0.5));
        assert_eq!(offset.outcome, Outcome::InPart, "an offset does better for two of five patterns");
        let why = offset.why.unwrap_or_default();
        assert!(
            why.starts_with("A fixed distance") && why.ends_with("subject of a verb, modifier of a noun."),
            "{why}"
        );
    }
}
