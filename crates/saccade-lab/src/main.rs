//! `saccade`: a laboratory for attention.

use saccade_lab::commands;
use saccade_lab::usage::Usage;

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
    Ablate(commands::ablate::Ablate),
    Bench(commands::bench::Bench),
    Data(commands::data::Data),
    #[command(name = "eval")]
    Evaluate(commands::evaluate::Evaluate),
    Experiment(commands::experiment::Experiment),
    Embeddings(commands::embeddings::Embeddings),
    Fill(commands::fill::Fill),
    Heads(commands::heads::Heads),
    Predict(commands::predict::Predict),
    Report(commands::report::Report),
    Tokens(commands::tokens::Tokens),
    Train(commands::train::Train),
    Generate(commands::generate::Generate),
    Import(commands::import::Import),
    Influence(commands::influence::Influence),
    Pull(commands::pull::Pull),
    Serve(commands::serve::Serve),
    Trace(commands::trace::Trace),
    Verify(commands::verify::Verify),
    View(commands::view::View),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Ablate(ablate) => ablate.run(),
        Command::Bench(bench) => bench.run(),
        Command::Data(data) => data.run(),
        Command::Evaluate(evaluate) => evaluate.run(),
        Command::Experiment(experiment) => experiment.run(),
        Command::Embeddings(embeddings) => embeddings.run(),
        Command::Fill(fill) => fill.run(),
        Command::Heads(heads) => heads.run(),
        Command::Predict(predict) => predict.run(),
        Command::Report(report) => report.run(),
        Command::Tokens(tokens) => tokens.run(),
        Command::Train(train) => train.run(),
        Command::Generate(generate) => generate.run(),
        Command::Import(import) => import.run(),
        Command::Influence(influence) => influence.run(),
        Command::Pull(pull) => pull.run(),
        Command::Serve(serve) => serve.run(),
        Command::Trace(trace) => trace.run(),
        Command::Verify(verify) => verify.run(),
        Command::View(view) => view.run(),
    };
    match outcome {
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
