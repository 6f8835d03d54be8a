//! `regard influence`: what an answer rests on.

use crate::bad_usage;
use crate::compute::Compute;
use crate::corpus::{Corpus, CorpusArguments, TokenizedCorpus};
use crate::corpus_analysis::influence::{
    CorpusTargets, Faithfulness, TextAttribution, corpus_targets, ensure_answers,
};
use crate::corpus_analysis::target::{TargetedText, blank, target_picture, target_text};
use crate::corpus_analysis::texts::pictures;
use crate::corpus_analysis::{Output, prompt};
use crate::model::Opened;
use crate::terminal::remark;
use anyhow::Result;
use clap::Args;
use regard_nn::analysis::attentions;
use regard_nn::analysis::influence::FLOW_LIMIT;
use regard_nn::models::Reads;
use regard_nn::models::form::Patches;
use std::path::PathBuf;

/// Attribute a prediction to the input tokens by several methods, and measure how faithful each method is.
///
/// Raw attention, rollout, norm-weighted rollout, attention flow and gradient × attention, each compared with blank-out (remove a
/// token, predict again). Without --text, over a corpus: the rank correlation of each method with blank-out on this model.
/// With --text, for one prompt: token attributions, each head's direct contribution to the logit, and the logit lens; with --other
/// also activation patching between two prompts.
#[derive(Args)]
#[command(after_help = "Examples:
  regard influence runs/classify
  regard influence runs/words-gpt --text \"the plot was not\" --answer bad
  regard influence runs/masked-words --text \"The plot was [MASK] at all.\"
  regard influence openai-community/gpt2 --text \"Paris is in\" --other \"Rome is in\"
  regard influence google-t5/t5-small --text \"translate English to German: Good morning.\" --place 1
  regard influence runs/digits --image seven.png")]
pub struct Influence {
    /// A run or checkpoint folder, or a name in the Hugging Face cache
    model: String,
    /// A text, instead of a corpus; write [MASK] where a word is to be predicted
    #[arg(long, conflicts_with = "corpus")]
    text: Option<String>,
    /// A picture, instead of a corpus
    #[arg(long, value_name = "FILE", conflicts_with_all = ["corpus", "text"])]
    image: Option<PathBuf>,
    /// The position to explain, from 0: in an encoder–decoder model's answer, or of the token that a model tags
    #[arg(long, value_name = "N", default_value_t = 0, requires = "text")]
    place: usize,
    /// The prediction to explain: a token or class [default: the model's own]
    #[arg(long)]
    answer: Option<String>,
    /// A second prompt with the same number of tokens, into which activations of the first are patched
    #[arg(long, requires = "text", value_name = "TEXT")]
    other: Option<String>,
    /// The second prompt's answer, whose logit is subtracted [default: the model's own]
    #[arg(long, requires = "other", value_name = "ANSWER")]
    other_answer: Option<String>,
    /// The longest text for which attention flow is computed, in tokens; it is slow
    #[arg(long, value_name = "N", default_value_t = FLOW_LIMIT)]
    flow_limit: usize,
    #[command(flatten)]
    corpus: CorpusArguments,
    /// The folder to write
    #[arg(long, short, default_value = "outputs/influence")]
    out: PathBuf,
    #[command(flatten)]
    compute: Compute,
}

