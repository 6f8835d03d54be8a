//! `regard embeddings`: the table of vectors that a model has for its tokens.

use crate::corpus_analysis::Output;
use crate::corpus_analysis::embeddings::EmbeddingTable;
use crate::model;
use crate::terminal::{line, remark};
use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};

/// Analyse a table of embeddings: principal components, and nearest neighbours of words.
#[derive(Args)]
#[command(after_help = "Examples:
  regard embeddings runs/bag --words good,great,brilliant --words bad,awful,dull
  regard embeddings glove.6B.100d.txt --near king
  regard embeddings openai-community/gpt2 --near king --near Paris")]
pub struct Embeddings {
    /// A run or checkpoint folder, a name in the Hugging Face cache, or a file of word vectors (GloVe, fastText)
    model: String,
    /// Words to draw; may be given more than once, each list in a colour of its own [default: the first tokens]
    #[arg(long, value_name = "a,b,c")]
    words: Vec<String>,
    /// A word whose nearest neighbours to print; may be given more than once
    #[arg(long, value_name = "WORD")]
    near: Vec<String>,
    /// How many neighbours
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
    /// The folder to write
    #[arg(long, short, default_value = "outputs/embeddings")]
    out: PathBuf,
}

impl Embeddings {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let path = Path::new(&self.model);
        let opened;
        let table = match path.is_file() {
            true => EmbeddingTable::read(path)?,
            false => {
                opened = model::open(&self.model)?;
                EmbeddingTable::of(&opened)?
            }
        };
        let list = |words: &String| -> Vec<String> {
            words.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        let groups: Vec<Vec<String>> = self.words.iter().map(list).collect();
        // Misspelt words are errors before anything long begins.
        for word in groups.iter().flatten().chain(&self.near) {
            table.find(word)?;
        }
        table.components(&groups, &Output::create(&self.out)?)?;
        if !self.near.is_empty() {
            line("");
            table.show_near(&self.near, self.count as usize)?;
        }
        remark(format!("\ntables and figures: {}", self.out.display()));
        Ok(())
    }
}
