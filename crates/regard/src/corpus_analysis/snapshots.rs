//! Every measure of every head against the training step.

use super::heads::{MeasureOptions, Tables, fields, measure, weights_name};
use super::syntax::{self, FEWEST};
use super::texts::Texts;
use super::{Output, columns, name};
use crate::compute::Placement;
use crate::corpus::{Corpus, CorpusArguments, TokenizedCorpus};
use crate::figure::{Axis, Chart, Picture, Series};
use crate::model;
use crate::progress::StepProgress;
use crate::run::RunFolder;
use crate::terminal::remark;
use anyhow::{Result, bail};
use regard_nn::analysis::dependencies::Matches;
use regard_nn::analysis::{Head, Measure, Table, all_heads};
use std::path::Path;

/// The heads that are drawn with a line of their own: those that are strongest in the end.
const DRAWN: usize = 4;
/// The relations that are drawn: the most frequent.
const RELATIONS: usize = 5;

/// Measures at each step.
pub struct History {
    steps: Vec<Moment>,
}

/// The measures of a snapshot.
struct Moment {
    step: u64,
    tables: Tables,
    /// Its matches with syntax, if trees are known.
    syntax: Option<Matches>,
}

impl Moment {
    /// The measures by attention itself.
    fn table(&self) -> &Table {
        &self.tables[0].1
    }
}

/// The steps of which a run kept the whole model.
pub fn steps(run: &Path) -> Result<Vec<u64>> {
    let steps = RunFolder::snapshots(run);
    if steps.is_empty() {
        bail!(
            "{} kept no snapshots; train with, say, --set run.snapshots=[0,100,200,400,800]",
            run.display()
        );
    }
    Ok(steps)
}

impl History {
    /// Measures every snapshot of a run over the same texts, and the same trees if they are known.
    pub fn measure(
        run: &Path,
        (corpus, trees): (&Corpus, &Corpus),
        arguments: &CorpusArguments,
        options: MeasureOptions,
        placement: Placement,
    ) -> Result<Self> {
        let steps = steps(run)?;
        let mut found = Vec::with_capacity(steps.len());
        let mut progress = None;
        for &step in &steps {
            let folder = RunFolder::snapshot(run, step);
            let opened = model::open_on(&folder.display().to_string(), placement)?;
            let tokenized = TokenizedCorpus::new(corpus, opened.tokenizer()?, &*opened.model, arguments)?;
            let size = tokenized.measure_size()?;
            let progress = match &mut progress {
                Some(progress) => progress,
                None => {
                    let heads = all_heads(&*opened.model)?.len();
                    remark(format!("{} snapshots, {heads} heads; {size}", steps.len()));
                    let passes = if options.norms { 2 } else { 1 };
                    let sentences = trees.parsed(tokenized.limit).map_or(0, |trees| trees.count() as u64);
                    progress.insert(StepProgress::new(
                        format!("{} snapshots", steps.len()),
                        (passes * size.texts + sentences) * steps.len() as u64,
                    ))
                }
            };
            let texts = Texts::Corpus(&tokenized, size);
            let tables = measure((&*opened.model).into(), &texts, Some(&tokenized), options, progress)?;
            let syntax = match trees.parsed(tokenized.limit) {
                Some(_) => Some(syntax::matches(&*opened.model, &tokenized, trees, options, progress)?),
                None => None,
            };
            found.push(Moment { step, tables, syntax });
        }
        Ok(Self { steps: found })
    }

    /// Writes `snapshots.csv` and a figure for each measure.
    pub fn write(&self, output: &Output) -> Result<()> {
        let rows = self.steps.iter().flat_map(|moment| {
            moment.tables.iter().flat_map(move |(weighing, table)| {
                let front = move || vec![moment.step.to_string(), weights_name(*weighing).to_owned()];
                table.rows.iter().map(move |row| [front(), fields(row)].concat())
            })
        });
        let header = ["step", "weights", "layer", "head", "measure", "mean", "low", "high", "n"];
        output.csv("snapshots", &header, rows)?;
        if self.steps.iter().any(|moment| moment.syntax.is_some()) {
            let all = self.steps.iter().filter_map(|moment| Some((moment.step, moment.syntax.as_ref()?)));
            let rows =
                all.flat_map(|(step, matches)| syntax::rows(&step.to_string(), matches).collect::<Vec<_>>());
            output.csv("snapshots-syntax", &syntax::header("step"), rows)?;
            output.picture("steps-syntax", &self.syntax_picture())?;
        }
        for &measure in Measure::ALL {
            if self.steps.iter().any(|moment| moment.table().of(measure).next().is_some()) {
                output.picture(&format!("steps-{}", measure.name()), &self.picture(measure))?;
            }
        }
        Ok(())
    }

