//! `regard generate`: the continuation of a prompt, or the answer to a text.

use crate::chat::{ChatTemplate, Message};
use crate::compute::Compute;
use crate::error::usage_error;
use crate::model::Opened;
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use regard_nn::Context;
use regard_nn::generate::{
    Answer, BeamSettings, Continue, GenerationEnd, GenerationSettings, NextToken, Sampling, Slide, Stop,
    beam_search, generate,
};
use regard_nn::models::{Predicts, Reads};
use regard_nn::tensor::Ids;
use regard_nn::tokens::{Decoder, Special, Tokenizer};
use serde_json::{Map, Value};
use std::io::{ErrorKind, Read as _, Write, stderr, stdin, stdout};

/// Continue a text, or answer one (encoder–decoder models).
///
/// The text is printed as it is generated. Causal models sample at temperature 0.8 by default; encoder–decoder models, which
/// are made for tasks with one answer, are greedy. The same seed gives the same text.
///
/// Texts of causal models may be longer than the model's context: when it is full, the oldest quarter leaves it, and the
/// model reads the rest again from position 0. A note says so at the end. Beam search stops at the context.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  regard generate runs/stories \"Once upon a time\"\n  regard generate runs/stories \"The cat\" --greedy --max-tokens 40\n  regard generate gpt2 $'Q: 2 + 2?\\nA:' --top-p 0.9 --stop Q:\n  regard generate Qwen/Qwen2-0.5B-Instruct \"Why is the sky blue?\" --chat\n  regard generate t5-small \"translate English to German: Good morning.\" --beams 4\n  echo Hello | regard generate gpt2 -"
)]
pub struct Generate {
    /// A run or checkpoint folder, or a name in the Hugging Face cache
    model: String,
    /// The text to continue or to answer; `-` reads it from standard input
    prompt: String,
    /// The most tokens to generate
    #[arg(long, short = 'n', value_name = "N", default_value_t = 200)]
    max_tokens: usize,
    /// Sampling temperature: logits are divided by it. Below 1 is more certain, above 1 more varied, 0 is greedy decoding
    /// [default: 0.8]
    #[arg(long, value_name = "T", value_parser = temperature, allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Consider only the K best tokens
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Consider only the best tokens that together have this probability
    #[arg(long, value_name = "P", value_parser = probability, allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Repetition penalty: 1 for none, 1.2 is usual [default: the model folder's setting, or 1]
    #[arg(long, value_name = "R", value_parser = positive, allow_negative_numbers = true)]
    repetition_penalty: Option<f32>,
    /// Stop before this string; may be given more than once
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    stop: Vec<String>,
    /// Beam search with B beams instead of sampling
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u16).range(1..=256),
          conflicts_with_all = ["temperature", "top_k", "top_p", "greedy", "repetition_penalty"])]
    beams: Option<u16>,
    /// The seed of the samples
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Greedy decoding: always take the most likely token
    #[arg(long, conflicts_with_all = ["temperature", "top_k", "top_p"])]
    greedy: bool,
    /// Write the prompt as the user's message, in the chat template of the model's folder; only the answer is shown
    #[arg(long)]
    chat: bool,
    /// A system message before the user's
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    /// Leave out the prompt, which is otherwise shown before its continuation
    #[arg(long)]
    no_prompt: bool,
    #[command(flatten)]
    compute: Compute,
}

fn number(text: &str) -> Result<f32, String> {
    text.parse().map_err(|_| "a number was expected".to_owned())
}

fn temperature(text: &str) -> Result<f32, String> {
    match number(text)? {
        value if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err("0 (greedy decoding) or a number above 0 was expected".to_owned()),
    }
}

fn positive(text: &str) -> Result<f32, String> {
    match number(text)? {
        value if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("a number above 0 was expected".to_owned()),
    }
}

fn probability(text: &str) -> Result<f32, String> {
    match positive(text)? {
        value if value <= 1.0 => Ok(value),
        _ => Err("a number above 0 and at most 1 was expected".to_owned()),
    }
}

/// The longest prompt that is read, in bytes.
const LONGEST_PROMPT: u64 = 16 << 20;

