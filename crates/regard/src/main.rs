//! `regard`: a laboratory for attention.

use clap::Parser;
use regard::commands::Arguments;
use regard::usage::{Stopped, Usage};
use std::process::ExitCode;

fn main() -> ExitCode {
    match Arguments::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Who pressed Ctrl-C knows in the middle of what, and that it is no failure; 130 is what shells expect of it.
            let stopped = error.is::<Stopped>();
            let said = if stopped { Stopped.to_string() } else { format!("error: {error:#}") };
            #[allow(clippy::print_stderr)] // the one place where the program reports failure
            {
                eprintln!("{said}");
            }
            ExitCode::from(if stopped {
                130
            } else if error.is::<Usage>() {
                2
            } else {
                1
            })
        }
    }
}
