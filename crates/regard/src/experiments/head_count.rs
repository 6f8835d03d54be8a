//! Do several heads do better than one, with the same parameters?

use super::bag_models::{self as bags, Form};
use super::sentiment_models as sentiment;
use super::tagger_models as taggers;
use super::tagger_reading;
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict};
use crate::figure::{Axis, Chart, Picture, Series, fixed};
use crate::statistics::paired;
use anyhow::Result;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "head-count",
    claims: &["A7"],
    question: "Do several heads do better than one, with the same parameters?",
    prediction: "Four heads are more accurate than one on test texts, in telling sentiment and in telling content words from \
        function words.",
    design: "The width is divided among the heads, so that all have the same parameters. Sentiment: a bag of word vectors with \
        trained attention and a residual connection, on 4,000 texts. Words: the taggers of `content-words` and `tagger-heads`. \
        Paired by seed.",
    changed: Some(
        "Sentiment was first told by a bag with positions, on 1,000 texts of which the first words were read; it is without positions, on \
         4,000 texts and their last words now. Standard size had five seeds, which left it open; it has fifteen.",
    ),
    real_data: Some("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv, for sentiment alone"),
    seconds: [22.0, 120.0, 300.0],
    run,
};

const TASKS: [&str; 2] = ["sentiment", "content or function word"];

/// A bag with so many heads.
fn form(heads: usize) -> Form {
    Form { heads, trained: true, residual: true, data: 4, ..Form::PLAIN }
}

/// The numbers of heads that are tried at a task.
fn heads(task: usize) -> &'static [usize] {
    if task == 0 { &[1, 4] } else { &taggers::HEADS }
}

#[derive(Serialize, Deserialize)]
struct Run {
    accuracy: f64,
    parameters: usize,
}

fn run(lab: &Lab) -> Result<Findings> {
    let mut inputs = Vec::new();
    // Labelled texts say nothing of their words' classes.
    let tasks = if lab.conditions.data.is_some() { 1 } else { TASKS.len() };
    for task in 0..tasks {
        for &heads in heads(task) {
            let seeds = if task == 0 { lab.seeds_of_small_models() } else { taggers::seeds(lab, heads) };
            inputs.extend(seeds.into_iter().map(|seed| (task, heads, seed)));
        }
    }
    let texts = sentiment::test_texts(lab)?;
    let sentences = if tasks > 1 { taggers::test_sentences(lab)? } else { Vec::new() };
    let runs = lab.parts("runs", &inputs, |&(task, heads, seed)| {
        let (opened, accuracy) = if task == 0 {
            let opened = bags::trained(lab, form(heads), seed)?.open()?;
            let accuracy = bags::accuracy(&opened, &bags::config(lab, form(heads), seed)?, &texts)?;
            (opened, accuracy)
        } else {
            let opened = taggers::trained(lab, heads, seed)?.snapshot(taggers::last_step(lab))?;
            let accuracy = tagger_reading::read(&opened, &sentences)?.accuracy();
            (opened, accuracy)
        };
        let table = opened.model.token_embeddings().map_or(0, |table| table.tensor().count());
        Ok(Run { accuracy, parameters: opened.model.parameter_count() - table })
    })?;
    let mut findings = Findings::new(&["task", "heads"]);
    for (&(task, heads, seed), run) in inputs.iter().zip(&runs) {
        findings.measurements.add(&[&TASKS[task], &heads], seed, "accuracy", run.accuracy);
        findings.measurements.add(&[&TASKS[task], &heads], seed, "parameters", run.parameters as f64);
    }
    draw(&mut findings, &TASKS[..tasks]);
    findings.verdicts = vec![judge(&findings.measurements, tasks)];
    for (task, name) in TASKS.iter().enumerate().take(tasks) {
        for heads in heads(task) {
            let value = findings.measurements.mean(&[name, heads], "accuracy").mean;
            findings.fact(format!("accuracy, {name}, {heads} heads"), value);
        }
    }
    Ok(findings)
}

fn draw(findings: &mut Findings, tasks: &[&'static str]) {
    let mut picture = Picture::new("Does it help to have more heads?")
        .subtitle("The same parameters, divided among the heads; mean over seeds with 95 % intervals")
        .columns(2);
    for (task, name) in tasks.iter().enumerate() {
        let points: Vec<_> = heads(task)
            .iter()
            .map(|heads| {
                let interval = findings.measurements.mean(&[name, heads], "accuracy");
                (*heads as f64, interval.mean, interval.low.max(0.0), interval.high.min(1.0))
            })
            .collect();
        let ticks = heads(task).iter().map(|&heads| heads as f64);
        let chart = Chart::new(Axis::log("heads").ticks(ticks), Axis::linear("accuracy"))
            .series(Series::new("").intervals(points))
            .half();
        picture = picture.titled_panel(*name, chart);
    }
    findings.figure(
        "accuracy_by_heads",
        "Accuracy on test texts by the number of heads, for two tasks.",
        picture,
    );
}

fn judge(table: &Measurements, tasks: usize) -> Verdict {
    let of = |task: usize, heads: usize| table.values(&[&TASKS[task], &heads], "accuracy");
    let mean = |task: usize, heads: usize, measure: &str| table.mean(&[&TASKS[task], &heads], measure).mean;
    let part = |task: usize| {
        format!(
            "{}, {:.1} % are right with one head and {:.1} % with four ({} and {} parameters beside the word vectors)",
            ["Of texts", "of hidden words"][task],
            100.0 * mean(task, 1, "accuracy"),
            100.0 * mean(task, 4, "accuracy"),
            fixed(mean(task, 1, "parameters"), 0),
            fixed(mean(task, 4, "parameters"), 0),
        )
    };
    let check = |task: usize| {
        let what = format!("{}: accuracy of four heads − of one", TASKS[task]);
        Check::new(what, paired(&of(task, 4), &of(task, 1)), Bound::Above(0.0))
    };
    let finding = (0..tasks).map(part).collect::<Vec<_>>().join("; ");
    Verdict::new("A7", (0..tasks).map(check).collect(), format!("{finding}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(four: [f64; 2]) -> Measurements {
        let mut table = Measurements::new(&["task", "heads"]);
        for (task, name) in TASKS.iter().enumerate() {
            for seed in 0..4 {
                let noise = 0.002 * seed as f64;
                table.add(&[name, &1], seed, "accuracy", 0.8 + noise);
                table.add(&[name, &4], seed, "accuracy", four[task] + 1.5 * noise);
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_accuracy() {
        assert_eq!(judge(&planted([0.85, 0.85]), 2).outcome, Outcome::Holds);
        assert_eq!(judge(&planted([0.75, 0.85]), 2).outcome, Outcome::Fails);
        assert_eq!(judge(&planted([0.85, 0.75]), 2).outcome, Outcome::Fails);
    }
}
