//! Text generation: greedy decoding, sampling and beam search.
//!
//! ```
//! use regard_nn::generate::{Continue, GenerationSettings, generate};
//! use regard_nn::models::{GptConfig, Transformer};
//! use regard_nn::Context;
//!
//! let sizes = GptConfig { vocabulary: 11, context: 16, n_layers: 1, n_heads: 2, d_model: 8, ..Default::default() };
//! let gpt = Transformer::new(sizes.form(), 0)?;
//! let settings = GenerationSettings { max_tokens: 5, ..GenerationSettings::default() };
//! let prompts = [vec![1, 2, 3], vec![4]];
//! let texts = generate(&Continue::new(&gpt)?, &Context::inference(), &prompts, &settings, &mut |_, _| true)?;
//! assert_eq!((texts[0].tokens.len(), texts[1].tokens.len()), (5, 5));
//! # Ok::<(), regard_nn::Error>(())
//! ```

mod beam;
mod reader;
mod sampling;
mod slide;
mod stop;
mod texts;

pub use beam::{BeamSettings, Hypothesis, beam_search};
pub use sampling::{Sampling, distribution};
pub use slide::Slide;
pub use stop::Stop;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::{Inputs, Model};
use reader::Reader;
use regard_tensor::ops::concatenate;
use regard_tensor::{Device, Ids, Mask, Tensor};
use texts::Texts;

/// A predictor of the next token: a causal language model, or a decoder with its encoded source.
pub trait NextToken {
    /// Logits (batch, 1, vocabulary) after the last of the ids (batch, time); `present` is false for padding.
    fn next_scores(&self, context: &Context, ids: &Ids, present: Option<&Mask>) -> Result<Tensor>;

    /// The maximum context length, if there is one.
    fn limit(&self) -> Option<usize>;

    /// Where it computes.
    fn device(&self) -> Device {
        Device::Cpu
    }
}

/// A language model that continues a text.
pub struct Continue<'a>(&'a dyn Model);

impl<'a> Continue<'a> {
    /// Returns an error if the model does not predict the next token.
    pub fn new(model: &'a dyn Model) -> Result<Self> {
        match model.abilities().continues() {
            true => Ok(Self(model)),
            false => Err(Error::input("generation", format!("a {} does not continue texts", model.kind()))),
        }
    }
}

impl NextToken for Continue<'_> {
    fn next_scores(&self, context: &Context, ids: &Ids, present: Option<&Mask>) -> Result<Tensor> {
        self.0.forward_last(context, &Inputs::masked(ids, present))
    }

    fn limit(&self) -> Option<usize> {
        self.0.abilities().context
    }

    fn device(&self) -> Device {
        self.0.device()
    }
}

/// An encoder–decoder model with its encoded source texts.
pub struct Answer<'a> {
    model: &'a dyn Model,
    encoded: Tensor,
    source: Option<Mask>,
    start: u32,
}

impl<'a> Answer<'a> {
    /// Encodes source texts (batch, time). Each will be decoded `copies` times, in neighbouring rows.
    pub fn new(
        model: &'a dyn Model,
        context: &Context,
        source: &Ids,
        present: Option<&Mask>,
        copies: usize,
    ) -> Result<Self> {
        let Some(start) = model.abilities().start else {
            return Err(Error::input(
                "generation",
                format!("a {} is not an encoder–decoder model", model.kind()),
            ));
        };
        if copies == 0 {
            return Err(Error::input("generation", "the number of copies must be at least 1"));
        }
        let encoded = model.encode(context, &Inputs::masked(source, present))?;
        let rows = source.shape()[0];
        let repeated = (0..rows * copies).map(|row| Ok(encoded.slice(0, row / copies, 1)?));
        let repeated = repeated.collect::<Result<Vec<_>>>()?;
        let encoded = concatenate(&repeated.iter().collect::<Vec<_>>(), 0)?;
        let time = source.shape().last();
        let source = present.map(|present| {
            Mask::from_fn([rows * copies, time], |at| present.values()[at[0] / copies * time + at[1]])
        });
        Ok(Self { model, encoded, source, start })
    }

    /// The start token of each row.
    pub fn start(&self) -> Vec<Vec<u32>> {
        vec![vec![self.start]; self.encoded.shape()[0]]
    }
}

impl NextToken for Answer<'_> {
    fn next_scores(&self, context: &Context, ids: &Ids, present: Option<&Mask>) -> Result<Tensor> {
        let memory = Some(self.encoded.clone());
        let inputs = Inputs { memory, present: self.source.clone(), ..Inputs::default() };
        self.model.forward_last(context, &inputs.answered(ids, present))
    }

    fn limit(&self) -> Option<usize> {
        self.model.abilities().context
    }

    fn device(&self) -> Device {
        self.model.device()
    }
}

