//! Do heads specialise without being told to? The same measures of every head before and after training.

use super::instruments::head_patterns::{Measured, PATTERNS, RELATIONS, labels, material, measure};
use super::models::language as models;
use crate::experiment::Sizes;
use crate::experiment::claims::SOURCES;
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict, those_that_apply};
use crate::figure::{Axis, Bar, Bars, ColourScale, Gallery, Matrix, Picture};
use crate::model::Opened;
use crate::run::sources;
use crate::statistics::paired;
use anyhow::{Context as _, Result};
use regard_nn::analysis::dependencies::Parsed;
use regard_nn::analysis::heads::watch;
use regard_nn::analysis::{Tokens, all_heads};
use regard_nn::models::Model;
use regard_nn::tokens::Special;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "trained-heads",
    claims: &["E2"],
    question: "Do heads specialise without supervision, as previous-token, delimiter, subject–verb, modifier–noun and long-range \
        heads?",
    prediction: "For each of the five patterns, the head of the trained model that shows it most shows it more than any head \
        of the same model untrained; and the most-attended word of the best head is the subject of a verb, and the modifier of \
        a noun, more often than the word at any fixed distance is.",
    design: "A GPT over words learns to say the next word of the built-in corpus. Over texts that it was not trained on, each \
        head's mean weight on the token before, on delimiters, and on tokens 8 or more places away; over parsed sentences, its \
        weight from a verb to its subject and from a noun to its modifier. The head is chosen on one half of the examples and \
        measured on the other; the same is done with the model as it was before its first step.",
    changed: Some(models::GPT_CHANGED),
    real_data: None,
    conditions: &["pattern"],
    seeds: Sizes::quick(3).standard(5),
    seconds: Sizes::quick(9.0).standard(130.0).full(3_000.0),
    run,
};

const SOURCE: &str = SOURCES[4];
const SINKS: &str = "Gu et al., 2024: heads that give the first token more than 0.3 of their weight";
#[derive(Serialize, Deserialize)]
struct Run {
    /// By pattern: the chosen head's value, trained and untrained. Nothing where the texts have no place for it.
    patterns: Vec<Option<(f64, f64)>>,
    /// By pattern: the chosen head of the trained model, as layer and head.
    chosen: Vec<Option<(usize, usize)>>,
    /// By relation: how often the best head, the best head of the untrained model, and the best fixed offset are right.
    /// Nothing where the texts have too few such pairs.
    right: Vec<Option<(f64, f64, f64)>>,
    /// The share of heads that give the first token more than [`SINK`](regard_nn::analysis::measures::SINK) of their weight.
    sinks: f64,
    /// Labels that heads got by rule: layer, head, label.
    labels: Vec<(usize, usize, String)>,
    heads: usize,
    loss: f64,
    example: Option<Example>,
}

/// A sentence as all heads see it, untrained and trained.
#[derive(Serialize, Deserialize)]
struct Example {
    words: Vec<String>,
    /// By layer: (heads, words, words).
    untrained: Vec<Vec<f32>>,
    trained: Vec<Vec<f32>>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = lab.seeds();
    let runs = lab.parts("runs", &seeds, |&seed| read(lab, seed))?;
    let mut findings = Findings::new(&["pattern"]);
    for (&seed, run) in seeds.iter().zip(&runs) {
        for ((pattern, _), found) in PATTERNS.iter().zip(&run.patterns) {
            let &Some((trained, untrained)) = found else { continue };
            findings.measurements.add(&[pattern], seed, "weight, trained", trained);
            findings.measurements.add(&[pattern], seed, "weight, untrained", untrained);
        }
        for ((pattern, _), found) in RELATIONS.iter().zip(&run.right) {
            let &Some((head, untrained, offset)) = found else { continue };
            findings.measurements.add(&[pattern], seed, "right, best head", head);
            findings.measurements.add(&[pattern], seed, "right, best untrained head", untrained);
            findings.measurements.add(&[pattern], seed, "right, best fixed offset", offset);
        }
        let labelled: std::collections::BTreeSet<_> =
            run.labels.iter().map(|label| (label.0, label.1)).collect();
        let share = labelled.len() as f64 / run.heads.max(1) as f64;
        findings.measurements.add(&[&"any"], seed, "share of heads with a label", share);
        findings.measurements.add(&[&"any"], seed, "share of heads that are sinks", run.sinks);
        findings.measurements.add(&[&"any"], seed, "loss", run.loss);
    }
    draw(&mut findings, runs.iter().find_map(|run| run.example.as_ref()));
    findings.verdicts = vec![judge(&findings.measurements)];
    tell(&mut findings, &runs);
    Ok(findings)
}

