//! `regard`: a laboratory for attention.

use clap::Parser;
use regard::commands::Arguments;
use regard::usage::{Stopped, Usage};
use std::process::ExitCode;

fn main() -> ExitCode {
    match Arguments::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The user knows what was interrupted, and that it is no failure; 130 is what shells expect of Ctrl-C.
            let stopped = error.downcast_ref::<Stopped>();
            let said = stopped.map_or_else(|| format!("error: {error:#}"), Stopped::to_string);
            #[allow(clippy::print_stderr)] // the one place where the program reports failure
            {
                eprintln!("{said}");
            }
            ExitCode::from(if stopped.is_some() {
                130
            } else if error.is::<Usage>() {
                2
            } else {
                1
            })
        }
    }
}
