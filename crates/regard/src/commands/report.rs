//! `regard report`: the whole story, measured.

use crate::compute::Compute;
use crate::experiment::claims::CLAIMS;
use crate::experiment::{Division, Setup, Size, ledger};
use crate::{browser, report, terminal};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// Run all experiments and write the report: from raw text to a trained transformer, with every claim put to the test.
///
/// Writes `index.html`, a self-contained page, with tables and figures beside it. Finished parts and trained models are kept in the
/// folder: the same command continues where it stopped.
#[derive(Args)]
#[command(after_help = "Examples:
  regard report --open
  regard report --size standard -o results
  regard report --vectors glove.6B.50d.txt
  regard report --share 2/4 -o part2          every fourth part, on one of four machines
  regard report --merge part1 part2 part3 part4 -o results")]
pub struct Report {
    /// The folder to write
    #[arg(long, short, default_value = "outputs")]
    out: PathBuf,
    /// How large to make the experiments: quick takes minutes, standard up to an hour; full is for `experiment` alone
    #[arg(long, value_enum, default_value = "quick")]
    size: Size,
    /// How many seeds to draw (default: as many as each experiment needs)
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: Option<u64>,
    /// Pre-trained word vectors, as GloVe and fastText publish them
    #[arg(long, value_name = "FILE")]
    vectors: Option<PathBuf>,
    /// Add the verdicts to the ledger in this folder (verdicts.csv, facts.csv); the one that ships is in crates/regard/records
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// Show the page in the browser
    #[arg(long, conflicts_with = "share")]
    open: bool,
    #[command(flatten)]
    division: Division,
    #[command(flatten)]
    compute: Compute,
}

impl Report {
    /// Runs the command.
    pub fn run(self) -> Result<()> {
        if self.size >= Size::Full {
            crate::bad_usage!(
                "at full and large size each experiment takes data of its own: regard experiment NAME --size full --data …; the report \
                 comes in quick and standard"
            );
        }
        let setup = Setup {
            size: self.size,
            seeds: self.seeds,
            data: None,
            vectors: self.vectors.as_deref(),
            placement: self.compute.placement()?,
            develop: false,
        };
        if let (Some(_), Some(obstacle)) = (&self.record, ledger::obstacle(&setup)) {
            crate::bad_usage!("this run cannot be recorded: {obstacle}");
        }
        if let Some(share) = self.division.share {
            return report::share(setup, &self.out, share);
        }
        let results = report::write(setup, &self.out, &self.division)?;
        if let Some(folder) = &self.record {
            for (experiment, findings) in results.iter() {
                ledger::record(folder, experiment, &setup, findings)?;
            }
        }
        for claim in CLAIMS {
            let (experiment, verdict) = results.verdict(claim.id)?;
            let outcome = verdict.outcome.name();
            terminal::line(format!("{:<4}{outcome:<27}{:<22}{}", claim.id, experiment, claim.statement));
        }
        terminal::line(format!("\n{}", results.counts()?));
        let page = self.out.join("index.html");
        terminal::line(format!("the report: {}", page.display()));
        if self.open {
            browser::open(&page.display().to_string());
        }
        Ok(())
    }
}
