//! One input read by one model.

use super::answer;
use super::axis::{Axis, Shown};
use super::input::{Input, Spelt, limit, row};
use super::site::{Group, Site};
use super::token::Token;
use super::vectors::Vectors;
use crate::inputs::Inputs;
use crate::model::Opened;
use crate::usage::Usage;
use anyhow::{Context as _, Result};
use saccade::analysis::Tokens;
use saccade::attention::Weights;
use saccade::models::Model;
use saccade::tensor::Tensor;
use saccade::{Context, Probe};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Everything that is kept of one pass: enough to compute any weight, and no weight.
pub struct Reading {
    opened: Arc<Opened>,
    inputs: Inputs,
    source: Vec<Token>,
    target: Vec<Token>,
    sites: Vec<Site>,
    weights: Vec<Weights>,
    /// Scores of the last position, or of the classes.
    scores: Option<Tensor>,
    /// What each word contributed, in models that pool words.
    pool: Option<Vec<f32>>,
    remembered: Mutex<Remembered>,
}

/// What was computed on demand and may be asked for again.
#[derive(Default)]
pub(super) struct Remembered {
    /// Queries, keys and values of the attention looked at last.
    pub vectors: Option<(usize, Arc<Vectors>)>,
    /// The largest value of a map.
    pub peaks: HashMap<super::grid::Which, f32>,
}

impl Reading {
    /// Reads, unless there are more than so many tokens; stops when the flag is set.
    pub fn new(opened: &Arc<Opened>, input: &Input, most: usize, cancel: &AtomicBool) -> Result<Self> {
        let spelt = input.spell(opened, most)?;
        Self::of(opened, spelt, cancel)
    }

    /// The tokens of source and target, without running the model.
    pub fn tokens(opened: &Opened, input: &Input, most: usize) -> Result<(Vec<Token>, Vec<Token>)> {
        let spelt = input.spell(opened, most)?;
        Ok((spelt.source, spelt.target))
    }

    fn of(opened: &Arc<Opened>, spelt: Spelt, cancel: &AtomicBool) -> Result<Self> {
        let Spelt { inputs, source, target } = spelt;
        let sites = Site::all(&opened.model);
        let probe = sites
            .iter()
            .fold(Probe::new(), |probe, site| probe.record(format!("{}.weights", site.name)))
            .record("logits")
            .record("pool.weights");
        inputs.run(&opened.model, &Context::inference().with_cancel(cancel).with_probe(&probe))?;
        let weights = |site: &Site| {
            probe.weights(&site.name).with_context(|| format!("the model did not pass {}", site.name))
        };
        let weights = sites.iter().map(weights).collect::<Result<_>>()?;
        let scores = probe.get("logits")?.map(|logits| answer::kept(&opened.model, &logits)).transpose()?;
        let pool = probe.get("pool.weights")?.map(|pool| pool.to_vec());
        let remembered = Mutex::default();
        Ok(Self {
            opened: Arc::clone(opened),
            inputs,
            source,
            target,
            sites,
            weights,
            scores,
            pool,
            remembered,
        })
    }

    /// The same with one more token at the end, of the target if there is one. Fails if there is no room.
    pub fn extended(&self, id: u32, most: usize, cancel: &AtomicBool) -> Result<Self> {
        let (mut source, mut target) = (self.source.clone(), self.target.clone());
        let grows = if target.is_empty() { &mut source } else { &mut target };
        let most = limit(&self.opened.model).map_or(most, |limit| limit.min(most));
        if grows.len() >= most {
            return Err(Usage::error(format!("the text is as long as it can be: {most} tokens")));
        }
        grows.push(Token::after(grows, id, self.opened.tokenizer.as_ref())?);
        let ids = |tokens: &[Token]| row(&tokens.iter().map(|token| token.id).collect::<Vec<_>>());
        let decoder_ids = if target.is_empty() { None } else { Some(ids(&target)?) };
        let inputs = Inputs { ids: Some(ids(&source)?), decoder_ids, ..Inputs::default() };
        Self::of(&self.opened, Spelt { inputs, source, target }, cancel)
    }

    /// The model.
    pub fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }

    /// The model itself.
    pub fn model(&self) -> &Model {
        &self.opened.model
    }

    /// What the model read.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// The tokens of the source, or of the only text.
    pub fn source(&self) -> &[Token] {
        &self.source
    }

    /// The tokens of the target; none unless the model has a decoder.
    pub fn target(&self) -> &[Token] {
        &self.target
    }

    /// The attentions.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// The number of an attention.
    pub fn find(&self, name: &str) -> Result<usize> {
        let found = self.sites.iter().position(|site| site.name == name);
        found.ok_or_else(|| Usage::error(format!("there is no attention {name}")))
    }

    /// The weights of an attention, by its number.
    pub fn weights(&self, site: usize) -> Result<&Weights> {
        self.weights.get(site).ok_or_else(|| Usage::error(format!("there is no attention {site}")))
    }

    /// Scores of the next token or of the classes, if the model gives any.
    pub fn scores(&self) -> Option<&Tensor> {
        self.scores.as_ref()
    }

    /// What each word contributed to the pool, if the model has one.
    pub fn pool(&self) -> Option<&[f32]> {
        self.pool.as_deref()
    }

    /// The tokens that ask and those that are looked at.
    pub fn sides(&self, group: Group) -> (&[Token], &[Token]) {
        let side = |target: bool| if target { self.target.as_slice() } else { self.source.as_slice() };
        (side(group.asks_from_target()), side(group.looks_at_target()))
    }

    /// What stands on the rows and on the columns of a map.
    pub fn axes(&self, group: Group, shown: Shown) -> (Axis, Axis) {
        let (queries, keys) = self.sides(group);
        (Axis::new(queries, shown), Axis::new(keys, shown))
    }

    /// Tokens as the measures of heads want them.
    pub fn measured_tokens(tokens: &[Token]) -> Tokens {
        let delimits = |text: &str| {
            text.contains(['.', ',', ';', ':', '!', '?']) && !text.contains(char::is_alphanumeric)
        };
        Tokens {
            ids: tokens.iter().map(|token| token.id).collect(),
            special: tokens.iter().map(|token| token.special).collect(),
            delimiter: tokens.iter().map(|token| delimits(&token.text)).collect(),
            ..Tokens::default()
        }
    }

    /// About how many bytes it holds.
    pub fn bytes(&self) -> usize {
        let of_site = |site: &Site| {
            let (queries, keys) = self.sides(site.group);
            let (rows, columns) = (queries.len(), keys.len());
            let vectors = (2 * rows + 2 * columns / site.shared.max(1)) * site.heads * site.width;
            let dense = if site.softmax { 0 } else { site.heads * rows * columns };
            4 * (vectors + dense + site.heads * rows)
        };
        let sites: usize = self.sites.iter().map(of_site).sum();
        // What is remembered on demand is at most as large as the layers themselves.
        let pixels = self.inputs.pixels.as_ref().map_or(0, Tensor::count);
        2 * sites + 4 * (pixels + self.scores.as_ref().map_or(0, Tensor::count)) + 200 * self.source.len()
    }

    pub(super) fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
