//! `saccade`: a laboratory for attention.

use saccade_lab::commands;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A laboratory for attention: build it, train it, test what is said about it, look inside.
#[derive(Parser)]
#[command(version, about, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(commands::bench::Bench),
    Generate(commands::generate::Generate),
    Import(commands::import::Import),
    Pull(commands::pull::Pull),
    Trace(commands::trace::Trace),
    Verify(commands::verify::Verify),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Bench(bench) => bench.run(),
        Command::Generate(generate) => generate.run(),
        Command::Import(import) => import.run(),
        Command::Pull(pull) => pull.run(),
        Command::Trace(trace) => trace.run(),
        Command::Verify(verify) => verify.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[allow(clippy::print_stderr)] // the one place where the program reports failure
            {
                eprintln!("error: {error:#}");
            }
            if error.is::<commands::Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
