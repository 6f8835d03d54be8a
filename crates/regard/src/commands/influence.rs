//! `regard influence`: what an answer rests on.

use crate::bad_usage;
use crate::corpus::{Corpus, CorpusArguments, Reading};
use crate::inspect::influence::{Questions, Said, Trust, asked, ensure_answers};
use crate::inspect::target::{Asked, ask, ask_picture, blank};
use crate::inspect::texts::pictures;
use crate::inspect::{Output, prompt};
use crate::model::{self, Opened};
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
    /// The position in an encoder–decoder model's answer to explain, from 0
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
}

impl Influence {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        if self.answer.is_some() && self.text.is_none() && self.image.is_none() {
            bad_usage!("--answer is that to one text or picture: give --text or --image");
        }
        let opened = model::open(&self.model)?;
        attentions(&*opened.model)?;
        ensure_answers(&*opened.model)?;
        if let Some(patches) = opened.model.abilities().pictures() {
            self.look_at_pictures(&opened, patches)?;
        } else {
            self.read(&opened)?;
        }
        remark(format!("\ntables and figures: {}", self.out.display()));
        Ok(())
    }

    fn look_at_pictures(&self, opened: &Opened, patches: Patches) -> Result<()> {
        if self.text.is_some() {
            bad_usage!("this model reads pictures: --image instead of --text");
        }
        let answer = self.answer.as_deref();
        if let Some(image) = &self.image {
            let corpus = CorpusArguments { corpus: image.display().to_string(), ..self.corpus.clone() };
            let (mut pictures, _) = pictures(opened, patches, &corpus)?;
            let asked = ask_picture(opened, patches, pictures.remove(0), answer)?;
            return self.report(opened, asked, &Output::create(&self.out)?);
        }
        let (pictures, _) = pictures(opened, patches, &self.corpus)?;
        let output = Output::create(&self.out)?;
        remark(format!("a {}; {} pictures", opened.model.kind(), pictures.len()));
        let asked = || -> Result<Questions> {
            Ok(Box::new(pictures.iter().map(|picture| ask_picture(opened, patches, picture.clone(), None))))
        };
        self.trust(opened, &asked, pictures.len() as u64, &output)
    }

    fn read(&self, opened: &Opened) -> Result<()> {
        if self.image.is_some() {
            bad_usage!("--image is for models that look at pictures, and this is a {}", opened.model.kind());
        }
        let corpus = Corpus::open(&self.corpus.corpus)?;
        let mut reading = Reading::new(&corpus, opened.tokenizer()?, &*opened.model, &self.corpus)?;
        if let Some(text) = &self.text {
            return self.one(opened, &reading, text);
        }
        // Flow takes long for more. A length that was given is kept: flow is then left out of longer texts.
        if self.corpus.length.is_none() && reading.length > self.flow_limit.max(2) {
            reading.length = self.flow_limit.max(2);
            remark(format!(
                "texts are read up to {} tokens (--flow-limit); --length reads more",
                reading.length
            ));
        }
        let survey = reading.survey()?;
        let output = Output::create(&self.out)?;
        remark(format!("a {}; {survey}", opened.model.kind()));
        self.trust(opened, &|| asked(opened, &reading, self.corpus.seed), survey.texts, &output)
    }

    fn trust<'a>(
        &self,
        opened: &Opened,
        asked: &dyn Fn() -> Result<Questions<'a>>,
        texts: u64,
        output: &Output,
    ) -> Result<()> {
        let trust = Trust::measure(opened, asked, texts, (self.corpus.seed, self.flow_limit))?;
        trust.write(output)?;
        trust.show();
        Ok(())
    }

    fn one(&self, opened: &Opened, reading: &Reading, text: &str) -> Result<()> {
        let asked = |text: &str, answer: Option<&str>| ask(opened, reading, text, (answer, self.place));
        let clean = asked(text, self.answer.as_deref())?;
        let other = match &self.other {
            Some(other) => Some(asked(other, self.other_answer.as_deref())?),
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

    /// What every method says of one text or picture.
    fn report(&self, opened: &Opened, asked: Asked, output: &Output) -> Result<()> {
        let (tokens, limit) = (asked.tokens.total_len(), self.flow_limit);
        if tokens > limit {
            remark(format!("flow is left out: there are {tokens} tokens, more than --flow-limit {limit}"));
        }
        let (blank, how) = blank(opened);
        Said::of(&*opened.model, asked, blank, limit)?.report(output, &how)
    }
}
