//! One input read by one model.

use super::answer;
use super::axis::{Axis, Shown};
use super::input::{Input, Spelt};
use super::site::{Group, Site};
use super::token::Token;
use super::top::Top;
use super::vectors::Vectors;
use crate::error::usage_error;
use crate::input_tensors;
use crate::model::Opened;
use anyhow::{Context as _, Result};
use regard_nn::analysis::{Tokens, delimits};
use regard_nn::attention::Weights;
use regard_nn::models::{Inputs, Model};
use regard_nn::tensor::Tensor;
use regard_nn::{Context, Probe};
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
    /// How many tokens at the end were drawn after what was given.
    drawn: usize,
    remembered: Mutex<Remembered>,
}

/// What was computed on demand and may be asked for again.
#[derive(Default)]
pub(super) struct Remembered {
    /// Queries, keys and values of the attention looked at last.
    pub vectors: Option<(usize, Arc<Vectors>)>,
    /// What the darkest colour of a map stands for.
    pub tops: HashMap<super::grid::Which, Top>,
}

impl Reading {
    /// Reads, unless there are more than so many tokens; stops when the flag is set.
    pub fn new(opened: &Arc<Opened>, input: &Input, most: usize, cancel: &AtomicBool) -> Result<Self> {
        Self::going_on(opened, input, &[], most, cancel)
    }

    /// Reads with tokens after it that were drawn before.
    pub fn going_on(
        opened: &Arc<Opened>,
        input: &Input,
        drawn: &[u32],
        most: usize,
        cancel: &AtomicBool,
    ) -> Result<Self> {
        let mut spelt = input.spell(opened, most)?;
        spelt.go_on(opened, drawn, most)?;
        Self::of(opened, spelt, drawn.len(), cancel)
    }

    /// The tokens of source and target, without running the model.
    pub fn tokens(opened: &Opened, input: &Input, most: usize) -> Result<(Vec<Token>, Vec<Token>)> {
        let spelt = input.spell(opened, most)?;
        Ok((spelt.source, spelt.target))
    }

    fn of(opened: &Arc<Opened>, spelt: Spelt, drawn: usize, cancel: &AtomicBool) -> Result<Self> {
        let Spelt { inputs, source, target } = spelt;
        let sites = Site::all(&*opened.model);
        let probe = sites
            .iter()
            .fold(Probe::new(), |probe, site| probe.record(format!("{}.weights", site.name)))
            .record("logits")
            .record("pool.weights");
        pass(&inputs, &*opened.model, &Context::inference().with_cancel(cancel).with_probe(&probe))?;
        let weights = |site: &Site| {
            probe.weights(&site.name).with_context(|| format!("the model did not pass {}", site.name))
        };
        let weights = sites.iter().map(weights).collect::<Result<_>>()?;
        let scores = probe.get("logits")?.map(|logits| answer::kept(&*opened.model, &logits)).transpose()?;
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
            drawn,
            remembered,
        })
    }

    /// The same with one more token at the end, of the target if there is one. Fails if there is no room.
    pub fn extended(&self, id: u32, most: usize, cancel: &AtomicBool) -> Result<Self> {
        let (source, target) = (self.source.clone(), self.target.clone());
        let inputs = Inputs { ids: self.inputs.ids.clone(), ..Inputs::default() };
        let mut spelt = Spelt { inputs, source, target };
        spelt.go_on(&self.opened, &[id], most)?;
        Self::of(&self.opened, spelt, self.drawn + 1, cancel)
    }

    /// How many tokens at the end were drawn after what was given.
    pub fn drawn(&self) -> usize {
        self.drawn
    }

    /// The model.
    pub fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }

    /// The model itself.
    pub fn model(&self) -> &dyn Model {
        &*self.opened.model
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
        found.ok_or_else(|| usage_error(format!("there is no attention {name}")))
    }

    /// The weights of an attention, by its number.
    pub fn weights(&self, site: usize) -> Result<&Weights> {
        self.weights.get(site).ok_or_else(|| usage_error(format!("there is no attention {site}")))
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
        Tokens {
            ids: tokens.iter().map(|token| token.id).collect(),
            special: tokens.iter().map(|token| token.special).collect(),
            delimiter: tokens.iter().map(|token| delimits(&token.text)).collect(),
            ..Tokens::default()
        }
    }

    /// About how many bytes it holds now, with what was computed on demand.
    pub fn bytes(&self) -> usize {
        let of_site = |site: &Site| {
            let (queries, keys) = self.sides(site.group);
            let (rows, columns) = (queries.len(), keys.len());
            let vectors = (2 * rows + 2 * columns / site.shared.max(1)) * site.heads * site.width;
            // What is added by distance is shared by the layers.
            let pairs = !site.softmax || (site.biased && site.layer == 0);
            let dense = if pairs { site.heads * rows * columns } else { 0 };
            4 * (vectors + dense + site.heads * rows)
        };
        let sites: usize = self.sites.iter().map(of_site).sum();
        let remembered = self.remembered().vectors.as_ref().map_or(0, |(_, vectors)| vectors.bytes());
        let pixels = self.inputs.pictures.as_ref().map_or(0, Tensor::count);
        let scores = self.scores.as_ref().map_or(0, Tensor::count);
        sites + remembered + 4 * (pixels + scores) + 200 * (self.source.len() + self.target.len())
    }

    pub(super) fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pass for what a probe sees of it. Of models that say what comes next only the last scores are computed: those of all
/// places are the largest thing in a pass over a long text, and nobody looks at them.
pub(super) fn pass(inputs: &Inputs, model: &dyn Model, context: &Context) -> Result<()> {
    match model.abilities().continues() {
        true => model.forward_last(context, inputs).map(drop)?,
        false => input_tensors::run(model, inputs, context)?,
    }
    Ok(())
}
