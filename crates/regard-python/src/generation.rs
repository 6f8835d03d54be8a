//! Text that comes one token at a time, when Python asks for it.

use crate::error::problem;
use crate::model::MOST_TOKENS;
use crate::work::work;
use anyhow::{Result, bail, ensure};
use pyo3::prelude::*;
use regard::forward_pass::Input;
use regard::model::Opened;
use regard_nn::Context;
use regard_nn::attention::Cache;
use regard_nn::generate::{Sampling, Slide};
use regard_nn::models::{Inputs, Predicts, Reads};
use regard_nn::tensor::{Ids, Tensor};
use regard_nn::tokens::Special;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// A text that goes on.
#[pyclass(frozen, module = "regard._regard")]
pub struct Generation {
    opened: Arc<Opened>,
    sampling: Sampling,
    /// The encoder's output, of models that answer a source.
    memory: Option<Tensor>,
    stop_tokens: Vec<u32>,
    most: usize,
    /// How the window slides when the text outgrows the context, and the context; for texts that go on.
    sliding: Option<(Slide, usize)>,
    state: Mutex<State>,
}

struct State {
    cache: Cache,
    /// What is said after, and what was said.
    text: Vec<u32>,
    given: usize,
    /// The part of it that the model reads.
    window: Vec<u32>,
    slid: bool,
    /// How much of the new text Python has.
    emitted: String,
    ended: bool,
}

impl State {
    /// Lets the oldest tokens leave a window that is too long. Those that stay have other positions, and are read again.
    fn slide(&mut self, sliding: Option<(Slide, usize)>) {
        if let Some((slide, limit)) = sliding.filter(|&(_, limit)| self.window.len() > limit) {
            let leaving = slide.leaving(self.window.len(), limit);
            self.window.drain(leaving);
            self.cache = Cache::new();
            self.slid = true;
        }
    }
}

impl Generation {
    pub fn new(
        opened: Arc<Opened>,
        input: &Input,
        most: usize,
        sampling: Sampling,
        stop_at_end: bool,
    ) -> Result<Self> {
        sampling.check()?;
        let model = &*opened.model;
        let abilities = model.abilities();
        if abilities.predicts != Predicts::NextToken {
            bail!(
                "a {} does not generate text; causal language models and encoder–decoder models do",
                model.kind()
            );
        }
        let spelt = input.encode(&opened, MOST_TOKENS)?;
        let (memory, text) = match abilities.reads {
            Reads::Source => {
                let inputs = Inputs { ids: spelt.inputs.ids.clone(), ..Inputs::default() };
                let memory = model.encode(&Context::inference(), &inputs)?;
                (Some(memory), spelt.target.iter().map(|token| token.id).collect())
            }
            _ => (None, spelt.source.iter().map(|token| token.id).collect::<Vec<u32>>()),
        };
        ensure!(!text.is_empty(), "every prompt needs at least one token");
        let mut stop_tokens = if stop_at_end { opened.token_ids("eos_token_id") } else { Vec::new() };
        if stop_at_end && stop_tokens.is_empty() {
            stop_tokens.extend(opened.tokenizer.as_ref().and_then(|tokenizer| tokenizer.special().eos));
        }
        let tokenizer = opened.tokenizer.as_ref();
        let begins = tokenizer.is_some_and(|tokenizer| tokenizer.is_special(text[0]));
        let sliding = abilities
            .context
            .filter(|_| memory.is_none())
            .map(|limit| (Slide::by_quarter(limit, usize::from(begins)), limit));
        let given = text.len();
        let state = State {
            cache: Cache::new(),
            window: text.clone(),
            slid: false,
            text,
            given,
            emitted: String::new(),
            ended: false,
        };
        Ok(Self { opened, sampling, memory, stop_tokens, most, sliding, state: Mutex::new(state) })
    }

    /// One more token and the text that is certain with it; none at the end.
    fn step(&self, cancel: &AtomicBool) -> Result<Option<(u32, String)>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let step = state.text.len() - state.given;
        // Answers end with the context; texts go on.
        let limit = self.opened.model.abilities().context.filter(|_| self.sliding.is_none());
        if state.ended || step >= self.most || limit.is_some_and(|limit| state.text.len() > limit) {
            return Ok(None);
        }
        state.slide(self.sliding);
        let read = state.cache.length();
        let fresh = Ids::new(&state.window[read..], [1, state.window.len() - read])?;
        let inputs = match &self.memory {
            Some(memory) => {
                Inputs { memory: Some(memory.clone()), ..Inputs::default() }.answered(&fresh, None)
            }
            None => Inputs::ids(&fresh),
        };
        let context = Context::inference().with_cancel(cancel).with_cache(&state.cache);
        let scores = self.opened.model.forward_last(&context, &inputs)?;
        let token = self.sampling.choose(&scores.values(), &state.text, (0, step as u64));
        state.text.push(token);
        state.window.push(token);
        state.ended = self.stop_tokens.contains(&token);
        let last =
            state.ended || step + 1 >= self.most || limit.is_some_and(|limit| state.text.len() > limit);
        let piece = if state.ended { String::new() } else { self.piece(&mut state, last)? };
        Ok(Some((token, piece)))
    }

    /// What the last token adds to the text. The end of a character that has not all come is held back.
    fn piece(&self, state: &mut State, last: bool) -> Result<String> {
        let Some(tokenizer) = &self.opened.tokenizer else {
            return Ok(state.text.last().map(|id| format!("{id} ")).unwrap_or_default());
        };
        let before = tokenizer.decode(&state.text[..state.given], Special::Drop)?;
        let all = tokenizer.decode(&state.text, Special::Drop)?;
        let new = all.strip_prefix(&before).map(str::to_owned);
        let new = match new {
            Some(new) => new,
            None => tokenizer.decode(&state.text[state.given..], Special::Drop)?,
        };
        let certain = if last { new.as_str() } else { new.trim_end_matches('\u{fffd}') };
        let Some(piece) = certain.strip_prefix(state.emitted.as_str()).map(str::to_owned) else {
            return Ok(String::new());
        };
        state.emitted.push_str(&piece);
        Ok(piece)
    }
}

#[pymethods]
impl Generation {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<(u32, String)>> {
        work(py, |cancel| self.step(cancel))
    }

    /// The ids that have been said.
    #[getter]
    fn ids(&self) -> PyResult<Vec<u32>> {
        let state = self.state.try_lock().map_err(|_| problem("the text is being continued elsewhere"))?;
        Ok(state.text[state.given..].to_vec())
    }

    /// The model's context, once the text is longer.
    #[getter]
    fn outgrown(&self) -> PyResult<Option<usize>> {
        let state = self.state.try_lock().map_err(|_| problem("the text is being continued elsewhere"))?;
        Ok(self.sliding.map(|(_, limit)| limit).filter(|_| state.slid))
    }
}
