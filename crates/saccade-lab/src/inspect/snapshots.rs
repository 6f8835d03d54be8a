//! Every measure of every head against the training step.

use super::heads::{Manner, fields, measure_by};
use super::{Output, columns, name};
use crate::corpus::{Corpus, CorpusArguments, Reading};
use crate::figure::{Axis, Chart, Picture, Series};
use crate::model;
use crate::run::RunFolder;
use crate::terminal::remark;
use crate::work::Work;
use anyhow::{Context as _, Result, bail};
use saccade::analysis::{Head, Measure, Table, Weighing, all_heads};
use std::path::Path;

/// The heads that are drawn with a line of their own: those that are strongest in the end.
const DRAWN: usize = 4;

/// Measures at each step.
pub struct History {
    steps: Vec<(u64, Table)>,
}

/// The steps of which a run kept the whole model.
pub fn steps(run: &Path) -> Result<Vec<u64>> {
    let folder = run.join("snapshots");
    let none = || {
        format!(
            "{} kept no snapshots; train with, say, --set run.snapshots=[0,100,200,400,800]",
            run.display()
        )
    };
    let entries = std::fs::read_dir(&folder).with_context(none)?;
    let step = |name: &str| name.strip_prefix("step-")?.parse::<u64>().ok();
    let mut steps: Vec<u64> = entries.filter_map(|entry| step(entry.ok()?.file_name().to_str()?)).collect();
    steps.retain(|&step| RunFolder::snapshot(run, step).join("config.json").is_file());
    steps.sort_unstable();
    if steps.is_empty() {
        bail!(none());
    }
    Ok(steps)
}

impl History {
    /// Measures every snapshot of a run over the same texts.
    pub fn measure(run: &Path, corpus: &Corpus, arguments: &CorpusArguments, manner: Manner) -> Result<Self> {
        let steps = steps(run)?;
        let mut found = Vec::with_capacity(steps.len());
        let mut work = None;
        for &step in &steps {
            let folder = RunFolder::snapshot(run, step);
            let opened = model::open(&folder.display().to_string())?;
            let reading = Reading::new(corpus, opened.tokenizer()?, &opened.model, arguments)?;
            let work = match &mut work {
                Some(work) => work,
                None => {
                    let survey = reading.survey()?;
                    let heads = all_heads(&opened.model)?.len();
                    remark(format!("{} snapshots, {heads} heads; {survey}", steps.len()));
                    work.insert(Work::new(
                        format!("{} snapshots", steps.len()),
                        survey.texts * steps.len() as u64,
                    ))
                }
            };
            found.push((step, measure_by(&opened.model, &reading, manner, Weighing::Attention, work)?));
        }
        Ok(Self { steps: found })
    }

    /// Writes `snapshots.csv` and a figure for each measure.
    pub fn write(&self, output: &Output) -> Result<()> {
        let rows = self.steps.iter().flat_map(|(step, table)| {
            table.rows.iter().map(move |row| [vec![step.to_string()], fields(row)].concat())
        });
        output.csv("snapshots", &["step", "layer", "head", "measure", "mean", "low", "high", "n"], rows)?;
        for &measure in Measure::ALL {
            if self.steps.iter().any(|(_, table)| table.of(measure).next().is_some()) {
                output.picture(&format!("steps-{}", measure.name()), &self.picture(measure))?;
            }
        }
        Ok(())
    }

    /// The heads that have most of a measure in the end.
    fn strongest(&self, measure: Measure) -> Vec<Head> {
        let last =
            self.steps.last().map(|(_, table)| table.of(measure).collect::<Vec<_>>()).unwrap_or_default();
        let mut rows = last;
        rows.sort_by(|a, b| b.mean.total_cmp(&a.mean));
        rows.into_iter().take(DRAWN).map(|row| Head { layer: row.layer, head: row.head }).collect()
    }

    fn picture(&self, measure: Measure) -> Picture {
        let mut chart = Chart::new(Axis::linear("training step"), Axis::linear(measure.name()).from_zero());
        for head in self.strongest(measure) {
            let points = self.steps.iter().filter_map(|(step, table)| {
                let row = table.find(head.layer, head.head, measure)?;
                Some((*step as f64, row.mean, row.low, row.high))
            });
            chart = chart.series(Series::new(format!("head {}", name(head))).intervals(points).band());
        }
        let middle = self.steps.iter().filter_map(|(step, table)| {
            let mut means: Vec<f64> = table.of(measure).map(|row| row.mean).collect();
            means.sort_by(f64::total_cmp);
            Some((*step as f64, saccade::analysis::statistics::quantile(&means, 0.5)?))
        });
        chart = chart.series(Series::new("median of all heads").points(middle).fit());
        Picture::new(format!("“{}” while the model learns", measure.name()))
            .subtitle(measure.description())
            .note("The heads that are strongest at the last step, with 95 % intervals from resampled texts.")
            .panel(chart)
    }

    /// Prints the strongest head of each measure, at the first and at the last step.
    pub fn show(&self) {
        let (Some((first, before)), Some((last, after))) = (self.steps.first(), self.steps.last()) else {
            return;
        };
        let header =
            ["measure".to_owned(), "head".to_owned(), format!("step {first}"), format!("step {last}")];
        let mut rows = vec![header.to_vec()];
        for &measure in Measure::ALL {
            for head in self.strongest(measure).into_iter().take(1) {
                let cell = |table: &Table| {
                    let row = table.find(head.layer, head.head, measure);
                    row.map(|row| super::interval(row.mean, row.low, row.high)).unwrap_or_default()
                };
                rows.push(vec![measure.name().to_owned(), name(head), cell(before), cell(after)]);
            }
        }
        columns(&rows);
    }
}
