//! What an experiment found, and the files that it leaves.

use super::facts::{Fact, Key};
use super::measurements::{Measurements, write_csv};
use super::table::{Condition, Table};
use super::verdict::Verdict;
use super::{Experiment, Lab, Setup};
use crate::figure::Picture;
use anyhow::{Context as _, Result};
use regard_nn::data::file::write_whole;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// A verdict about the files in a folder.
pub type ReadsBack = fn(&Path, &Findings) -> Verdict;

/// Everything that an experiment found.
#[derive(Default)]
pub struct Findings {
    /// Every single measurement.
    pub measurements: Measurements,
    /// A conclusion for each of its claims.
    pub verdicts: Vec<Verdict>,
    /// Pictures, in the order in which to show them.
    pub figures: Vec<Figure>,
    /// Numbers by name, for the text of the report.
    pub facts: BTreeMap<String, f64>,
    /// Words by name, for the text of the report: examples, names, lists.
    pub words: BTreeMap<String, String>,
    /// More tables, each a file of its own.
    pub tables: Vec<Listing>,
    /// How its models were trained, as TOML, if it trained any.
    pub trainings: Option<String>,
    /// The settings of its measurements by name, at every size.
    pub settings: BTreeMap<&'static str, String>,
    /// What judges the tables and figures after they were written, for a claim about them.
    pub reads_back: Option<ReadsBack>,
}

/// A picture with what it shows.
pub struct Figure {
    /// The name of its files, without the suffix.
    pub name: String,
    /// What it shows, in a sentence or two.
    pub caption: String,
    /// The picture.
    pub picture: Picture,
}

/// A further table, with a name.
pub struct Listing {
    /// The name of its file, without the suffix.
    pub name: String,
    /// The columns.
    pub header: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Findings {
    /// Adds a picture.
    pub fn figure(&mut self, name: impl Into<String>, caption: impl Into<String>, picture: Picture) {
        self.figures.push(Figure { name: name.into(), caption: caption.into(), picture });
    }

    /// Adds a number for the text of the report.
    pub fn fact(&mut self, key: impl Into<Key>, value: f64) {
        self.facts.insert(key.into().name, value);
    }

    /// Adds a number for each of several things.
    pub fn facts<A: Copy>(
        &mut self,
        fact: Fact<A>,
        about: impl IntoIterator<Item = A>,
        value: impl Fn(A) -> f64,
    ) {
        about.into_iter().for_each(|one| self.fact(fact.of(one), value(one)));
    }

    /// Adds words for the text of the report.
    pub fn word(&mut self, key: impl Into<Key>, words: impl Into<String>) {
        self.words.insert(key.into().name, words.into());
    }

    /// Adds the measurements, when everything was read from them. Fails if something was read that was never measured.
    pub fn finish<C: Condition>(mut self, lab: &Lab, table: Table<C>) -> Result<Self> {
        self.measurements = table
            .measured(lab.experiment.conditions)
            .context("the experiment uses something that it did not measure")?;
        Ok(self)
    }

    /// Adds a table.
    pub fn table(&mut self, name: impl Into<String>, header: &[&str], rows: Vec<Vec<String>>) {
        let header = header.iter().map(ToString::to_string).collect();
        self.tables.push(Listing { name: name.into(), header, rows });
    }

    /// Writes measurements, summary, tables, figures, `training.toml` and `verdict.json` to a folder.
    pub fn write(&mut self, folder: &Path, about: &About) -> Result<()> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        self.measurements.write(&folder.join("measurements.csv"))?;
        self.measurements.write_summary(&folder.join("summary.csv"))?;
        for Listing { name, header, rows } in &self.tables {
            write_csv(&folder.join(format!("{name}.csv")), header.clone(), rows.iter().cloned())?;
        }
        for Figure { name, picture, .. } in &self.figures {
            for suffix in ["svg", "png"] {
                picture.write(&folder.join(format!("{name}.{suffix}")))?;
            }
        }
        if let Some(judge) = self.reads_back {
            let verdict = judge(folder, self);
            self.verdicts.push(verdict);
        }
        if let Some(trainings) = &self.trainings {
            write_whole(&folder.join("training.toml"), |file| file.write_all(trainings.as_bytes()))?;
        }
        let Experiment { name, question, prediction, design, changed, .. } = about.experiment;
        let Setup { size, seeds, data, vectors, develop, placement } = about.setup;
        let verdict = json!({
            "experiment": name,
            "question": question,
            "prediction": prediction,
            "design": design,
            "freeze_sha256": super::frozen::hash(),
            "changed_after_freeze": changed,
            "development_seeds": develop,
            "size": size.name(),
            "seeds_asked_for": seeds,
            "seeds": self.measurements.seeds(),
            "data": data,
            "vectors": vectors,
            "version": env!("CARGO_PKG_VERSION"),
            "program_sha256": about.program,
            "date": about.date,
            "machine": crate::machine::describe(),
            "device": placement.identity(),
            "precision": placement.precision.name(),
            "seconds": about.seconds,
            "facts": self.facts,
            "words": self.words,
            "verdicts": self.verdicts,
        });
        let text = format!("{verdict:#}\n");
        Ok(write_whole(&folder.join("verdict.json"), |file| file.write_all(text.as_bytes()))?)
    }
}

/// Under what circumstances findings were made.
pub struct About<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// What it was run on.
    pub setup: Setup<'a>,
    /// How long it took; parts that were finished before count nothing.
    pub seconds: f64,
    /// When it was finished.
    pub date: String,
    /// The hash of the program that ran it.
    pub program: &'a str,
}
