//! `regard import`: models in other formats, as folders that this program and Hugging Face's open.

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use regard_nn::checkpoint::{self, llama2c};
use regard_nn::data::file::write_whole;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;

/// Turn a model of another format into a checkpoint folder.
#[derive(Args)]
#[command(arg_required_else_help = true)]
pub struct Import {
    #[command(subcommand)]
    format: Format,
}

#[derive(Subcommand)]
enum Format {
    Llama2c(Llama2c),
}

/// A model and tokenizer of llama2.c.
#[derive(Args)]
#[command(
    name = "llama2c",
    after_help = "Examples:\n  regard import llama2c stories260K.bin --tokenizer tok512.bin -o stories\n  regard generate stories \"Once upon a time\""
)]
struct Llama2c {
    /// The model: llama2.c's .bin file, version 0
    file: PathBuf,
    /// Its tokenizer, a .bin file as well
    #[arg(long, value_name = "FILE")]
    tokenizer: PathBuf,
    /// The folder to write
    #[arg(long, short, value_name = "DIR")]
    out: PathBuf,
}

impl Import {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        match &self.format {
            Format::Llama2c(format) => format.run(),
        }
    }
}

impl Llama2c {
    fn run(&self) -> Result<()> {
        let model = llama2c::read_model(&self.file)?;
        let tokenizer = llama2c::read_tokenizer(&self.tokenizer, model.form().vocabulary())?;
        let special = llama2c::special_tokens();
        checkpoint::save(&model, &self.out, &special)?;
        let generation = format!("{:#}\n", Value::Object(special));
        let texts = [
            ("tokenizer.json", tokenizer.to_json()?),
            ("tokenizer_config.json", tokenizer.configuration_json()),
            ("generation_config.json", generation),
        ];
        for (name, text) in texts {
            write_whole(&self.out.join(name), |file| file.write_all(text.as_bytes()))
                .with_context(|| format!("{name} was not written"))?;
        }
        Ok(())
    }
}
