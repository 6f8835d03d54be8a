//! `regard import`: models in other formats, as folders that this program and Hugging Face's open.

use crate::error::usage_error;
use crate::model;
use crate::terminal::remark;
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand, ValueEnum};
use regard_nn::checkpoint::{self, gguf, llama2c};
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
    Gguf(Gguf),
    Llama2c(Llama2c),
    Towers(Towers),
}

/// A model in a GGUF file, the format of llama.cpp: Llama, Qwen 2 and 3, Gemma 1 to 3.
///
/// Weights in f32, f16 and bf16 keep their type. Weights in Q8_0, Q4_0, Q4_K and Q6_K are widened to f32, which holds each of their values
/// exactly, or to bf16, which takes half the room and rounds. The tokenizer and the chat template of the file become those of the folder.
#[derive(Args)]
#[command(
    name = "gguf",
    after_help = "Examples:\n  regard import gguf Qwen3-0.6B-Q8_0.gguf -o qwen3\n  regard import gguf gemma-3-1b-it-Q4_K_M.gguf --type bf16 -o gemma3\n  regard generate gemma3 \"Why is the sky blue?\" --chat"
)]
struct Gguf {
    /// The GGUF file
    file: PathBuf,
    /// What quantised weights become
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t = Widened::F32)]
    kind: Widened,
    /// The folder to write
    #[arg(long, short, value_name = "DIR")]
    out: PathBuf,
}

/// What quantised weights can become.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Widened {
    /// Exact, 4 bytes a weight
    F32,
    /// Rounded, 2 bytes a weight
    Bf16,
}

impl Gguf {
    fn run(&self) -> Result<()> {
        if self.out.join("model.safetensors").exists() {
            return Err(usage_error(format!(
                "{} holds a model already: choose another --out",
                self.out.display()
            )));
        }
        let kind = match self.kind {
            Widened::F32 => gguf::WeightType::F32,
            Widened::Bf16 => gguf::WeightType::Bf16,
        };
        let written = gguf::convert(&self.file, &self.out, kind)?;
        // What was written must open: a file may be complete and still describe no model.
        checkpoint::load(&self.out)?;
        let found: Vec<String> =
            written.found.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let megabytes = written.bytes.div_ceil(1_000_000);
        remark(format!("{} tensors, now mostly {}, {megabytes} MB", found.join(", "), written.main));
        if written.quantised {
            let exactly = match self.kind {
                Widened::F32 => "without loss",
                Widened::Bf16 => "rounded to the nearest",
            };
            remark(format!(
                "note: quantised weights were widened, {exactly}; the folder is larger than the file"
            ));
        }
        Ok(())
    }
}

/// A combined CLIP or SigLIP model as two: one for texts, one for pictures.
#[derive(Args)]
#[command(
    name = "towers",
    after_help = "Examples:\n  regard pull openai/clip-vit-base-patch32\n  regard import towers openai/clip-vit-base-patch32 -o clip\n  regard heads clip/text\n  regard trace clip/vision --image cat.png -o trace.safetensors"
)]
struct Towers {
    /// The folder of the model, or its name in the Hugging Face cache
    model: String,
    /// The folder to write: `text` and `vision` in it
    #[arg(long, short, value_name = "DIR")]
    out: PathBuf,
}

/// Files beside the weights that belong to a tower, if they are there.
const BESIDE: [(&str, &[&str]); 2] = [
    (
        "text",
        &["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt"],
    ),
    ("vision", &["preprocessor_config.json"]),
];

impl Towers {
    fn run(&self) -> Result<()> {
        let folder = model::find(&self.model)?;
        let written = checkpoint::split_towers(&folder, &self.out)?;
        for (tower, names) in BESIDE {
            for name in names {
                let (from, to) = (folder.join(name), self.out.join(tower).join(name));
                if from.is_file() {
                    std::fs::copy(&from, &to).with_context(|| format!("{} was not written", to.display()))?;
                }
            }
        }
        for tower in written {
            // What was written must open.
            let out = self.out.join(tower);
            checkpoint::load(&out)?;
            remark(out.display());
        }
        Ok(())
    }
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
            Format::Gguf(format) => format.run(),
            Format::Llama2c(format) => format.run(),
            Format::Towers(format) => format.run(),
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