impl Generate {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let opened = self.compute.open(&self.model)?;
        let tokenizer = opened
            .tokenizer
            .as_ref()
            .with_context(|| format!("{} has no tokenizer: it cannot read a prompt", self.model))?;
        let prompt = self.prompt()?;
        let abilities = opened.model.abilities();
        match (abilities.predicts, abilities.reads) {
            (Predicts::NextToken, Reads::Tokens) => {
                self.go_on(&Continue::new(&*opened.model)?, &opened, tokenizer, &prompt)
            }
            (Predicts::NextToken, Reads::Source) => {
                let ids = self.encode(&opened, tokenizer, &prompt)?;
                if ids.is_empty() {
                    return Err(usage_error("the prompt is empty"));
                }
                let source = Ids::new(&ids, [1, ids.len()])?;
                let copies = self.beams.map_or(1, usize::from);
                let answer = Answer::new(&*opened.model, &Context::inference(), &source, None, copies)?;
                let start = answer.start().remove(0);
                self.print_text(&answer, &opened, tokenizer, &start, None)
            }
            _ => Err(anyhow!(
                "{} is a {} model, which does not generate text; causal language models and encoder–decoder models do",
                self.model,
                opened.model.kind()
            )),
        }
    }

    fn prompt(&self) -> Result<String> {
        if self.prompt != "-" {
            return Ok(self.prompt.clone());
        }
        let mut bytes = Vec::new();
        stdin().lock().take(LONGEST_PROMPT + 1).read_to_end(&mut bytes).context("standard input")?;
        if bytes.len() as u64 > LONGEST_PROMPT {
            return Err(anyhow!("standard input has more than {LONGEST_PROMPT} bytes"));
        }
        let text = String::from_utf8(bytes).map_err(|_| anyhow!("standard input is not UTF-8 text"))?;
        // A shell ends its output with a line break, which is no part of the prompt.
        Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
    }

    /// The prompt as its tokens: as it is, or as the user's message in the folder's chat template.
    fn encode(&self, opened: &Opened, tokenizer: &Tokenizer, prompt: &str) -> Result<Vec<u32>> {
        if !self.chat {
            return Ok(tokenizer.encode(prompt, Special::Keep)?.ids);
        }
        let message =
            |role: &str, content: &str| Message { role: role.to_owned(), content: content.to_owned() };
        let system = self.system.iter().map(|text| message("system", text));
        let messages: Vec<Message> = system.chain([message("user", prompt)]).collect();
        let text = ChatTemplate::of(&opened.folder)?.render(&messages)?;
        // The template has written the special tokens itself.
        Ok(tokenizer.encode(&text, Special::Drop)?.ids)
    }

    /// A causal model's continuation.
    fn go_on(
        &self,
        model: &impl NextToken,
        opened: &Opened,
        tokenizer: &Tokenizer,
        prompt: &str,
    ) -> Result<()> {
        let mut ids = self.encode(opened, tokenizer, prompt)?;
        if ids.is_empty() {
            // A text begins where another has ended, in models that have no token for it.
            let special = tokenizer.special();
            let begin = opened.token_ids("bos_token_id").first().copied();
            match begin.or(special.bos).or(special.eos) {
                Some(begin) => ids.push(begin),
                None => {
                    return Err(usage_error("the prompt is empty, and the model has no token to begin with"));
                }
            }
        }
        self.print_text(
            model,
            opened,
            tokenizer,
            &ids,
            Some(prompt).filter(|_| !self.no_prompt && !self.chat),
        )
    }

    /// Says something after `start`, and shows `before` in front of it.
    fn print_text(
        &self,
        model: &impl NextToken,
        opened: &Opened,
        tokenizer: &Tokenizer,
        start: &[u32],
        before: Option<&str>,
    ) -> Result<()> {
        let mut stop_tokens = opened.token_ids("eos_token_id");
        if stop_tokens.is_empty() {
            stop_tokens.extend(tokenizer.special().eos);
        }
        // A window slides for texts that go on; answers end with the context.
        let slides = opened.model.abilities().reads == Reads::Tokens;
        let slide = model.limit().filter(|_| slides).map(|limit| {
            let begins = start.first().is_some_and(|&first| tokenizer.is_special(first));
            Slide::by_quarter(limit, usize::from(begins))
        });
        if let (None, Some(limit)) = (slide, model.limit())
            && start.len() > limit
        {
            bail!("the prompt has {} tokens, but the model reads {limit} at most", start.len());
        }
        for setting in unfollowed(&opened.generation(), &opened.config) {
            let _ = writeln!(stderr(), "note: the model's folder sets {setting}, which has no effect here");
        }
        let mut printer = TextPrinter::new(tokenizer, start, &self.stop)?;
        printer.write(before.unwrap_or_default());
        let mut end = None;
        let slid;
        if let Some(beams) = self.beams {
            let settings =
                BeamSettings { beams: usize::from(beams), stop_tokens, slide, ..BeamSettings::default() };
            slid = self.search(model, start, settings, &mut printer)?;
        } else {
            let settings = GenerationSettings {
                max_tokens: self.max_tokens,
                sampling: self.sampling(opened),
                stop_tokens: stop_tokens.clone(),
                slide,
                ..GenerationSettings::default()
            };
            let watch = &mut |_, token: u32| stop_tokens.contains(&token) || printer.print(token);
            let texts = generate(model, &Context::inference(), &[start.to_vec()], &settings, watch)?;
            end = texts.first().map(|text| text.end);
            slid = texts.first().is_some_and(|text| text.slid);
        }
        printer.finish()?;
        if end == Some(GenerationEnd::Context) {
            let _ = writeln!(stderr(), "note: the text fills the model's context, generation stops");
        }
        if let (true, Some(limit)) = (slid, model.limit()) {
            let _ = writeln!(
                stderr(),
                "note: the text is longer than the model's context of {limit} tokens: the oldest ones left it"
            );
        }
        Ok(())
    }

    /// The best text of a beam search, all at once: until the end it may still change. Returns whether it is longer than the
    /// context.
    fn search(
        &self,
        model: &impl NextToken,
        start: &[u32],
        settings: BeamSettings,
        printer: &mut TextPrinter,
    ) -> Result<bool> {
        let limit = model.limit().unwrap_or(usize::MAX);
        // The last token is printed and not read.
        let room = if settings.slide.is_some() {
            usize::MAX
        } else {
            limit.saturating_add(1).saturating_sub(start.len())
        };
        let settings = BeamSettings { max_tokens: self.max_tokens.min(room), ..settings };
        let starts = vec![start.to_vec(); settings.beams];
        let found = beam_search(model, &Context::inference(), &starts, &settings)?;
        let best = found.into_iter().flatten().next().map(|best| best.tokens).unwrap_or_default();
        let longer = start.len() + best.len().saturating_sub(1) > limit;
        for token in best {
            if settings.stop_tokens.contains(&token) || !printer.print(token) {
                break;
            }
        }
        Ok(longer && settings.slide.is_some())
    }

    fn sampling(&self, opened: &Opened) -> Sampling {
        let answers = opened.model.abilities().reads == Reads::Source;
        let configured =
            [opened.generation().get("repetition_penalty"), opened.config.get("repetition_penalty")]
                .into_iter()
                .find_map(|value| value?.as_f64())
                .map(|penalty| penalty as f32)
                .filter(|penalty| *penalty > 0.0 && penalty.is_finite());
        let drawn = self.temperature.is_some() || self.top_k.is_some() || self.top_p.is_some();
        let usual = if answers { 1.0 } else { 0.8 };
        Sampling {
            greedy: self.greedy || (answers && !drawn),
            temperature: self.temperature.unwrap_or(usual),
            top_k: self.top_k.unwrap_or(0),
            top_p: self.top_p.unwrap_or(1.0),
            repetition_penalty: self.repetition_penalty.or(configured).unwrap_or(1.0),
            seed: self.seed,
        }
    }
}