    /// The heads that have most of a measure in the end.
    fn strongest(&self, measure: Measure) -> Vec<Head> {
        let last =
            self.steps.last().map(|last| last.table().of(measure).collect::<Vec<_>>()).unwrap_or_default();
        let mut rows = last;
        rows.sort_by(|a, b| b.mean.total_cmp(&a.mean));
        rows.into_iter().take(DRAWN).map(|row| Head { layer: row.layer, head: row.head }).collect()
    }

    fn picture(&self, measure: Measure) -> Picture {
        let mut chart = Chart::new(Axis::linear("training step"), Axis::linear(measure.name()).from_zero());
        for head in self.strongest(measure) {
            let points = self.steps.iter().filter_map(|moment| {
                let row = moment.table().find(head.layer, head.head, measure)?;
                Some((moment.step as f64, row.mean, row.low, row.high))
            });
            chart = chart.series(Series::new(format!("head {}", name(head))).intervals(points).band());
        }
        let middle = self.steps.iter().filter_map(|moment| {
            let mut means: Vec<f64> = moment.table().of(measure).map(|row| row.mean).collect();
            means.sort_by(f64::total_cmp);
            Some((moment.step as f64, regard_nn::analysis::statistics::quantile(&means, 0.5)?))
        });
        chart = chart.series(Series::new("median of all heads").points(middle).fit());
        Picture::new(format!("“{}” while the model learns", measure.name()))
            .subtitle(measure.description())
            .note("The heads that are strongest at the last step, with 95 % intervals from resampled texts.")
            .panel(chart)
    }

    /// The most frequent relations: how well the best head of each step follows them.
    fn syntax_picture(&self) -> Picture {
        let mut chart = Chart::new(
            Axis::linear("training step"),
            Axis::linear("share of words whose partner gets the largest weight").percent().from_zero(),
        );
        let last = self.steps.last().and_then(|last| last.syntax.as_ref());
        let mut relations: Vec<(&str, u64)> = last.map_or_else(Vec::new, |matches| {
            let of = |relation| Some((relation, matches.best_head(relation, FEWEST)?.pairs));
            matches.relations().into_iter().filter_map(of).collect()
        });
        relations.sort_by_key(|(_, pairs)| std::cmp::Reverse(*pairs));
        for (relation, _) in relations.into_iter().take(RELATIONS) {
            let points = self.steps.iter().filter_map(|moment| {
                let best = moment.syntax.as_ref()?.best_head(relation, FEWEST)?.interval();
                Some((moment.step as f64, best.mean, best.low, best.high))
            });
            chart = chart.series(Series::new(relation).intervals(points).band());
        }
        Picture::new("How well heads follow syntax while the model learns")
            .subtitle("The best head of each step, for the most frequent relations")
            .note("95 % intervals from resampled sentences.")
            .panel(chart)
    }

    /// Prints the strongest head of each measure, at the first and at the last step.
    pub fn show(&self) {
        let (Some(before), Some(after)) = (self.steps.first(), self.steps.last()) else {
            return;
        };
        let (first, last) = (before.step, after.step);
        let header =
            ["measure".to_owned(), "head".to_owned(), format!("step {first}"), format!("step {last}")];
        let mut rows = vec![header.to_vec()];
        for &measure in Measure::ALL {
            for head in self.strongest(measure).into_iter().take(1) {
                let cell = |table: &Table| {
                    let row = table.find(head.layer, head.head, measure);
                    row.map(|row| super::interval(row.mean, row.low, row.high)).unwrap_or_default()
                };
                rows.push(vec![
                    measure.name().to_owned(),
                    name(head),
                    cell(before.table()),
                    cell(after.table()),
                ]);
            }
        }
        columns(&rows);
    }
}
