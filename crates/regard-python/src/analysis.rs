//! What heads do, whether they matter, and which words a prediction rests on, as tables.

use crate::model::Model;
use crate::table::{Columns, Values};
use crate::work::work;
use anyhow::{Result, anyhow, bail, ensure};
use pyo3::prelude::*;
use regard::corpus::{Corpus, CorpusArguments, TokenizedCorpus};
use regard::corpus_analysis::evaluation_batches::EvaluationBatches;
use regard::corpus_analysis::heads::{MeasureOptions, SIGNIFICANCE, Tables, measure, weights_name};
use regard::corpus_analysis::target::{blank, target_text};
use regard::corpus_analysis::texts::{Texts, answers};
use regard::model::Opened;
use regard::progress::StepProgress;
use regard_nn::analysis::ablation::ablate_with_progress;
use regard_nn::analysis::influence::{Method, influence as attribute};
use regard_nn::analysis::occlusion::{BATCH as OCCLUDED, Quantity, occlusion_with_progress};
use regard_nn::analysis::statistics::{Interval, Resampling};
use regard_nn::analysis::{Label, Part, Subject, Tokens, all_heads, label_heads};
use regard_nn::data::{Example, Labelled};
use regard_nn::models::Reads;

/// Texts to analyse a model on: those given, or a corpus by its name.
#[derive(FromPyObject)]
pub enum Given {
    Named(String),
    Texts(Vec<String>),
}

/// How texts are read.
#[derive(FromPyObject)]
pub struct Options {
    limit: usize,
    length: Option<u32>,
    batch: u32,
    seed: u64,
}

impl Options {
    fn arguments(&self, given: &Given) -> CorpusArguments {
        let (corpus, limit) = match given {
            Given::Named(name) => (name.clone(), self.limit),
            // Those that were given are all meant.
            Given::Texts(_) => ("texts".to_owned(), 0),
        };
        CorpusArguments {
            corpus,
            answers: None,
            limit,
            length: self.length,
            batch: self.batch,
            seed: self.seed,
        }
    }
}

fn corpus(given: Given, labels: Option<(Vec<String>, Vec<usize>)>) -> Result<Corpus> {
    let texts = match given {
        Given::Named(name) => return named_corpus(&name),
        Given::Texts(texts) => texts,
    };
    ensure!(!texts.is_empty(), "there is no text to read");
    let (classes, labels) = labels.unwrap_or_else(|| (Vec::new(), vec![0; texts.len()]));
    ensure!(labels.len() == texts.len(), "there are {} texts and {} labels", texts.len(), labels.len());
    let examples =
        texts.into_iter().zip(labels).map(|(text, label)| Example { text, second: None, label }).collect();
    Ok(Corpus::Labelled(Labelled { classes, examples }))
}

fn named_corpus(name: &str) -> Result<Corpus> {
    // The library's sentence names an option of the program.
    Corpus::open(name).map_err(|error| {
        let error = format!("{error:#}");
        match error.split_once("; for the corpus of this program") {
            Some((missing, _)) => {
                anyhow!("{missing}: texts are a list, the path of a file, or \"built-in\"")
            }
            None => anyhow!(error),
        }
    })
}

/// The model with its tokenizer, which every analysis of texts needs.
fn opened(model: &Model) -> Result<&Opened> {
    ensure!(model.opened.tokenizer.is_some(), "{} has no tokenizer: it cannot read texts", model.name);
    Ok(&model.opened)
}

fn part(model: &Model, kind: Option<&str>) -> Result<Part> {
    let parts = model.opened.model.parts();
    let decodes = model.opened.model.abilities().reads == Reads::Source;
    match kind {
        None if decodes => bail!(
            "this {} has several attentions: choose kind=\"encoder\", \"decoder\" or \"cross\"",
            model.opened.model.kind()
        ),
        None | Some("self") if !decodes => Ok(Part::Reader),
        Some(name) => match parts.into_iter().find(|part| decodes && part.name() == name) {
            Some(part) => Ok(part),
            None => bail!("this {} has no attention of the kind {name}", model.opened.model.kind()),
        },
        None => Ok(Part::Reader),
    }
}

fn whole(values: impl IntoIterator<Item = usize>) -> Values {
    Values::Whole(values.into_iter().map(|value| value as i64).collect())
}

fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> Values {
    Values::Texts(values.into_iter().map(str::to_owned).collect())
}

