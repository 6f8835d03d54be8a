//! `regard heads`: what each head of a model does.

use crate::bad_usage;
use crate::compute::Compute;
use crate::corpus::{Corpus, CorpusArguments, TokenizedCorpus};
use crate::corpus_analysis::Output;
use crate::corpus_analysis::heads::{MeasureOptions, analyse};
use crate::corpus_analysis::snapshots::History;
use crate::corpus_analysis::texts::{Texts, answers, ensure_answers_fit, pictures};
use crate::terminal::{line, remark};
use anyhow::Result;
use clap::Args;
use regard_nn::analysis::{Part, Subject, Tokens, all_heads};
use regard_nn::models::Reads;
use std::path::{Path, PathBuf};

/// Measure what each head of a model does, over a corpus, against the same model untrained.
///
/// Writes heads.csv (head × measure with intervals from resampled texts), labels.csv (heads that meet a rule, corrected for
/// the number of heads and rules), distances.csv and a figure for each. Where trees are known (the built-in corpus, a
/// treebank) also syntax.csv: how often a head's most-attended word is the syntactic partner. docs/heads.md explains all
/// measures and rules. Of an encoder–decoder model encoder, decoder and cross-attention are measured, in a folder each.
#[derive(Args)]
#[command(after_help = "Examples:
  regard heads runs/words-gpt
  regard heads openai-community/gpt2 --corpus wiki.txt --limit 500 -o outputs/gpt2
  regard heads runs/masked-words --treebank en_ewt-ud-test.conllu
  regard heads runs/words-gpt --snapshots        every measure against the training step")]
pub struct Heads {
    /// A run or checkpoint folder, or a name in the Hugging Face cache
    model: String,
    #[command(flatten)]
    corpus: CorpusArguments,
    /// Sentences with their trees, in CoNLL-U, for the match of heads with syntax
    #[arg(long, value_name = "FILE")]
    treebank: Option<PathBuf>,
    /// Also measure attention weighted by the norms of the transformed values (takes three times as long)
    #[arg(long)]
    norms: bool,
    /// Measure every snapshot of a run instead
    #[arg(long)]
    snapshots: bool,
    /// The folder to write
    #[arg(long, short, default_value = "outputs/heads")]
    out: PathBuf,
    #[command(flatten)]
    compute: Compute,
}

impl Heads {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let options =
            MeasureOptions { batch: self.corpus.batch as usize, seed: self.corpus.seed, norms: self.norms };
        match self.snapshots {
            true => self.history(options)?,
            false => self.analyse(options)?,
        }
        remark(format!("\ntables and figures: {}", self.out.display()));
        Ok(())
    }

    fn analyse(&self, options: MeasureOptions) -> Result<()> {
        let opened = self.compute.open(&self.model)?;
        all_heads(&*opened.model)?;
        ensure_answers_fit(&*opened.model, &self.corpus)?;
        let abilities = opened.model.abilities();
        if let Some(patches) = abilities.pictures() {
            let (pictures, _) = pictures(&opened, patches, &self.corpus)?;
            remark(format!("a {}; {} pictures", opened.model.kind(), pictures.len()));
            return self.part((&*opened.model).into(), &Texts::Held(pictures), (None, None), options);
        }
        let corpus = Corpus::open(&self.corpus.corpus)?;
        let treebank = self.trees()?;
        let tokenized = TokenizedCorpus::new(&corpus, opened.tokenizer()?, &*opened.model, &self.corpus)?;
        let size = tokenized.measure_size()?;
        let trees = Some(treebank.as_ref().unwrap_or(&corpus));
        if abilities.reads == Reads::Source {
            let answered = answers(&opened, &tokenized, &self.corpus)?;
            remark(format!("a {}; {} texts and their answers", opened.model.kind(), answered.len()));
            let inputs: Vec<Tokens> = answered.into_iter().map(|answered| answered.input).collect();
            for part in opened.model.parts() {
                let source = |input: &Tokens| input.source.as_deref().cloned();
                let texts = match part {
                    Part::Reader => inputs.iter().filter_map(source).collect(),
                    _ => inputs.clone(),
                };
                line(format!("\n{}", part.name()));
                let subject = Subject { model: &*opened.model, part };
                self.part(subject, &Texts::Held(texts), (Some(&tokenized), trees), options)?;
            }
            return Ok(());
        }
        remark(format!("a {}; {size}", opened.model.kind()));
        let texts = Texts::Corpus(&tokenized, size);
        self.part((&*opened.model).into(), &texts, (Some(&tokenized), trees), options)
    }

    /// Looks at one part of a model; those of an encoder–decoder model have a folder each.
    fn part(
        &self,
        subject: Subject,
        texts: &Texts,
        (tokenized, trees): (Option<&TokenizedCorpus>, Option<&Corpus>),
        options: MeasureOptions,
    ) -> Result<()> {
        let output = Output::of_part(&self.out, subject)?;
        let findings = analyse(subject, texts, tokenized, trees, options)?;
        findings.write(&output)?;
        findings.show();
        Ok(())
    }

    fn trees(&self) -> Result<Option<Corpus>> {
        self.treebank.as_ref().map(|path| Corpus::treebank(path)).transpose()
    }

    fn history(&self, options: MeasureOptions) -> Result<()> {
        let run = Path::new(&self.model);
        if !run.is_dir() {
            bad_usage!("--snapshots needs the folder of a run; {} is none", self.model);
        }
        let corpus = Corpus::open(&self.corpus.corpus)?;
        let treebank = self.trees()?;
        let trees = treebank.as_ref().unwrap_or(&corpus);
        let history =
            History::measure(run, (&corpus, trees), &self.corpus, options, self.compute.placement()?)?;
        history.write(&Output::create(&self.out)?)?;
        history.show();
        line("");
        Ok(())
    }
}
