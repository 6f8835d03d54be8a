//! The parts of the program `regard`.
//!
//! - [`commands`]: one file for each subcommand. [`error`], [`progress`] and [`terminal`] report to the user;
//!   [`environment`] checks variables and [`signals`] handles requests to stop.
//! - [`model`] finds the model that an argument names, [`corpus`] the texts; [`run`] is a training run and its folder.
//! - [`trace_file`] and [`input_tensors`]: files with the tensors of one forward pass.
//! - [`corpus_analysis`] measures heads, words and layers over a corpus; [`forward_pass`] computes what the page shows of one forward pass.
//! - [`figure`] draws every picture; [`server`] is the page, [`standalone`] the page as one file.
//! - [`fetch`] has all code that uses the network, [`cache`] finds what it downloaded.
//! - [`experiments`] has one file for each question, tested by the rules of [`experiment`]; [`report`] presents the results.

pub mod browser;
pub mod cache;
pub mod classes;
pub mod commands;
pub mod compute;
pub mod corpus;
pub mod corpus_analysis;
pub mod data_summary;
pub mod environment;
pub mod error;
pub mod experiment;
pub mod experiments;
pub mod fetch;
pub mod figure;
pub mod forward_pass;
pub mod image;
pub mod input_tensors;
pub mod machine;
pub mod model;
pub mod progress;
pub mod report;
pub mod run;
pub mod server;
pub mod signals;
pub mod standalone;
pub mod statistics;
pub mod temporary_folder;
pub mod terminal;
pub mod trace_file;

use error::{Interrupted, UsageError};

/// Runs the program and returns its exit code: what `main` does, and the console script of the Python package.
pub fn run_program(arguments: commands::Arguments) -> u8 {
    let result = environment::check().and_then(|()| arguments.run());
    compute::report_fallbacks();
    match result {
        Ok(()) => 0,
        Err(error) => {
            // The user knows what was interrupted, and that it is no failure.
            let interrupted = error.downcast_ref::<Interrupted>();
            terminal::remark(interrupted.map_or_else(|| format!("error: {error:#}"), Interrupted::to_string));
            if interrupted.is_some() {
                signals::exit_code()
            } else if error.is::<UsageError>() {
                2
            } else {
                1
            }
        }
    }
}