/// Measures of heads by model and kind of weight, a row each.
pub fn measure_columns(tables: &[(&str, Tables)]) -> Columns {
    let rows: Vec<_> = tables
        .iter()
        .flat_map(|(name, tables)| tables.iter().map(move |(weighing, table)| (*name, *weighing, table)))
        .flat_map(|(name, weighing, table)| {
            table.rows.iter().map(move |row| (name, weights_name(weighing), row))
        })
        .collect();
    let real = |of: fn(&regard_nn::analysis::Row) -> f64| {
        Values::Reals(rows.iter().map(|(_, _, row)| of(row)).collect())
    };
    Columns::of(vec![
        ("model", texts(rows.iter().map(|(name, ..)| *name))),
        ("weights", texts(rows.iter().map(|(_, weights, _)| *weights))),
        ("layer", whole(rows.iter().map(|(.., row)| row.layer))),
        ("head", whole(rows.iter().map(|(.., row)| row.head))),
        ("measure", texts(rows.iter().map(|(.., row)| row.measure.name()))),
        ("mean", real(|row| row.mean)),
        ("low", real(|row| row.low)),
        ("high", real(|row| row.high)),
        ("n", Values::Whole(rows.iter().map(|(.., row)| row.count as i64).collect())),
    ])
}

/// Labels of heads with their evidence, a row each.
pub fn label_columns(labels: &[Label]) -> Columns {
    let real = |of: fn(&Label) -> f64| Values::Reals(labels.iter().map(of).collect());
    Columns::of(vec![
        ("layer", whole(labels.iter().map(|label| label.layer))),
        ("head", whole(labels.iter().map(|label| label.head))),
        ("label", texts(labels.iter().map(|label| label.rule.label))),
        ("measure", texts(labels.iter().map(|label| label.rule.measure.name()))),
        ("mean", real(|label| label.mean)),
        ("at_least", real(|label| label.rule.at_least)),
        ("untrained_largest", real(|label| label.untrained)),
        ("p_value", real(|label| label.p_value)),
    ])
}

/// Every measure of every head, trained and untrained, and the labels of heads that meet a rule.
#[pyfunction]
#[pyo3(signature = (model, given, kind, norms, options))]
pub fn heads(
    py: Python<'_>,
    model: &Model,
    given: Given,
    kind: Option<&str>,
    norms: bool,
    options: Options,
) -> PyResult<(Columns, Columns)> {
    let arguments = options.arguments(&given);
    work(py, move |_| {
        ensure!(
            model.opened.model.abilities().pictures().is_none(),
            "a model that reads pictures: use the command regard heads"
        );
        let opened = opened(model)?;
        let part = part(model, kind)?;
        all_heads(Subject { model: &*opened.model, part })?;
        let corpus = corpus(given, None)?;
        let tokenized = TokenizedCorpus::new(&corpus, opened.tokenizer()?, &*opened.model, &arguments)?;
        let size = tokenized.measure_size()?;
        let shown = match opened.model.abilities().reads {
            Reads::Source => {
                let inputs =
                    answers(opened, &tokenized, &arguments)?.into_iter().map(|answered| answered.input);
                let source = |input: &Tokens| input.source.as_deref().cloned();
                Texts::Held(match part {
                    Part::Reader => inputs.filter_map(|input| source(&input)).collect(),
                    _ => inputs.collect(),
                })
            }
            _ => Texts::Corpus(&tokenized, size),
        };
        let options = MeasureOptions { batch: arguments.batch as usize, seed: arguments.seed, norms };
        let fresh = opened.model.fresh(arguments.seed)?;
        let progress = StepProgress::new("measuring heads", if norms { 4 } else { 2 } * shown.count());
        let both = [("trained", &*opened.model), ("untrained", &*fresh)];
        let tables = both.map(|(name, model)| {
            Ok((name, measure(Subject { model, part }, &shown, Some(&tokenized), options, &progress)?))
        });
        let tables = tables.into_iter().collect::<Result<Vec<_>>>()?;
        let labels = label_heads(&tables[0].1[0].1, &tables[1].1[0].1, SIGNIFICANCE);
        Ok((measure_columns(&tables), label_columns(&labels)))
    })
}

