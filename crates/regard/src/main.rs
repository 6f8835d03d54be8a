//! `regard`: a laboratory for attention.

use clap::Parser;
use regard::commands::Arguments;
use regard::error::{Interrupted, UsageError};
use std::process::ExitCode;

fn main() -> ExitCode {
    match Arguments::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The user knows what was interrupted, and that it is no failure; 130 is what shells expect of Ctrl-C.
            let interrupted = error.downcast_ref::<Interrupted>();
            let message = interrupted.map_or_else(|| format!("error: {error:#}"), Interrupted::to_string);
            #[allow(clippy::print_stderr)] // the one place where the program reports failure
            {
                eprintln!("{message}");
            }
            ExitCode::from(if interrupted.is_some() {
                130
            } else if error.is::<UsageError>() {
                2
            } else {
                1
            })
        }
    }
}
