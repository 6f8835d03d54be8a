//! The report: a lesson on attention from raw text to a trained transformer, and after it every claim with its verdict, on one page that
//! needs nothing else.

// A page is short pieces of text put together; that it reads well matters more than one allocation a piece.
#![allow(clippy::format_collect)]

mod article;
mod audit;
mod diagrams;
mod html;
mod inside;
mod listing;
mod math;
mod page;
mod references;
mod results;
mod sections;
mod summary;
mod terms;
mod whole_gpt;
mod worked;

pub use results::Results;

use crate::experiment::ledger::Ledger;
use crate::experiment::{Division, Progress, Setup, Share, Store, report_share};
use crate::experiments::EXPERIMENTS;
use anyhow::Result;
use article::Article;
use inside::Inside;
use regard_nn::data::file::write_whole;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// Runs all experiments and writes the page with its tables and figures to a folder. Returns what was found.
pub fn write(setup: Setup, out: &Path, division: &Division) -> Result<Results<'static>> {
    let started = Instant::now();
    let store = Store::new(out)?;
    let names: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
    division.collect(&store, &names)?;
    let planned = EXPERIMENTS.iter().map(|experiment| experiment.expected(setup.size)).sum();
    let progress = Progress::new(planned);
    let mut results = Results::beside(Ledger::shipped()?);
    for experiment in EXPERIMENTS {
        results.add(experiment, experiment.conduct(setup, out, &store, &progress)?);
    }
    progress.finish();
    division.report_computed(&store);
    let about = page::About { setup, seconds: started.elapsed().as_secs_f64(), resumed: store.resumed() };
    let inside = Inside::new(&results)?;
    let page = compose(&results, &inside, &about)?;
    write_whole(&out.join(inside::FILE), |file| file.write_all(inside.page().as_bytes()))?;
    write_whole(&out.join("index.html"), |file| file.write_all(page.as_bytes()))?;
    Ok(results)
}

/// Computes one of several shares of the parts of all experiments, and writes no page.
pub fn share(setup: Setup, out: &Path, share: Share) -> Result<()> {
    let store = Store::new(out)?;
    let planned: f64 = EXPERIMENTS.iter().map(|experiment| experiment.expected(setup.size)).sum();
    let progress = Progress::new(planned / share.of() as f64);
    let mut missing = 0;
    for experiment in EXPERIMENTS {
        missing += experiment.conduct_share(setup, &store, &progress, share)?;
    }
    progress.finish();
    report_share(share, &store, missing);
    Ok(())
}

/// The page.
fn compose(results: &Results, inside: &Inside, about: &page::About) -> Result<String> {
    let mut article = Article::new(results, inside);
    sections::write(&mut article)?;
    page::page(article, about)
}
