//! `regard tokens`: how a text becomes pieces and ids.

use crate::{model, terminal};
use anyhow::Result;
use clap::Args;
use regard_nn::tokens::{Special, Tokenizer};
use std::path::Path;

/// Tokenize a text: its tokens, their ids and their positions in the text.
#[derive(Args)]
#[command(after_help = "Examples:
  regard tokens runs/bag \"not a good film\"
  regard tokens tokenizer.json \"naïve café\" --no-special")]
pub struct Tokens {
    /// A model, or a tokenizer.json
    model: String,
    /// The text
    text: String,
    /// Leave out the special pieces that the tokenizer adds
    #[arg(long)]
    no_special: bool,
}

impl Tokens {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let path = Path::new(&self.model);
        let tokenizer = if path.is_file() || path.is_dir() {
            Tokenizer::open(path)?
        } else {
            Tokenizer::from_folder(model::find(&self.model)?)?
        };
        let special = if self.no_special { Special::Drop } else { Special::Keep };
        let encoding = tokenizer.encode(&self.text, special)?;
        let widest = encoding.pieces.iter().map(|piece| piece.chars().count()).max().unwrap_or(0).max(5);
        terminal::line(format!("{:>8}  {:<widest$}  {:>9}  text", "id", "piece", "bytes"));
        for ((id, piece), range) in encoding.ids.iter().zip(&encoding.pieces).zip(&encoding.offsets) {
            let text = self.text.get(range.clone()).unwrap_or_default();
            let bytes =
                if range.is_empty() { String::new() } else { format!("{}..{}", range.start, range.end) };
            terminal::line(format!("{id:>8}  {piece:<widest$}  {bytes:>9}  {text:?}"));
        }
        terminal::line(format!("{} pieces, vocabulary {}", encoding.len(), tokenizer.vocabulary_size()));
        Ok(())
    }
}