/// GenerationSettings of a model's folder that would change even what the best token is, and that are not implemented.
fn unfollowed(generation: &Value, config: &Map<String, Value>) -> Vec<String> {
    let neutral = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64().is_some_and(|number| number <= 0.0),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    let keys = [
        "no_repeat_ngram_size",
        "encoder_no_repeat_ngram_size",
        "encoder_repetition_penalty",
        "bad_words_ids",
        "suppress_tokens",
        "begin_suppress_tokens",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "min_length",
        "min_new_tokens",
    ];
    let set = |key: &str| generation.get(key).or_else(|| config.get(key)).filter(|value| !neutral(value));
    let shown = |value: &Value| value.to_string().chars().take(40).collect::<String>();
    keys.iter().filter_map(|key| Some(format!("{key} = {}", shown(set(key)?)))).collect()
}

/// Shows tokens as text while they come.
struct TextPrinter<'t> {
    decoder: Decoder<'t>,
    stop: Stop,
    problem: Option<anyhow::Error>,
    /// Whoever read the output has left.
    closed: bool,
}

impl<'t> TextPrinter<'t> {
    /// After some tokens that are not shown, but that decide how the next ones are spelt.
    fn new(tokenizer: &'t Tokenizer, before: &[u32], stop: &[String]) -> Result<Self> {
        let mut decoder = tokenizer.decoder(Special::Drop);
        for &token in before {
            decoder.push(token)?;
        }
        Ok(Self { decoder, stop: Stop::new(stop), problem: None, closed: false })
    }

    /// Prints the text of a token; whether generation continues.
    fn print(&mut self, token: u32) -> bool {
        match self.decoder.push(token) {
            Ok(Some(piece)) => {
                let shown = self.stop.push(&piece);
                self.write(&shown);
            }
            Ok(None) => {}
            Err(error) => self.problem = Some(error.into()),
        }
        !self.stop.stopped() && !self.closed && self.problem.is_none()
    }

    fn write(&mut self, text: &str) {
        if text.is_empty() || self.closed {
            return;
        }
        let mut out = stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.closed = true,
            Err(error) => self.problem = Some(error.into()),
        }
    }

    /// Shows what was held back.
    fn finish(mut self) -> Result<()> {
        let rest = self.decoder.clone().finish()?.unwrap_or_default();
        let shown = self.stop.push(&rest);
        self.write(&shown);
        let held = std::mem::take(&mut self.stop).finish();
        self.write(&held);
        self.write("\n");
        self.problem.map_or(Ok(()), Err)
    }
}