/// The change of the loss without each head, and its gradient importance.
#[pyfunction]
#[pyo3(signature = (model, given, labels, kind, options))]
pub fn ablation(
    py: Python<'_>,
    model: &Model,
    given: Given,
    labels: Option<(Vec<String>, Vec<usize>)>,
    kind: Option<&str>,
    options: Options,
) -> PyResult<(f64, Columns)> {
    let arguments = options.arguments(&given);
    work(py, move |_| {
        ensure!(
            model.opened.model.abilities().pictures().is_none(),
            "a model that reads pictures: use the command regard ablate"
        );
        let opened = opened(model)?;
        let part = part(model, kind)?;
        let corpus = corpus(given, labels)?;
        let tokenized = TokenizedCorpus::new(&corpus, opened.tokenizer()?, &*opened.model, &arguments)?;
        tokenized.measure_size()?;
        let data = EvaluationBatches::target_text(opened, &corpus, &tokenized, &arguments)?;
        let fresh = opened.model.fresh(arguments.seed)?;
        let both = [("trained", &*opened.model), ("untrained", &*fresh)];
        let heads = all_heads(Subject { model: &*opened.model, part })?.len();
        let progress = StepProgress::new(format!("{heads} heads"), (2 * heads * data.batches.len()) as u64);
        let resampling = Resampling::new(arguments.seed);
        let mut rows: Vec<(&str, usize, usize, &str, String, Interval)> = Vec::new();
        let mut loss = f64::NAN;
        for (name, model) in both {
            let found = data.with_kinds(|kinds| {
                ablate_with_progress(Subject { model, part }, data.iter(), kinds, &resampling, &|| {
                    progress.step();
                })
            })?;
            if name == "trained" {
                loss = found.loss.all.mean;
            }
            for effect in &found.heads {
                let (layer, head) = (effect.head.layer, effect.head.head);
                for (how, change) in [("zeroed", &effect.zeroed), ("averaged", &effect.averaged)] {
                    rows.push((name, layer, head, how, "all".to_owned(), change.all));
                    for (kind, of_kind) in data.kinds.iter().zip(&change.by_kind) {
                        rows.extend(of_kind.map(|found| (name, layer, head, how, kind.clone(), found)));
                    }
                }
                rows.push((name, layer, head, "gradient-importance", "all".to_owned(), effect.importance));
            }
        }
        let real = |of: fn(&Interval) -> f64| Values::Reals(rows.iter().map(|row| of(&row.5)).collect());
        let table = Columns::of(vec![
            ("model", texts(rows.iter().map(|row| row.0))),
            ("layer", whole(rows.iter().map(|row| row.1))),
            ("head", whole(rows.iter().map(|row| row.2))),
            ("measure", texts(rows.iter().map(|row| row.3))),
            ("kind", texts(rows.iter().map(|row| row.4.as_str()))),
            ("value", real(|found| found.mean)),
            ("low", real(|found| found.low)),
            ("high", real(|found| found.high)),
            ("n", Values::Whole(rows.iter().map(|row| row.5.count as i64).collect())),
        ]);
        Ok((loss, table))
    })
}

/// What each method says of each token of one text, and the answer in words.
#[pyfunction]
#[pyo3(signature = (model, text, answer, flow_limit))]
pub fn influence(
    py: Python<'_>,
    model: &Model,
    text: &str,
    answer: Option<&str>,
    flow_limit: usize,
) -> PyResult<(String, Columns)> {
    work(py, move |_| {
        let opened = opened(model)?;
        let options = Options { limit: 0, length: None, batch: 1, seed: 0 };
        let given = Given::Texts(vec![text.to_owned()]);
        let arguments = options.arguments(&given);
        let corpus = corpus(given, None)?;
        let mut tokenized = TokenizedCorpus::new(&corpus, opened.tokenizer()?, &*opened.model, &arguments)?;
        // One text is read whole.
        tokenized.length = opened.model.abilities().context.unwrap_or(usize::MAX);
        let targeted = target_text(opened, &tokenized, text, (answer, 0))
            .map_err(|error| anyhow!("{}", format!("{error:#}").trim_start_matches("--")))?;
        let (blank, _) = blank(opened);
        let yardstick = (blank, Quantity::Logit);
        let passes = targeted.tokens.total_len().div_ceil(OCCLUDED) + Method::ALL.len();
        let progress = StepProgress::new("influence", passes as u64);
        let step = || progress.step();
        let changes =
            occlusion_with_progress(&*opened.model, &targeted.tokens, targeted.target, yardstick, &step)?;
        let mut rows: Vec<(usize, String, &str, f64)> = Vec::new();
        for (place, change) in changes.iter().enumerate() {
            rows.extend(change.map(|change| (place, targeted.piece(place).to_owned(), "blank-out", change)));
        }
        for method in Method::ALL {
            if method == Method::Flow && targeted.tokens.total_len() > flow_limit {
                continue;
            }
            let values = attribute(&*opened.model, &targeted.tokens, targeted.target, method, flow_limit)?;
            for (place, value) in values.into_iter().enumerate().filter(|(_, value)| value.is_finite()) {
                rows.push((place, targeted.piece(place).to_owned(), method.name(), value));
            }
            progress.step();
        }
        let table = Columns::of(vec![
            ("place", whole(rows.iter().map(|row| row.0))),
            ("token", texts(rows.iter().map(|row| row.1.as_str()))),
            ("method", texts(rows.iter().map(|row| row.2))),
            ("value", Values::Reals(rows.iter().map(|row| row.3).collect())),
        ]);
        Ok((targeted.answer, table))
    })
}
