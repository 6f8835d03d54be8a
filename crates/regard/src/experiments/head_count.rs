//! Do several heads do better than one, with the same parameters?

use super::instruments::tagger_attention;
use super::models::bag::{self as bags, Form};
use super::models::{sentiment, tagger as taggers};
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, SMALL_MODELS, Sizes, Sweep, Table, Verdict, charts, facts,
    named,
};
use crate::figure::{Axis, Chart, Picture, Series, fixed};
use crate::statistics::paired;
use anyhow::Result;

pub const EXPERIMENT: Experiment = Experiment {
    name: "head-count",
    claims: &["A7"],
    question: "Do several heads do better than one, with the same parameters?",
    prediction: "Four heads are more accurate than one on test texts, both in classifying sentiment and in classifying content and \
        function words. Each task is a part, and is testable if one head is right more often than the more frequent class.",
    design: "The width is divided among the heads, so that all models have the same parameters. Sentiment: a bag of word vectors with \
        trained attention and a residual connection, on 4,000 texts. Words: the taggers of `content-words` and `tagger-heads`. \
        Differences are paired by seed.",
    changed: None,
    data: Data::Text("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv, for sentiment alone"),
    conditions: &["task", "heads"],
    seeds: SMALL_MODELS,
    seconds: Sizes::quick(22.0).standard(120.0).full(300.0),
    trains: |lab| {
        let bags = [1, 4].map(|heads| bags::config(lab, form(heads), lab.first_seed()));
        bags.into_iter()
            .chain(taggers::HEADS.map(|heads| taggers::config(lab, heads, lab.first_seed())))
            .collect()
    },
    run,
};

named! {
    enum Task { Sentiment = "sentiment", WordClass = "content or function word" }
}

impl Task {
    /// The numbers of heads that are compared.
    fn heads(self) -> &'static [usize] {
        match self {
            Task::Sentiment => &[1, 4],
            Task::WordClass => &taggers::HEADS,
        }
    }
}

const MAJORITY: &str = "share of the more frequent class";

facts! {
    ACCURACY(task: Task, heads: usize) = "accuracy, {task}, {heads} heads";
}

/// A bag with so many heads.
fn form(heads: usize) -> Form {
    Form { heads, trained: true, residual: true, data: 4, ..Form::PLAIN }
}

fn run(lab: &Lab) -> Result<Findings> {
    // Labelled texts do not say which words are content words.
    let tasks = if lab.setup.data.is_some() { &Task::ALL[..1] } else { &Task::ALL };
    let cells = || tasks.iter().flat_map(|&task| task.heads().iter().map(move |&heads| (task, heads)));
    let inputs = cells().flat_map(|(task, heads)| {
        let seeds = if task == Task::Sentiment { lab.seeds() } else { taggers::seeds(lab, heads) };
        seeds.into_iter().map(move |seed| ((task, heads), seed))
    });
    let texts = sentiment::test_texts(lab)?;
    let sentences = if tasks.len() > 1 { taggers::test_sentences(lab)? } else { Vec::new() };
    let Sweep { table, .. } = lab.sweep("runs", inputs.collect(), |(task, heads), seed, rows| {
        let (opened, accuracy, majority) = match task {
            Task::Sentiment => {
                let opened = bags::trained(lab, form(heads), seed)?.open()?;
                let accuracy = bags::accuracy(&opened, &bags::config(lab, form(heads), seed)?, &texts)?;
                (opened, accuracy, share_of_larger_class(&texts))
            }
            Task::WordClass => {
                let opened = taggers::trained(lab, heads, seed)?.snapshot(taggers::last_step(lab))?;
                let reading = tagger_attention::read(&opened, &sentences)?;
                (opened, reading.accuracy(), reading.majority)
            }
        };
        rows.add((task, heads), "accuracy", accuracy);
        rows.add((task, heads), MAJORITY, majority);
        let vectors = opened.model.token_embeddings().map_or(0, |table| table.tensor().count());
        rows.add((task, heads), "parameters", (opened.model.parameter_count() - vectors) as f64);
        Ok(())
    })?;
    let mut findings = Findings::default();
    draw(&mut findings, &table, tasks);
    findings.verdicts = vec![judge(&table, tasks)];
    findings.facts(ACCURACY, cells(), |cell| table.mean(cell, "accuracy").mean);
    findings.finish(lab, table)
}

