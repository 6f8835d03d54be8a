//! Generation: one token after the other.
//!
//! ```
//! use regard_nn::generate::{Continue, GenerationSettings, generate};
//! use regard_nn::models::{GptConfig, Transformer};
//! use regard_nn::Context;
//!
//! let sizes = GptConfig { vocabulary: 11, context: 16, n_layers: 1, n_heads: 2, d_model: 8, ..Default::default() };
//! let gpt = Transformer::new(sizes.form(), 0)?;
//! let settings = GenerationSettings { max_tokens: 5, ..GenerationSettings::default() };
//! let said = generate(&Continue::new(&gpt)?, &Context::inference(), &[vec![1, 2, 3], vec![4]], &settings, &mut |_, _| true)?;
//! assert_eq!((said[0].tokens.len(), said[1].tokens.len()), (5, 5));
//! # Ok::<(), regard_nn::Error>(())
//! ```

mod beam;
mod sampling;
mod stop;

pub use beam::{BeamSettings, Hypothesis, beam_search};
pub use sampling::{Sampling, distribution};
pub use stop::Stop;

use crate::attention::Cache;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::{Inputs, Model};
use regard_tensor::ops::concatenate;
use regard_tensor::{Ids, Mask, Tensor};

/// Something that scores the next token: a causal language model, or a decoder about to answer.
pub trait NextToken {
    /// Scores (batch, 1, vocabulary) after the last of the ids (batch, time), of which `present` names those that are not
    /// padding.
    fn next_scores(&self, context: &Context, ids: &Ids, present: Option<&Mask>) -> Result<Tensor>;

    /// The most tokens it can read, if there is a limit.
    fn limit(&self) -> Option<usize>;
}

/// A model that continues a text.
pub struct Continue<'a>(&'a dyn Model);

impl<'a> Continue<'a> {
    /// Rejects models that predict something else.
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
}

/// An encoder–decoder model that has read its sources and is about to answer.
pub struct Answer<'a> {
    model: &'a dyn Model,
    encoded: Tensor,
    source: Option<Mask>,
    start: u32,
}

impl<'a> Answer<'a> {
    /// Reads sources (batch, time), each of which will be answered in `copies` ways, side by side.
    pub fn new(
        model: &'a dyn Model,
        context: &Context,
        source: &Ids,
        present: Option<&Mask>,
        copies: usize,
    ) -> Result<Self> {
        let Some(start) = model.abilities().start else {
            return Err(Error::input("generation", format!("a {} does not answer texts", model.kind())));
        };
        if copies == 0 {
            return Err(Error::input("generation", "a source needs at least one answer"));
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

    /// What each answer starts with.
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
}

/// How to generate.
#[derive(Debug, Clone)]
pub struct GenerationSettings {
    /// The most tokens to say.
    pub max_tokens: usize,
    /// How the next token is chosen.
    pub sampling: Sampling,
    /// Tokens after which a text is finished.
    pub stop_tokens: Vec<u32>,
    /// Whether keys and values of earlier tokens are kept rather than computed again.
    pub cached: bool,
}

impl Default for GenerationSettings {
    fn default() -> Self {
        Self { max_tokens: 100, sampling: Sampling::default(), stop_tokens: Vec::new(), cached: true }
    }
}

/// Why a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerationEnd {
    /// It said a stop token.
    Token,
    /// Whoever watched had enough.
    Watcher,
    /// It said as much as it was to say.
    Length,
    /// The model can read no more.
    Context,
}

/// What was said after a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    /// The new tokens, a stop token included.
    pub tokens: Vec<u32>,
    /// Why there are no more.
    pub end: GenerationEnd,
}

