//! `regard models`: which models can be opened, and which there are.

use crate::cache::{Cache, Name};
use crate::terminal::{line, thousands};
use anyhow::Result;
use clap::Args;
use regard_nn::checkpoint::{self, architectures, families};
use regard_nn::tokens::Tokenizer;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// List the models that can be opened: in the Hugging Face cache, in a folder of runs, and by type.
///
/// Of each model there is: its type, the size of its weights, what commands it is for, and whatever keeps it from being opened or read: a
/// type or setting that is not supported, weights or a tokenizer that are missing. Weights themselves are not read.
#[derive(Args)]
#[command(after_help = "Examples:
  regard models                         everything
  regard models --types                 the model types that can be opened, and what for
  regard models --runs ~/experiments    another folder of runs or checkpoints

docs/fidelity.md compares each type with transformers; docs/families.md shows how to add one.")]
pub struct Models {
    /// List the model types alone
    #[arg(long)]
    types: bool,
    /// The folder of runs and checkpoints to look into
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
}

/// No folder is listed further than this.
const MOST_LISTED: usize = 10_000;

impl Models {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        if !self.types {
            list_cache()?;
            self.list_runs();
        }
        line(
            "Model types that can be opened, and the commands that each is for besides trace, heads, view and serve",
        );
        for kind in families() {
            line(format!("  {kind:<24} {}", uses(kind)));
        }
        line("  regard-…                 this program's own models");
        Ok(())
    }

    fn list_runs(&self) {
        line(format!("In {}", self.runs.display()));
        let entries = std::fs::read_dir(&self.runs).into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| path.join("config.json").is_file()).collect();
        folders.sort();
        for folder in folders.iter().take(MOST_LISTED) {
            line(format!("  {}", described(&folder.display().to_string(), folder)));
        }
        if folders.is_empty() {
            line("  nothing (regard train, regard import and --out write models)");
        }
        line("");
    }
}

fn list_cache() -> Result<()> {
    let cache = Cache::from_environment()?;
    line(format!("In the Hugging Face cache, {}", cache.folder().display()));
    let names = cache.names();
    for name in names.iter().take(MOST_LISTED) {
        let folder = name.parse::<Name>().ok().and_then(|parsed| cache.snapshot(&parsed));
        match folder {
            Some(folder) => line(format!("  {}", described(name, &folder))),
            None => line(format!("  {name:<40} not downloaded in full (regard pull {name})")),
        }
    }
    if names.is_empty() {
        line("  nothing (regard pull owner/name downloads a model)");
    }
    line("");
    Ok(())
}

/// One line about a model: its type, its size, and what is missing.
fn described(name: &str, folder: &Path) -> String {
    let config = checkpoint::read_config(folder).unwrap_or_default();
    let kind = config.get("model_type").and_then(Value::as_str).unwrap_or("no type");
    let kind: String = kind.chars().take(24).collect();
    let size = match weights_size(folder) {
        0 => "–".to_owned(),
        bytes => format!("{} MB", thousands(bytes.div_ceil(1_000_000))),
    };
    let state = match checkpoint::check(folder) {
        Err(error) => format!("cannot be opened: {error}"),
        Ok(()) if reads_text(folder) => match Tokenizer::from_folder(folder) {
            Ok(_) => "opens".to_owned(),
            Err(_) => "opens, but has no tokenizer that can be read: give ids instead of texts".to_owned(),
        },
        Ok(()) => "opens".to_owned(),
    };
    format!("{name:<40} {kind:<24} {size:>10}  {state}")
}

/// Whether a folder's model reads text: those that read pictures say how pictures are prepared, or how large they are.
fn reads_text(folder: &Path) -> bool {
    let config = checkpoint::read_config(folder).unwrap_or_default();
    let own = config.get("regard").is_some_and(|own| own.to_string().contains("\"patch"));
    !own && !config.contains_key("image_size") && !config.contains_key("patch_size")
}

/// The bytes of a folder's weights.
fn weights_size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let weights = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("model") && name.ends_with(".safetensors")
    });
    // The files of a cache are links.
    weights.filter_map(|entry| std::fs::metadata(entry.path()).ok()).map(|file| file.len()).sum()
}

/// What the heads of a family are for, as commands.
fn uses(kind: &str) -> String {
    let known = architectures(kind);
    let any = |parts: &[&str]| known.iter().any(|class| parts.iter().any(|part| class.ends_with(part)));
    let mut uses = Vec::new();
    if any(&["ForCausalLM", "LMHeadModel"]) {
        uses.push("generate");
    }
    if any(&["ForConditionalGeneration", "MTModel"]) {
        uses.push("generate (answers)");
    }
    if any(&["ForMaskedLM"]) {
        uses.push("fill");
    }
    if any(&["ForSequenceClassification", "ForNextSentencePrediction"]) {
        uses.push("predict");
    }
    if any(&["ForTokenClassification"]) {
        uses.push("predict (tokens)");
    }
    if any(&["ForQuestionAnswering"]) {
        uses.push("predict --passage");
    }
    if any(&["ForImageClassification", "ForImageClassificationWithTeacher"]) {
        uses.push("predict (pictures)");
    }
    if uses.is_empty() { "vectors".to_owned() } else { uses.join(", ") }
}