/// Settings of [`generate`].
#[derive(Debug, Clone)]
pub struct GenerationSettings {
    /// The maximum number of new tokens.
    pub max_tokens: usize,
    /// How the next token is chosen.
    pub sampling: Sampling,
    /// Tokens that end a text.
    pub stop_tokens: Vec<u32>,
    /// Whether keys and values of earlier tokens are cached.
    pub cached: bool,
    /// What leaves a full context, so that the text goes on; without it, a text ends when the context is full.
    pub slide: Option<Slide>,
}

impl Default for GenerationSettings {
    fn default() -> Self {
        Self {
            max_tokens: 100,
            sampling: Sampling::default(),
            stop_tokens: Vec::new(),
            cached: true,
            slide: None,
        }
    }
}

/// Why a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GenerationEnd {
    /// A stop token was generated.
    Token,
    /// The callback returned false.
    Callback,
    /// The maximum number of new tokens was reached.
    Length,
    /// The model's context is full.
    Context,
}

/// The continuation of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Continuation {
    /// The new tokens, a stop token included.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub end: GenerationEnd,
    /// Whether tokens left the context on the way.
    pub slid: bool,
}

/// Continues each prompt independently. (Random draws depend on a prompt's index, so equal prompts continue differently.)
///
/// `on_token` is called with the prompt's index and each new token, and returns whether that text should continue. Callers
/// use it to decode, to print, and to search for stop strings ([`Stop`]).
pub fn generate(
    model: &impl NextToken,
    context: &Context,
    prompts: &[Vec<u32>],
    settings: &GenerationSettings,
    on_token: &mut dyn FnMut(usize, u32) -> bool,
) -> Result<Vec<Continuation>> {
    settings.sampling.check()?;
    let limit = model.limit();
    if let (Some(slide), Some(limit)) = (settings.slide, limit) {
        slide.check(limit)?;
    }
    let mut texts = Texts::new(prompts, settings.slide, limit)?;
    let room = |read: usize| read.saturating_add(settings.max_tokens).min(limit.unwrap_or(usize::MAX));
    let mut reader = Reader::new(texts.width(), room(texts.width()));
    let mut ends: Vec<Option<GenerationEnd>> = vec![None; prompts.len()];
    let mut fresh = 0..texts.width();
    for step in 0..settings.max_tokens {
        if ends.iter().all(Option::is_some) {
            break;
        }
        context.check()?;
        let read = if settings.cached { fresh.clone() } else { 0..texts.width() };
        let (ids, present) = texts.columns(read)?;
        let scores = match settings.cached {
            true => reader.read(model, context, &ids, present.as_ref())?,
            false => model.next_scores(context, &ids, present.as_ref())?,
        };
        let scores = checked(scores, prompts.len())?;
        let vocabulary = scores.shape().last();
        for (row, scores) in scores.values().chunks(vocabulary).enumerate() {
            if ends[row].is_some() {
                continue;
            }
            let token = settings.sampling.choose(scores, texts.text(row), (row as u64, step as u64));
            let wanted = on_token(row, token);
            let full = settings.slide.is_none() && Some(texts.text(row).len()) == limit;
            ends[row] = if settings.stop_tokens.contains(&token) {
                Some(GenerationEnd::Token)
            } else if !wanted {
                Some(GenerationEnd::Callback)
            } else if step + 1 < settings.max_tokens && full {
                Some(GenerationEnd::Context)
            } else {
                None
            };
            texts.push(row, token);
        }
        if step + 1 == settings.max_tokens {
            break;
        }
        // The last token of a text is not fed back.
        let going_on: Vec<bool> = ends.iter().map(Option::is_none).collect();
        if texts.extend(&going_on) {
            fresh = texts.width() - 1..texts.width();
        } else {
            // Tokens left the context: those that stay have other positions, and are read again.
            reader = Reader::new(texts.width(), room(texts.width()));
            fresh = 0..texts.width();
        }
    }
    let ended = ends.iter().enumerate().map(|(row, end)| Continuation {
        tokens: texts.text(row)[prompts[row].len()..].to_vec(),
        end: end.unwrap_or(GenerationEnd::Length),
        slid: texts.slid(row),
    });
    Ok(ended.collect())
}

/// Checks that logits have the shape (rows, 1, vocabulary).
fn checked(scores: Tensor, rows: usize) -> Result<Tensor> {
    match scores.shape()[..] {
        [found, 1, vocabulary] if found == rows && vocabulary > 0 => Ok(scores),
        _ => {
            let problem = format!("scores must be ({rows}, 1, vocabulary), got {}", scores.shape());
            Err(Error::input("generation", problem))
        }
    }
}
