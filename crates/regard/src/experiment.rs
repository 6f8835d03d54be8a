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
pub mod frozen;
mod lab;
pub mod ledger;
mod measurements;
mod progress;
mod share;
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
pub use lab::{JUDGED_SEEDS, Lab};
pub use measurements::{Measurements, Summary, write_csv};
pub use progress::Progress;
pub(crate) use share::report as report_share;
pub use share::{Division, Pending, Share};
pub use sizes::{SMALL_MODELS, Sizes};
pub use store::Store;
pub use sweep::{Run, Sweep};
pub(crate) use table::named;
pub use table::{Condition, Rows, Table};
pub use training::{Line, Trained};
pub use verdict::{Bound, Check, Outcome, Part, Published, Verdict, those_that_apply, true_minus};

use crate::compute::Placement;
use crate::run::RunConfig;
use anyhow::{Context as _, Result};
use clap::ValueEnum;
use std::path::Path;
use std::time::{Instant, SystemTime};

/// How large an experiment is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
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
    /// Models of 20 to 200 million parameters, for the experiments that need them: hours on a GPU, weeks on two cores
    Large,
}

impl Size {
    /// Its name at the command line.
    pub fn name(self) -> &'static str {
        match self {
            Size::Smoke => "smoke",
            Size::Quick => "quick",
            Size::Standard => "standard",
            Size::Full => "full",
            Size::Large => "large",
        }
    }

    /// The size of a name.
    pub fn named(name: &str) -> Option<Self> {
        [Size::Smoke, Size::Quick, Size::Standard, Size::Full, Size::Large]
            .into_iter()
            .find(|size| size.name() == name)
    }
}

/// What an experiment is run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// Numbers that are drawn at random: no text at all.
    Drawn,
    /// The built-in text alone.
    BuiltIn,
    /// The built-in text, or real text: what `--data` must be at full size.
    Text(&'static str),
}

impl Data {
    /// What `--data` must be, if it takes any.
    pub fn wanted(self) -> Option<&'static str> {
        match self {
            Data::Text(wanted) => Some(wanted),
            Data::Drawn | Data::BuiltIn => None,
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
    /// Whether to use the seeds that experiments are developed with, not those that are kept for verdicts.
    pub develop: bool,
}

impl Setup<'_> {
    /// A size on the built-in text, as it is judged.
    pub const fn of(size: Size) -> Self {
        Self { size, seeds: None, data: None, vectors: None, develop: false, placement: Placement::CPU }
    }
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
    /// What of the prediction, the measure, the bounds or the settings was changed after the [freeze](frozen), if anything: the
    /// reader may trust the verdict less for it.
    pub changed: Option<&'static str>,
    /// What it is run on.
    pub data: Data,
    /// What its measurements are made under: the names of the condition columns.
    pub conditions: &'static [&'static str],
    /// How many seeds it draws.
    pub seeds: Sizes<u64>,
    /// How long it should take on two cores, in seconds.
    pub seconds: Sizes<f64>,
    /// How its models are trained at a size, with the first seed: what the freeze lists of them.
    pub trains: fn(&Lab) -> Result<Vec<RunConfig>>,
    /// The work itself.
    pub run: fn(&Lab) -> Result<Findings>,
}

impl Experiment {
    /// Whether it has a size of its own of this name: only some have a large one.
    pub fn has(&self, size: Size) -> bool {
        size != Size::Large || self.seconds.names_large()
    }

    /// How long it should take, in seconds.
    pub fn expected(&self, size: Size) -> f64 {
        self.seconds.at(size)
    }

    /// Computes a share of its parts into a store. How many parts are left to other shares, if what comes next needs them.
    pub fn conduct_share(
        &self,
        setup: Setup,
        store: &Store,
        progress: &Progress,
        share: Share,
    ) -> Result<usize> {
        progress.begin(self.name, self.expected(setup.size) / share.of() as f64);
        let lab = Lab::new(self, setup, store, progress).sharing(share);
        match (self.run)(&lab) {
            Ok(_) => Ok(0),
            Err(error) => match error.downcast_ref::<Pending>() {
                Some(pending) => Ok(pending.parts),
                None => Err(error.context(format!("the experiment {} failed", self.name))),
            },
        }
    }

    /// Runs it, writes its files to its folder in `out`, and returns what it found.
    pub fn conduct(&self, setup: Setup, out: &Path, store: &Store, progress: &Progress) -> Result<Findings> {
        let started = Instant::now();
        progress.begin(self.name, self.expected(setup.size));
        let lab = Lab::new(self, setup, store, progress);
        let mut findings =
            (self.run)(&lab).with_context(|| format!("the experiment {} failed", self.name))?;
        findings.trainings = lab.trainings.to_toml()?;
        findings.settings = lab.settings.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let builtin = setup.data.is_none() && self.data != Data::Drawn;
        findings.verdicts.iter_mut().for_each(|verdict| verdict.builtin_text_only |= builtin);
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
