//! The parts of the program `regard`, for programs that draw, measure or serve as it does.
//!
//! ```
//! use regard::figure::{ColourScale, HeatMap, Matrix, Picture, Theme};
//! use regard_nn::attention::{Scale, scaled_dot_product};
//! use regard_nn::tensor::Tensor;
//!
//! // The attention weights of three words, as a figure for a paper.
//! let words = ["the", "cat", "sat"].map(String::from).to_vec();
//! let x = Tensor::new(&[1.0, 0.0, 0.0, 2.0, 1.0, 1.0], [3, 2])?;
//! let (_, weights) = scaled_dot_product(&x, &x, &x, None, Scale::InverseRoot)?;
//! let map = HeatMap::new(Matrix::new(3, 3, weights.to_vec())?, ColourScale::sequential("weight")).words(words.clone(), words);
//! let svg = Picture::new("Attention weights").panel(map).to_svg(Theme::LIGHT);
//! assert!(svg.starts_with("<svg"));
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! - [`commands`]: one file for each subcommand. [`error`], [`progress`] and [`terminal`] report to the user;
//!   [`environment`] checks variables and [`signals`] handles requests to stop; [`ranks`] connects processes that train together.
//! - [`model`] finds the model that an argument names, [`corpus`] the texts; [`run`] is a training run and its folder.
//! - [`trace_file`] and [`input_tensors`]: files with the tensors of one forward pass.
//! - [`corpus_analysis`] measures heads, words and layers over a corpus; [`forward_pass`] computes what the page shows of one forward pass.
//! - [`figure`] draws every picture; [`server`] is the page, [`standalone`] the page as one file.
//! - [`fetch`] has all code that uses the network, [`cache`] finds what it downloaded.
//! - [`experiments`] has one file for each question, tested by the rules of [`experiment`]; [`report`] presents the results.

pub mod activation_cache;
pub mod browser;
pub mod cache;
pub mod chat;
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
pub mod ranks;
pub mod report;
pub mod run;
pub mod server;
pub mod signals;
pub mod standalone;
pub mod statistics;
pub mod temporary_folder;
pub mod terminal;
pub mod trace_file;

use error::{Elsewhere, Interrupted, UsageError};

/// Runs the program and returns its exit code: what `main` does, and the console script of the Python package.
pub fn run_program(arguments: commands::Arguments) -> u8 {
    let end = environment::check().and_then(|()| arguments.run());
    compute::report_fallbacks();
    let interrupted = end.as_ref().err().and_then(|error| error.downcast_ref::<Interrupted>());
    let elsewhere = end.as_ref().err().and_then(|error| error.downcast_ref::<Elsewhere>());
    let stopped = interrupted.is_some() || elsewhere.is_some_and(|elsewhere| elsewhere.stopped);
    match (&end, interrupted, elsewhere) {
        (Ok(()), ..) | (_, _, Some(_)) => {}
        // The user knows what was interrupted, and that it is no failure.
        (_, Some(interrupted), _) => terminal::remark(interrupted),
        (Err(error), ..) => terminal::remark(format!("error: {error:#}")),
    }
    if elsewhere.is_some() && !stopped {
        // The launcher ends all ranks once one has failed: rank 0 must come to say why.
        std::thread::sleep(std::time::Duration::from_secs(5));
    }
    if end.is_ok() || stopped {
        // After a failure the launcher ends the other ranks; it would be waiting for them here.
        ranks::leave();
    }
    match end {
        Ok(()) => 0,
        Err(_) if stopped => signals::exit_code(),
        Err(error) if error.is::<UsageError>() => 2,
        Err(_) => 1,
    }
}
