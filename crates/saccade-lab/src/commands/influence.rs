//! `saccade influence`: what an answer rests on.

use crate::bad_usage;
use crate::corpus::{Corpus, CorpusArguments, Reading};
use crate::inspect::influence::{Said, Trust, ensure_answers};
use crate::inspect::target::{ask, blank};
use crate::inspect::{Output, prompt};
use crate::model::{self, Opened};
use crate::terminal::remark;
use anyhow::Result;
use clap::Args;
use saccade::analysis::attentions;
use saccade::analysis::influence::FLOW_LIMIT;
use std::path::PathBuf;

/// Show which words an answer rests on, by several methods, and how far each can be trusted.
///
/// Raw attention, rollout, norm-weighted rollout, flow and gradient × attention, each against blank-out: take a word away and
/// look at the answer. Without --text, over a corpus: the rank correlation of each method with blank-out on this model.
/// With --text, of one prompt: the words, what each head adds to the answer directly and what each layer would answer; with
/// --other also which heads and places carry the difference between two prompts.
#[derive(Args)]
#[command(after_help = "Examples:
  saccade influence runs/classify
  saccade influence runs/words-gpt --text \"the plot was not\" --answer bad
  saccade influence runs/masked-words --text \"The plot was [MASK] at all.\"
  saccade influence openai-community/gpt2 --text \"Paris is in\" --other \"Rome is in\"")]
pub struct Influence {
    /// A run or checkpoint folder, or a name in the Hugging Face cache
    model: String,
    /// A text to ask about, instead of a corpus; [MASK] where a word is to be guessed
    #[arg(long, conflicts_with = "corpus")]
    text: Option<String>,
    /// The answer to look at: a token or class [default: the model's own]
    #[arg(long, requires = "text")]
    answer: Option<String>,
    /// Another prompt of as many tokens, into which values of the first are put
    #[arg(long, requires = "text", value_name = "TEXT")]
    other: Option<String>,
    /// What the other prompt's answer is, against which the first one's is measured [default: the model's own]
    #[arg(long, requires = "other", value_name = "ANSWER")]
    other_answer: Option<String>,
    /// The most tokens of a text through which flow is computed; it takes long
    #[arg(long, value_name = "N", default_value_t = FLOW_LIMIT)]
    flow_limit: usize,
    #[command(flatten)]
    corpus: CorpusArguments,
    /// The folder to write
    #[arg(long, short, default_value = "outputs/influence")]
    out: PathBuf,
}

impl Influence {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let opened = model::open(&self.model)?;
        attentions(&opened.model)?;
        ensure_answers(&opened.model)?;
        let corpus = Corpus::open(&self.corpus.corpus)?;
        let mut reading = Reading::new(&corpus, opened.tokenizer()?, &opened.model, &self.corpus)?;
        match &self.text {
            Some(text) => self.one(&opened, &reading, text)?,
            None => {
                // Flow takes long for more.
                if self.corpus.length.is_none() {
                    reading.length = reading.length.min(self.flow_limit.max(2));
                }
                let survey = reading.survey()?;
                let output = Output::create(&self.out)?;
                remark(format!("a {}; {survey}", opened.model.kind()));
                let trust =
                    Trust::measure(&opened, &reading, survey.texts, (self.corpus.seed, self.flow_limit))?;
                trust.write(&output)?;
                trust.show();
            }
        }
        remark(format!("\ntables and figures: {}", self.out.display()));
        Ok(())
    }

    fn one(&self, opened: &Opened, reading: &Reading, text: &str) -> Result<()> {
        let asked = |text: &str| ask(opened, reading, text, self.answer.as_deref());
        let clean = asked(text)?;
        let other = match &self.other {
            Some(other) => Some(ask(opened, reading, other, self.other_answer.as_deref())?),
            None => None,
        };
        if let Some(other) = &other
            && other.tokens.len() != clean.tokens.len()
        {
            let (first, second) = (clean.tokens.len(), other.tokens.len());
            bad_usage!("--other needs as many tokens as --text: {second}, not {first} (see saccade tokens)");
        }
        let output = Output::create(&self.out)?;
        let (blank, how) = blank(reading.tokenizer);
        if clean.tokens.len() > self.flow_limit {
            let (tokens, limit) = (clean.tokens.len(), self.flow_limit);
            remark(format!("flow is left out: the text has {tokens} tokens, more than --flow-limit {limit}"));
        }
        Said::of(&opened.model, asked(text)?, blank, self.flow_limit)?.report(&output, &how)?;
        prompt::report(opened, &clean, &output)?;
        match &other {
            Some(other) => prompt::patch(opened, &clean, other, &output),
            None => Ok(()),
        }
    }
}
