//! `saccade heads`: what each head of a model does.

use crate::bad_usage;
use crate::corpus::{Corpus, CorpusArguments, Reading};
use crate::inspect::Output;
use crate::inspect::heads::{Manner, study};
use crate::inspect::snapshots::History;
use crate::model;
use crate::terminal::{line, remark};
use anyhow::Result;
use clap::Args;
use saccade::analysis::all_heads;
use std::path::{Path, PathBuf};

/// Measure what each head of a model does, over a corpus, against the same model untrained.
///
/// Writes heads.csv (head × measure with intervals from resampled texts), labels.csv (heads that meet a rule, corrected for
/// the number of heads and rules), distances.csv and a figure for each. Where trees are known (the built-in corpus, a
/// treebank) also syntax.csv: how often a head's most-attended word is the syntactic partner. docs/heads.md explains all
/// measures and rules.
#[derive(Args)]
#[command(after_help = "Examples:
  saccade heads runs/words-gpt
  saccade heads openai-community/gpt2 --corpus wiki.txt --limit 500 -o outputs/gpt2
  saccade heads runs/masked-words --treebank en_ewt-ud-test.conllu
  saccade heads runs/words-gpt --snapshots        every measure against the training step")]
pub struct Heads {
    /// A run or checkpoint folder, or a name in the Hugging Face cache
    model: String,
    #[command(flatten)]
    corpus: CorpusArguments,
    /// Sentences with their trees, in CoNLL-U, for the match of heads with syntax
    #[arg(long, value_name = "FILE")]
    treebank: Option<PathBuf>,
    /// Measure also with weights times the norms of what they read (takes three times as long)
    #[arg(long)]
    norms: bool,
    /// Measure every snapshot of a run instead
    #[arg(long)]
    snapshots: bool,
    /// The folder to write
    #[arg(long, short, default_value = "outputs/heads")]
    out: PathBuf,
}

impl Heads {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let manner = Manner { batch: self.corpus.batch as usize, seed: self.corpus.seed, norms: self.norms };
        match self.snapshots {
            true => self.history(manner)?,
            false => self.study(manner)?,
        }
        remark(format!("\ntables and figures: {}", self.out.display()));
        Ok(())
    }

    fn study(&self, manner: Manner) -> Result<()> {
        let opened = model::open(&self.model)?;
        let heads = all_heads(&opened.model)?.len();
        let tokenizer = opened.tokenizer()?;
        let corpus = Corpus::open(&self.corpus.corpus)?;
        let treebank = self.trees()?;
        let reading = Reading::new(&corpus, tokenizer, &opened.model, &self.corpus)?;
        let survey = reading.survey()?;
        let output = Output::create(&self.out)?;
        remark(format!("a {} with {heads} heads; {survey}", opened.model.kind()));
        let findings =
            study(&opened.model, &reading, (&survey, treebank.as_ref().unwrap_or(&corpus)), manner)?;
        findings.write(&output)?;
        findings.show();
        Ok(())
    }

    fn trees(&self) -> Result<Option<Corpus>> {
        self.treebank.as_ref().map(|path| Corpus::treebank(path)).transpose()
    }

    fn history(&self, manner: Manner) -> Result<()> {
        let run = Path::new(&self.model);
        if !run.is_dir() {
            bad_usage!("--snapshots needs the folder of a run; {} is none", self.model);
        }
        let corpus = Corpus::open(&self.corpus.corpus)?;
        let treebank = self.trees()?;
        let trees = treebank.as_ref().unwrap_or(&corpus);
        let history = History::measure(run, (&corpus, trees), &self.corpus, manner)?;
        history.write(&Output::create(&self.out)?)?;
        history.show();
        line("");
        Ok(())
    }
}
