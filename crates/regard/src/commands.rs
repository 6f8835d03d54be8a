//! The command line: one file for each subcommand.

pub mod ablate;
pub mod bench;
pub mod data;
pub mod embeddings;
pub mod evaluate;
pub mod experiment;
pub mod fill;
pub mod generate;
pub mod heads;
pub mod import;
pub mod influence;
pub mod models;
pub mod predict;
pub mod pull;
pub mod report;
pub mod score;
pub mod serve;
pub mod tokens;
pub mod trace;
pub mod train;
pub mod verify;
pub mod view;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// A laboratory for attention: build it, train it, test common claims about it, look inside.
#[derive(Parser)]
#[command(version, about, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Ablate(ablate::Ablate),
    Bench(bench::Bench),
    Data(data::Data),
    #[command(name = "eval")]
    Evaluate(evaluate::Evaluate),
    Experiment(experiment::Experiment),
    Embeddings(embeddings::Embeddings),
    Fill(fill::Fill),
    Heads(heads::Heads),
    Predict(predict::Predict),
    Report(report::Report),
    Score(score::Score),
    Tokens(tokens::Tokens),
    Train(train::Train),
    Generate(generate::Generate),
    Import(import::Import),
    Influence(influence::Influence),
    Models(models::Models),
    Pull(pull::Pull),
    Serve(serve::Serve),
    Trace(trace::Trace),
    Verify(verify::Verify),
    View(view::View),
}

impl Arguments {
    /// Runs the command.
    pub fn run(self) -> Result<()> {
        match self.command {
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
            Command::Score(score) => score.run(),
            Command::Tokens(tokens) => tokens.run(),
            Command::Train(train) => train.run(),
            Command::Generate(generate) => generate.run(),
            Command::Import(import) => import.run(),
            Command::Influence(influence) => influence.run(),
            Command::Models(models) => models.run(),
            Command::Pull(pull) => pull.run(),
            Command::Serve(serve) => serve.run(),
            Command::Trace(trace) => trace.run(),
            Command::Verify(verify) => verify.run(),
            Command::View(view) => view.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn no_command_names_an_argument_twice() {
        super::Arguments::command().debug_assert();
    }
}