/// What the report says of the first seed's heads.
fn tell(findings: &mut Findings, runs: &[Run]) {
    let Some(run) = runs.first() else { return };
    for ((pattern, _), chosen) in PATTERNS.iter().zip(&run.chosen) {
        let name = chosen.map_or("none".to_owned(), |(layer, head)| format!("{}.{}", layer + 1, head + 1));
        findings.word(format!("head: {pattern}"), name);
    }
    let labels: Vec<String> =
        run.labels.iter().map(|(layer, head, label)| format!("{}.{} {label}", layer + 1, head + 1)).collect();
    let labels = if labels.is_empty() { "none".to_owned() } else { labels.join(", ") };
    findings.word("labels", labels);
    findings.fact("heads", run.heads as f64);
    for (pattern, _) in PATTERNS {
        for when in ["trained", "untrained"] {
            let value = findings.measurements.mean(&[&pattern], &format!("weight, {when}")).mean;
            findings.fact(format!("{pattern}, {when}"), value);
        }
    }
    let loss = findings.measurements.mean(&[&"any"], "loss").mean;
    findings.fact("loss", loss);
}

fn read(lab: &Lab, seed: u64) -> Result<Run> {
    let run = models::trained_base(lab, seed)?;
    let (trained, untrained) = (run.open()?, run.snapshot(0)?);
    let length = models::base(lab, seed)?.data.length;
    let material = material(lab, &trained, length)?;
    let (after, before) = (measure(&*trained.model, &material)?, measure(&*untrained.model, &material)?);
    let heads = all_heads(&*trained.model)?;
    let (mut patterns, mut chosen) = (Vec::new(), Vec::new());
    for pattern in 0..PATTERNS.len() {
        let (Some(after), Some(before)) = (after.best(pattern), before.best(pattern)) else {
            patterns.push(None);
            chosen.push(None);
            continue;
        };
        patterns.push(Some((after.1, before.1)));
        chosen.push(Some((heads[after.0].layer, heads[after.0].head)));
    }
    let right = RELATIONS.iter().map(|(_, relation)| {
        let direction = after.best_direction(relation)?;
        let of = |measured: &Measured| measured.best_match(relation, direction);
        Some((of(&after)?, of(&before)?, after.best_offset(relation, direction)?))
    });
    Ok(Run {
        patterns,
        chosen,
        right: right.collect(),
        sinks: after.sinks(),
        labels: labels(lab, &*trained.model, &*untrained.model, &material, length)?,
        heads: heads.len(),
        loss: run.loss()?,
        example: if seed == 0 { example(&trained, &untrained)? } else { None },
    })
}

