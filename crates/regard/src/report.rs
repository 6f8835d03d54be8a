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
use crate::experiment::{Progress, Setup, Store};
use crate::experiments::EXPERIMENTS;
use anyhow::Result;
use article::Article;
use inside::Inside;
use regard_nn::data::file::write_whole;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// Runs all experiments and writes the page with its tables and figures to a folder. Returns what was found.
pub fn write(setup: Setup, out: &Path) -> Result<Results<'static>> {
    let started = Instant::now();
    let store = Store::new(out)?;
    let planned = EXPERIMENTS.iter().map(|experiment| experiment.expected(setup.size)).sum();
    let progress = Progress::new(planned);
    let mut results = Results::beside(Ledger::shipped()?);
    for experiment in EXPERIMENTS {
        results.add(experiment, experiment.conduct(setup, out, &store, &progress)?);
    }
    progress.finish();
    let about = page::About { setup, seconds: started.elapsed().as_secs_f64(), resumed: store.resumed() };
    let inside = Inside::new(&results)?;
    let page = compose(&results, &inside, &about)?;
    write_whole(&out.join(inside::FILE), |file| file.write_all(inside.page().as_bytes()))?;
    write_whole(&out.join("index.html"), |file| file.write_all(page.as_bytes()))?;
    Ok(results)
}

/// The page.
fn compose(results: &Results, inside: &Inside, about: &page::About) -> Result<String> {
    let mut article = Article::new(results, inside);
    sections::write(&mut article)?;
    page::page(article, about)
}