impl Influence {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        if self.answer.is_some() && self.text.is_none() && self.image.is_none() {
            bad_usage!("--answer is that to one text or picture: give --text or --image");
        }
        let opened = self.compute.open(&self.model)?;
        attentions(&*opened.model)?;
        ensure_answers(&*opened.model)?;
        if let Some(patches) = opened.model.abilities().pictures() {
            self.read_pictures(&opened, patches)?;
        } else {
            self.read_texts(&opened)?;
        }
        remark(format!("\ntables and figures: {}", self.out.display()));
        Ok(())
    }

    fn read_pictures(&self, opened: &Opened, patches: Patches) -> Result<()> {
        if self.text.is_some() {
            bad_usage!("this model reads pictures: --image instead of --text");
        }
        let answer = self.answer.as_deref();
        if let Some(image) = &self.image {
            let corpus = CorpusArguments { corpus: image.display().to_string(), ..self.corpus.clone() };
            let (mut pictures, _) = pictures(opened, patches, &corpus)?;
            let targeted = target_picture(opened, patches, pictures.remove(0), answer)?;
            return self.report(opened, targeted, &Output::create(&self.out)?);
        }
        let (pictures, _) = pictures(opened, patches, &self.corpus)?;
        let output = Output::create(&self.out)?;
        remark(format!("a {}; {} pictures", opened.model.kind(), pictures.len()));
        let targets = || -> Result<CorpusTargets> {
            Ok(Box::new(
                pictures.iter().map(|picture| target_picture(opened, patches, picture.clone(), None)),
            ))
        };
        self.faithfulness(opened, &targets, pictures.len() as u64, &output)
    }

    fn read_texts(&self, opened: &Opened) -> Result<()> {
        if self.image.is_some() {
            bad_usage!("--image is for models that read pictures, and this is a {}", opened.model.kind());
        }
        let corpus = Corpus::open(&self.corpus.corpus)?;
        let mut tokenized = TokenizedCorpus::new(&corpus, opened.tokenizer()?, &*opened.model, &self.corpus)?;
        if let Some(text) = &self.text {
            return self.one(opened, &tokenized, text);
        }
        // Flow takes long for more. A length that was given is kept: flow is then left out of longer texts.
        if self.corpus.length.is_none() && tokenized.length > self.flow_limit.max(2) {
            tokenized.length = self.flow_limit.max(2);
            remark(format!(
                "texts are read up to {} tokens (--flow-limit); --length reads more",
                tokenized.length
            ));
        }
        let size = tokenized.measure_size()?;
        let output = Output::create(&self.out)?;
        remark(format!("a {}; {size}", opened.model.kind()));
        self.faithfulness(
            opened,
            &|| corpus_targets(opened, &tokenized, self.corpus.seed),
            size.texts,
            &output,
        )
    }

    fn faithfulness<'a>(
        &self,
        opened: &Opened,
        targets: &dyn Fn() -> Result<CorpusTargets<'a>>,
        texts: u64,
        output: &Output,
    ) -> Result<()> {
        let faithfulness =
            Faithfulness::measure(opened, targets, texts, (self.corpus.seed, self.flow_limit))?;
        faithfulness.write(output)?;
        faithfulness.show();
        Ok(())
    }

    fn one(&self, opened: &Opened, tokenized: &TokenizedCorpus, text: &str) -> Result<()> {
        let targeted =
            |text: &str, answer: Option<&str>| target_text(opened, tokenized, text, (answer, self.place));
        let clean = targeted(text, self.answer.as_deref())?;
        let other = match &self.other {
            Some(other) => Some(targeted(other, self.other_answer.as_deref())?),
            None => None,
        };
        if let Some(other) = &other
            && other.tokens.len() != clean.tokens.len()
        {
            let (first, second) = (clean.tokens.len(), other.tokens.len());
            bad_usage!("--other needs as many tokens as --text: {second}, not {first} (see regard tokens)");
        }
        if other.is_some() && opened.model.abilities().reads == Reads::Source {
            bad_usage!("--other is for models that read one text, and this is a {}", opened.model.kind());
        }
        let output = Output::create(&self.out)?;
        self.report(opened, clean.clone(), &output)?;
        prompt::report(opened, &clean, &output)?;
        match &other {
            Some(other) => prompt::patch(opened, &clean, other, &output),
            None => Ok(()),
        }
    }

    /// Reports every attribution method on one text or picture.
    fn report(&self, opened: &Opened, targeted: TargetedText, output: &Output) -> Result<()> {
        let (tokens, limit) = (targeted.tokens.total_len(), self.flow_limit);
        if tokens > limit {
            remark(format!("flow is left out: there are {tokens} tokens, more than --flow-limit {limit}"));
        }
        let (blank, how) = blank(opened);
        TextAttribution::of(&*opened.model, targeted, blank, limit)?.report(output, &how)
    }
}