/// The first sentence of a readable length that has both a subject and a modifier.
fn example(trained: &Opened, untrained: &Opened) -> Result<Option<Example>> {
    let tokenizer = trained.tokenizer()?;
    for sentence in sources::builtin_test()?.iter().flat_map(Parsed::of_text) {
        let encoding = tokenizer.encode(&sentence.text, Special::Drop)?;
        let has = |relation: &str| sentence.words.iter().any(|word| word.relation == relation);
        let unknown = tokenizer.special().unknown.is_some_and(|unknown| encoding.ids.contains(&unknown));
        if !(8..=11).contains(&encoding.ids.len()) || unknown || !has("nsubj") || !has("amod") {
            continue;
        }
        let see = |model: &dyn Model| -> Result<Vec<Vec<f32>>> {
            let seen = watch(model, &[Tokens::from_encoding(&encoding)])?;
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

fn draw(findings: &mut Findings, example: Option<&Example>) {
    if let Some(Example { words, untrained, trained }) = example {
        let n = words.len();
        let heads = trained.first().map_or(0, |layer| layer.len() / (n * n).max(1));
        let mut gallery = Gallery::new(heads, ColourScale::sequential("weight").range(0.0, 1.0));
        let mut titles = Vec::new();
        for (when, layers) in [("untrained", untrained), ("trained", trained)] {
            for (i, layer) in layers.iter().enumerate() {
                titles.push(format!("layer {}, {when}", i + 1));
                for head in layer.chunks(n * n) {
                    if let Ok(matrix) = Matrix::new(n, n, head.to_vec()) {
                        gallery = gallery.masked_map("", matrix, |row, column| column > row);
                    }
                }
            }
        }
        let gallery = gallery
            .row_titles(titles)
            .column_titles((1..=heads).map(|head| format!("head {head}")).collect())
            .words(words.clone(), words.clone());
        findings.figure(
            "heads_of_all_layers",
            "Every head on one sentence that the model was not trained on: before the first step, and after the last. Rows attend, \
             columns are attended to; hatched: masked.",
            Picture::new("What training makes of the heads").panel(gallery),
        );
    }
    let names: Vec<String> = PATTERNS.iter().map(|(pattern, _)| (*pattern).to_owned()).collect();
    let bars = |when: &str| -> Vec<Bar> {
        let bar = |(pattern, _): &(&str, f64)| {
            let interval = findings.measurements.mean(&[pattern], &format!("weight, {when}"));
            Bar::new(interval.mean).interval(interval.low.max(0.0), interval.high.min(1.0))
        };
        PATTERNS.iter().map(bar).collect()
    };
    let published = PATTERNS.iter().map(|(_, value)| Bar::new(*value)).collect();
    let panel = Bars::upright(names, Axis::linear("weight of the head that has most").from_zero())
        .series("untrained", bars("untrained"))
        .series("trained", bars("trained"))
        .series("published", published);
    findings.figure(
        "patterns_before_and_after",
        "For each pattern the head that shows it most, chosen on other examples: mean weight, with 95 % intervals over seeds.",
        Picture::new("Five patterns, before and after training").panel(panel),
    );
}

fn judge(table: &Measurements) -> Verdict {
    let gain = |pattern: &str| {
        paired(&table.values(&[&pattern], "weight, trained"), &table.values(&[&pattern], "weight, untrained"))
    };
    let beyond = |pattern: &str| {
        paired(
            &table.values(&[&pattern], "right, best head"),
            &table.values(&[&pattern], "right, best fixed offset"),
        )
    };
    let weight = |pattern: &str| table.mean(&[&pattern], "weight, trained").mean;
    let right = |pattern: &str, who: &str| 100.0 * table.mean(&[&pattern], &format!("right, {who}")).mean;
    let [subject, modifier] = [RELATIONS[0].0, RELATIONS[1].0];
    let finding = format!(
        "The best heads put {:.2} of their weight on the token before, {:.2} on delimiters, {:.2} on a verb's subject, {:.2} on \
         a noun's modifier and {:.2} far away. The best head finds the subject in {:.0} % of cases (best fixed offset: {:.0} %) \
         and the modifier in {:.0} % ({:.0} %). {:.0} % of heads get a label by rule.",
        weight(PATTERNS[0].0),
        weight(PATTERNS[1].0),
        weight(PATTERNS[2].0),
        weight(PATTERNS[3].0),
        weight(PATTERNS[4].0),
        right(subject, "best head"),
        right(subject, "best fixed offset"),
        right(modifier, "best head"),
        right(modifier, "best fixed offset"),
        100.0 * table.mean(&[&"any"], "share of heads with a label").mean,
    );
    let mut checks: Vec<Check> = PATTERNS
        .iter()
        .map(|(pattern, _)| {
            let what = format!("{pattern}: weight of the best head, trained − untrained");
            Check::new(what, gain(pattern), Bound::Above(0.0))
        })
        .collect();
    checks.extend(RELATIONS.iter().map(|(pattern, _)| {
        let what = format!("{pattern}: share that the best head finds − that a fixed offset finds");
        Check::new(what, beyond(pattern), Bound::Above(0.0))
    }));
    let sinks = table.mean(&[&"any"], "share of heads that are sinks").mean;
    let far = PATTERNS[4].0;
    let why = |checks: &[Check]| {
        let evenly = format!(
            "An untrained head spreads its weight over all that came before, and {:.2} of it is 8 or more places away; heads that \
             learn to look at something look nearer ({:.2}). Weight far away is no skill by itself.",
            table.mean(&[&far], "weight, untrained").mean,
            weight(far),
        );
        let names = |places: std::ops::Range<usize>, of: &dyn Fn(usize) -> &'static str| {
            let failing: Vec<&str> = places.filter(|&place| checks[place].fails()).map(of).collect();
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
    let verdict = Verdict::new("E2", checks, finding)
        .because(why)
        .published("share of heads that are sinks, GPT-2 XL", 0.77, Some(sinks), SINKS)
        .published("share of heads that are sinks, LLaMA-3 8B", 0.99, Some(sinks), SINKS);
    PATTERNS.iter().fold(verdict, |verdict, (pattern, theirs)| {
        verdict.published(
            format!("weight of the best head: {pattern}"),
            *theirs,
            Some(weight(pattern)),
            SOURCE,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(trained: f64, untrained: f64, head: f64, offset: f64) -> Measurements {
        let mut table = Measurements::new(&["pattern"]);
        for seed in 0..4 {
            let noise = 0.002 * seed as f64;
            for (pattern, _) in PATTERNS {
                table.add(&[&pattern], seed, "weight, trained", trained + noise);
                table.add(&[&pattern], seed, "weight, untrained", untrained - noise);
                table.add(&[&pattern], seed, "right, best head", head + noise);
                table.add(&[&pattern], seed, "right, best fixed offset", offset - noise);
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
        assert_eq!(offset.outcome, Outcome::Fails, "an offset does better");
        let why = offset.why.unwrap_or_default();
        assert!(
            why.starts_with("A fixed distance") && why.ends_with("subject of a verb, modifier of a noun."),
            "{why}"
        );
    }
}