/// The share of the more frequent class of texts.
fn share_of_larger_class(texts: &[(String, usize)]) -> f64 {
    let positive = texts.iter().filter(|(_, label)| *label == 1).count() as f64 / texts.len().max(1) as f64;
    positive.max(1.0 - positive)
}

fn draw(findings: &mut Findings, table: &Table<(Task, usize)>, tasks: &[Task]) {
    let mut picture = Picture::new("Do more heads help?")
        .subtitle("The same parameters, divided among the heads; mean over seeds with 95 % intervals")
        .columns(2);
    for &task in tasks {
        let points = task
            .heads()
            .iter()
            .map(|&heads| charts::share_point(heads as f64, table.mean((task, heads), "accuracy")));
        let ticks = task.heads().iter().map(|&heads| heads as f64);
        let chart = Chart::new(Axis::log("heads").ticks(ticks), Axis::linear("accuracy"))
            .series(Series::new("").intervals(points))
            .half();
        picture = picture.titled_panel(task.name(), chart);
    }
    findings.figure(
        "accuracy_by_heads",
        "Accuracy on test texts by the number of heads, for two tasks.",
        picture,
    );
}

fn judge(table: &Table<(Task, usize)>, tasks: &[Task]) -> Verdict {
    let mean = |task, heads, measure: &str| table.mean((task, heads), measure).mean;
    let part = |&task: &Task| {
        format!(
            "One head classifies {:.1} % of {} correctly and four classify {:.1} % ({} and {} parameters beside the word vectors).",
            100.0 * mean(task, 1, "accuracy"),
            if task == Task::Sentiment { "texts" } else { "masked words" },
            100.0 * mean(task, 4, "accuracy"),
            fixed(mean(task, 1, "parameters"), 0),
            fixed(mean(task, 4, "parameters"), 0),
        )
    };
    let check = |&task: &Task| {
        let of = |heads| table.values((task, heads), "accuracy");
        let what = format!("{task}: accuracy of four heads − of one");
        Check::new(what, paired(&of(4), &of(1)), Bound::Above(0.0)).part(task.name())
    };
    let learned = |&task: &Task| {
        let of = |measure| table.values((task, 1), measure);
        let what = format!("{task}: accuracy of one head − share of the more frequent class");
        Check::new(what, paired(&of("accuracy"), &of(MAJORITY)), Bound::Above(0.0)).part(task.name())
    };
    let finding = tasks.iter().map(part).collect::<Vec<_>>().join(" ");
    let verdict = Verdict::new("A7", tasks.iter().map(check).collect(), finding);
    tasks.iter().map(learned).fold(verdict, Verdict::requires)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn judged(four: [f64; 2]) -> Outcome {
        let mut table = Table::new();
        for (task, four) in Task::ALL.into_iter().zip(four) {
            for seed in 0..4 {
                let noise = 0.002 * seed as f64;
                table.add((task, 1), seed, "accuracy", 0.8 + noise);
                table.add((task, 1), seed, MAJORITY, 0.5);
                table.add((task, 4), seed, "accuracy", four + 1.5 * noise);
            }
        }
        judge(&table, &Task::ALL).outcome
    }

    #[test]
    fn the_verdict_follows_the_accuracy() {
        assert_eq!(judged([0.85, 0.85]), Outcome::Holds);
        assert_eq!(judged([0.75, 0.85]), Outcome::InPart);
        assert_eq!(judged([0.75, 0.75]), Outcome::Fails);
    }
}
