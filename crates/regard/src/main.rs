//! `regard`: a laboratory for attention.

use clap::Parser;
use regard::commands::Arguments;
use regard::error::{Interrupted, UsageError};
use regard::{environment, signals, terminal};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match environment::check().and_then(|()| arguments.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The user knows what was interrupted, and that it is no failure.
            let interrupted = error.downcast_ref::<Interrupted>();
            let message = interrupted.map_or_else(|| format!("error: {error:#}"), Interrupted::to_string);
            terminal::remark(message);
            ExitCode::from(if interrupted.is_some() {
                signals::exit_code()
            } else if error.is::<UsageError>() {
                2
            } else {
                1
            })
        }
    }
}
