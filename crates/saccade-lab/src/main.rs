//! `saccade`: a laboratory for attention.

use clap::Parser;
use saccade_lab::commands::Arguments;
use saccade_lab::usage::Usage;
use std::process::ExitCode;

fn main() -> ExitCode {
    match Arguments::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[allow(clippy::print_stderr)] // the one place where the program reports failure
            {
                eprintln!("error: {error:#}");
            }
            if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