/// Continues prompts, each of them as if it were alone. (Draws depend on a prompt's number, so that equal ones go on
/// differently.)
///
/// `watch` sees each new token with the number of its prompt and answers whether that text should go on: this is where a
/// caller decodes, prints, and looks for strings to stop at ([`Stop`]).
pub fn generate(
    model: &impl NextToken,
    context: &Context,
    prompts: &[Vec<u32>],
    settings: &GenerationSettings,
    watch: &mut dyn FnMut(usize, u32) -> bool,
) -> Result<Vec<Continuation>> {
    settings.sampling.check()?;
    let mut texts = Texts::new(prompts)?;
    let cache = Cache::new();
    let context = if settings.cached { context.clone().with_cache(&cache) } else { context.clone() };
    let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
    if let Some(limit) = model.limit().filter(|&limit| longest > limit) {
        let problem = format!("a prompt of {longest} tokens does not fit its context of {limit}");
        return Err(Error::input("generation", problem));
    }
    let mut ends: Vec<Option<GenerationEnd>> = vec![None; prompts.len()];
    let mut fresh = 0..texts.width();
    for step in 0..settings.max_tokens {
        if ends.iter().all(Option::is_some) {
            break;
        }
        context.check()?;
        let read = if settings.cached { fresh.clone() } else { 0..texts.width() };
        let (ids, present) = texts.columns(read)?;
        let scores = checked(model.next_scores(&context, &ids, present.as_ref())?, prompts.len())?;
        let vocabulary = scores.shape().last();
        let mut column = Vec::with_capacity(prompts.len());
        for (row, scores) in scores.values().chunks(vocabulary).enumerate() {
            if ends[row].is_some() {
                column.push(None);
                continue;
            }
            let token = settings.sampling.choose(scores, texts.text(row), (row as u64, step as u64));
            let wanted = watch(row, token);
            if settings.stop_tokens.contains(&token) {
                ends[row] = Some(GenerationEnd::Token);
            } else if !wanted {
                ends[row] = Some(GenerationEnd::Watcher);
            } else if step + 1 < settings.max_tokens && Some(texts.text(row).len()) == model.limit() {
                ends[row] = Some(GenerationEnd::Context);
            }
            texts.say(row, token);
            // What comes last is not read.
            column.push(if ends[row].is_some() { None } else { Some(token) });
        }
        fresh = texts.width()..texts.width() + 1;
        texts.columns.push(column);
    }
    let ended = ends.iter().enumerate().map(|(row, end)| Continuation {
        tokens: texts.text(row)[prompts[row].len()..].to_vec(),
        end: end.unwrap_or(GenerationEnd::Length),
    });
    Ok(ended.collect())
}

/// The scores as they came, if they have the shape that a model owes, (rows, 1, vocabulary).
fn checked(scores: Tensor, rows: usize) -> Result<Tensor> {
    match scores.shape()[..] {
        [found, 1, vocabulary] if found == rows && vocabulary > 0 => Ok(scores),
        _ => {
            let problem = format!("scores must be ({rows}, 1, vocabulary), got {}", scores.shape());
            Err(Error::input("generation", problem))
        }
    }
}

/// Texts that grow at the same end: shorter prompts have padding before them.
struct Texts {
    /// The tokens of each text, without padding.
    texts: Vec<Vec<u32>>,
    /// The same in columns, `None` where there is padding or a text has ended.
    columns: Vec<Vec<Option<u32>>>,
}

impl Texts {
    fn new(prompts: &[Vec<u32>]) -> Result<Self> {
        if prompts.is_empty() {
            return Err(Error::input("generation", "there is no prompt"));
        }
        if let Some(number) = prompts.iter().position(Vec::is_empty) {
            let problem = format!("every prompt needs at least one token, number {number} has none");
            return Err(Error::input("generation", problem));
        }
        let width = prompts.iter().map(Vec::len).max().unwrap_or(0);
        let at = |prompt: &Vec<u32>, column: usize| {
            (column + prompt.len()).checked_sub(width).map(|place| prompt[place])
        };
        let columns =
            (0..width).map(|column| prompts.iter().map(|prompt| at(prompt, column)).collect()).collect();
        Ok(Self { texts: prompts.to_vec(), columns })
    }

    fn width(&self) -> usize {
        self.columns.len()
    }

    fn text(&self, row: usize) -> &[u32] {
        &self.texts[row]
    }

    fn say(&mut self, row: usize, token: u32) {
        self.texts[row].push(token);
    }

    /// Ids (rows, columns) of a range, and which of them are real, if any text of the batch has padding.
    fn columns(&self, range: std::ops::Range<usize>) -> Result<(Ids, Option<Mask>)> {
        let shape = [self.texts.len(), range.len()];
        let at = |row: usize, column: usize| self.columns[range.start + column][row];
        let mut ids = Vec::with_capacity(shape[0] * shape[1]);
        let mut real = Vec::with_capacity(shape[0] * shape[1]);
        for row in 0..shape[0] {
            for column in 0..shape[1] {
                let token = at(row, column);
                ids.push(token.unwrap_or(0));
                real.push(token.is_some());
            }
        }
        let padded = self.columns.iter().any(|column| column.contains(&None));
        let present = if padded { Some(Mask::new(&real, shape)?) } else { None };
        Ok((Ids::new(&ids, shape)?, present))
    }
}
