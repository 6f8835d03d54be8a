//! `regard`: a laboratory for attention.

use clap::Parser;
use regard::commands::Arguments;
use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(regard::run_program(Arguments::parse()))
}
