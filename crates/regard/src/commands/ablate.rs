//! `regard ablate`: whether each head of a model matters.

use crate::compute::Compute;
use crate::corpus::{Corpus, CorpusArguments, TokenizedCorpus};
use crate::corpus_analysis::Output;
use crate::corpus_analysis::ablation::analyse;
use crate::corpus_analysis::evaluation_batches::EvaluationBatches;
use crate::corpus_analysis::texts::ensure_answers_fit;
use crate::terminal::{line, remark, thousands};
use anyhow::Result;
use clap::Args;
use regard_nn::analysis::{Subject, all_heads};
use std::path::PathBuf;

/// Remove each head of a model and measure how the loss changes.
///
/// Every head's output is set to zero, and to its mean; gradient importance is computed per head; then heads are removed one
/// after the other. The loss is that of the next token (causal models), of masked tokens (BERT), of the answer (T5) or of the class
/// (classifiers). The same architecture with random weights is the baseline. Writes ablation.csv, pruning.csv (intervals from
/// resampled texts) and figures.
#[derive(Args)]
#[command(after_help = "Examples:
  regard ablate runs/words-gpt
  regard ablate openai-community/gpt2 --corpus wiki.txt --limit 20 -o outputs/gpt2
  regard ablate runs/classify --corpus sst2/dev.tsv")]
pub struct Ablate {
    /// A run or checkpoint folder, or a name in the Hugging Face cache
    model: String,
    #[command(flatten)]
    corpus: CorpusArguments,
    /// The folder to write
    #[arg(long, short, default_value = "outputs/ablate")]
    out: PathBuf,
    #[command(flatten)]
    compute: Compute,
}

impl Ablate {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let opened = self.compute.open(&self.model)?;
        all_heads(&*opened.model)?;
        ensure_answers_fit(&*opened.model, &self.corpus)?;
        let batches = match opened.model.abilities().pictures() {
            Some(patches) => EvaluationBatches::of_pictures(&opened, patches, &self.corpus)?,
            _ => {
                let corpus = Corpus::open(&self.corpus.corpus)?;
                let tokenized =
                    TokenizedCorpus::new(&corpus, opened.tokenizer()?, &*opened.model, &self.corpus)?;
                tokenized.measure_size()?;
                EvaluationBatches::target_text(&opened, &corpus, &tokenized, &self.corpus)?
            }
        };
        let counts = [batches.texts(), batches.answers()].map(|count| thousands(count as u64));
        remark(format!(
            "a {} predicts {}: {} texts, {} targets",
            opened.model.kind(),
            batches.about,
            counts[0],
            counts[1]
        ));
        let parts = opened.model.parts();
        for &part in &parts {
            let subject = Subject { model: &*opened.model, part };
            let output = Output::of_part(&self.out, subject)?;
            if parts.len() > 1 {
                line(format!("\n{}", part.name()));
            }
            let findings = analyse(subject, &batches, self.corpus.seed)?;
            findings.write(&output)?;
            findings.show();
        }
        remark(format!("\ntables and figures: {}", self.out.display()));
        Ok(())
    }
}
