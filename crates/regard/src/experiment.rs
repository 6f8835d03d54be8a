//! Experiments: a claim, a prediction, a measurement, a verdict.
//!
//! Each experiment is one file of [`crate::experiments`]. It states its question, its prediction and its design; a
//! [sweep](Lab::sweep) over conditions and seeds measures, in parts that run side by side and are kept, and gathers a [`Table`];
//! and from the table it makes [`Findings`]: figures, [facts](Fact) for the report, and a [`Verdict`] for each of its [claims]. A verdict compares an interval with a bound that was stated
//! beforehand; what was changed after results had been seen is [recorded](Experiment::changed).

pub mod charts;
pub mod claims;
mod facts;
mod findings;
mod lab;
mod measurements;
mod progress;
mod sizes;
mod store;
mod sweep;
mod table;
mod training;
mod trainings;
mod verdict;

pub(crate) use facts::facts;
pub use facts::{Fact, Key};
pub use findings::{About, Figure, Findings, Listing};
pub use lab::Lab;
pub use measurements::{Measurements, Summary, write_csv};
pub use progress::Progress;
pub use sizes::{SMALL_MODELS, Sizes};
pub use store::Store;
pub use sweep::{Run, Sweep};
pub(crate) use table::named;
pub use table::{Condition, Rows, Table};
pub use training::{Line, Trained};
pub use verdict::{Bound, Check, Outcome, Published, Verdict, those_that_apply, true_minus};

use crate::compute::Placement;
use anyhow::{Context as _, Result};
use clap::ValueEnum;
use std::path::Path;
use std::time::{Instant, SystemTime};

/// How large an experiment is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Size {
    /// Only to see that everything works: its verdicts mean nothing
    #[value(hide = true)]
    Smoke,
    /// The built-in corpus, small models: all experiments in some four minutes
    Quick,
    /// The same with more seeds and larger models: all in under an hour
    Standard,
    /// Real data (--data) and larger models, one experiment at a time: minutes to hours
    Full,
}

impl Size {
    /// Its name at the command line.
    pub fn name(self) -> &'static str {
        match self {
            Size::Smoke => "smoke",
            Size::Quick => "quick",
            Size::Standard => "standard",
            Size::Full => "full",
        }
    }
}

/// What an experiment is run on, and how large.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// How large to make it.
    pub size: Size,
    /// How many seeds to draw, if not as many as the experiment needs.
    pub seeds: Option<u64>,
    /// Real data to use instead of the built-in corpus.
    pub data: Option<&'a Path>,
    /// Pre-trained word vectors (GloVe or fastText, as text).
    pub vectors: Option<&'a Path>,
    /// Where models are trained and measured.
    pub placement: Placement,
}

/// A question put to the test.
pub struct Experiment {
    /// Its name at the command line and in file names.
    pub name: &'static str,
    /// The claims it tests, such as `["D3", "D4"]`.
    pub claims: &'static [&'static str],
    /// The question, in one sentence.
    pub question: &'static str,
    /// What should be seen if the claims are true. Written before anything is measured.
    pub prediction: &'static str,
    /// What is done to find out.
    pub design: &'static str,
    /// What of the measure, the bounds or the settings was changed after results had been seen, if anything: the reader may
    /// trust the verdict less for it.
    pub changed: Option<&'static str>,
    /// What `--data` must be at full size; nothing if it needs none.
    pub real_data: Option<&'static str>,
    /// What its measurements are made under: the names of the condition columns.
    pub conditions: &'static [&'static str],
    /// How many seeds it draws.
    pub seeds: Sizes<u64>,
    /// How long it should take on two cores, in seconds.
    pub seconds: Sizes<f64>,
    /// The work itself.
    pub run: fn(&Lab) -> Result<Findings>,
}

impl Experiment {
    /// How long it should take, in seconds.
    pub fn expected(&self, size: Size) -> f64 {
        self.seconds.at(size)
    }

    /// Runs it, writes its files to its folder in `out`, and returns what it found.
    pub fn conduct(&self, setup: Setup, out: &Path, store: &Store, progress: &Progress) -> Result<Findings> {
        let started = Instant::now();
        progress.begin(self.name, self.expected(setup.size));
        let lab = Lab::new(self, setup, store, progress);
        let mut findings =
            (self.run)(&lab).with_context(|| format!("the experiment {} failed", self.name))?;
        findings.trainings = lab.trainings.to_toml()?;
        let about = About {
            experiment: self,
            setup,
            seconds: started.elapsed().as_secs_f64(),
            date: httpdate::fmt_http_date(SystemTime::now()),
            program: store.program(),
        };
        findings.write(&out.join(self.name), &about)?;
        Ok(findings)
    }
}
