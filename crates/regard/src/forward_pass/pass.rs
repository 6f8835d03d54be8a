//! One forward pass of one model, recorded.

use super::colour_limit::ColourLimit;
use super::input::{EncodedInput, Input};
use super::intervention::{Intervention, resolve, strike, strike_alike};
use super::prediction;
use super::residual::Residuals;
use super::site::{Group, Site};
use super::token::Token;
use super::token_axis::{TokenAxis, TokenDisplay};
use super::vectors::Vectors;
use crate::error::usage_error;
use crate::input_tensors;
use crate::model::Opened;
use anyhow::{Context as _, Result, ensure};
use regard_nn::analysis::{Tokens, delimits};
use regard_nn::attention::Weights;
use regard_nn::models::{Inputs, Model};
use regard_nn::tensor::Tensor;
use regard_nn::{Context, Probe};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Interventions inside the model: added to the probe of every pass over the input.
pub type Interventions = Arc<dyn Fn(Probe) -> Probe + Send + Sync>;

/// Everything that is kept of one pass: enough to compute any weight, and no weight.
pub struct ForwardPass {
    /// Its name, which cannot be guessed.
    id: String,
    opened: Arc<Opened>,
    /// The changes made in this pass, as they were requested, and what they do.
    changes: Vec<Intervention>,
    interventions: Option<Interventions>,
    inputs: Inputs,
    source: Vec<Token>,
    target: Vec<Token>,
    sites: Vec<Site>,
    weights: Vec<Weights>,
    /// The name of the pass that ran each attention: another one, where this pass resumed after it.
    origins: Vec<String>,
    /// What each layer read, from which the pass can be resumed.
    residuals: Residuals,
    /// Scores of the last position, or of the classes.
    scores: Option<Tensor>,
    /// The weight of each word, in models that pool words.
    pool: Option<Vec<f32>>,
    /// The number of generated tokens at the end.
    drawn: usize,
    computed: Mutex<Computed>,
}

/// Numbers that were computed on demand and may be needed again.
#[derive(Default)]
pub(super) struct Computed {
    /// Queries, keys and values of the attention requested last.
    pub vectors: Option<(usize, Arc<Vectors>)>,
    /// The mean weights of the heads of each layer, of the group requested last.
    pub means: Option<(Group, Arc<Vec<Tensor>>)>,
    /// The value of the darkest colour of a map.
    pub tops: HashMap<super::attention_map::MapKey, ColourLimit>,
}

impl Computed {
    fn bytes(&self) -> usize {
        let vectors = self.vectors.as_ref().map_or(0, |(_, vectors)| vectors.bytes());
        let means = self.means.iter().flat_map(|(_, means)| means.iter());
        vectors + 4 * means.map(Tensor::count).sum::<usize>()
    }
}

impl ForwardPass {
    /// Runs a model on an input of at most `most` tokens; stops when the flag is set.
    pub fn new(opened: &Arc<Opened>, input: &Input, most: usize, cancel: &AtomicBool) -> Result<Self> {
        Self::continued(opened, input, &[], most, cancel)
    }

    /// Runs a model on an input followed by tokens that were sampled before.
    pub fn continued(
        opened: &Arc<Opened>,
        input: &Input,
        drawn: &[u32],
        most: usize,
        cancel: &AtomicBool,
    ) -> Result<Self> {
        Self::changed(opened, input, drawn, Vec::new(), most, cancel)
    }

    /// The same with changes inside the model.
    pub fn changed(
        opened: &Arc<Opened>,
        input: &Input,
        drawn: &[u32],
        changes: Vec<Intervention>,
        most: usize,
        cancel: &AtomicBool,
    ) -> Result<Self> {
        let mut encoded = input.encode(opened, most)?;
        strike(&changes, opened, &mut encoded)?;
        encoded.append(opened, drawn, most)?;
        Self::resolved(opened, encoded, drawn.len(), changes, most, cancel)
    }

    fn resolved(
        opened: &Arc<Opened>,
        encoded: EncodedInput,
        drawn: usize,
        changes: Vec<Intervention>,
        most: usize,
        cancel: &AtomicBool,
    ) -> Result<Self> {
        let interventions = resolve(&changes, opened, &encoded, (most, cancel))?;
        Ok(Self { changes, ..Self::of(opened, encoded, drawn, interventions, cancel)? })
    }

    /// This pass with other changes, bit for bit as if it were run from the start. The layers before the first in which the changes
    /// differ are not run again. Fails if the changes strike out other tokens: the text would be another.
    pub fn with_changes(&self, changes: Vec<Intervention>, most: usize, cancel: &AtomicBool) -> Result<Self> {
        ensure!(strike_alike(&self.changes, &changes), "a text without other tokens is another text");
        let (source, target) = (self.source.clone(), self.target.clone());
        let encoded = EncodedInput { inputs: self.inputs.clone(), source, target };
        let interventions = resolve(&changes, &self.opened, &encoded, (most, cancel))?;
        let shared = self.shared(&changes);
        let known = Some((self, shared.as_slice()));
        Ok(Self { changes, ..Self::run(&self.opened, encoded, self.drawn, interventions, known, cancel)? })
    }

    /// The layers that would not be run again with other changes: none in models without a residual stream.
    pub fn shared(&self, changes: &[Intervention]) -> Vec<&str> {
        // What interventions that are no data do is not known.
        match self.interventions.is_some() == self.changes.is_empty() {
            true => Vec::new(),
            false => self.residuals.shared(&self.changes, changes),
        }
    }

    /// The tokens of source and target, without running the model.
    pub fn tokens(opened: &Opened, input: &Input, most: usize) -> Result<(Vec<Token>, Vec<Token>)> {
        let encoded = input.encode(opened, most)?;
        Ok((encoded.source, encoded.target))
    }

    /// Runs a model on an encoded input, with interventions.
    pub fn intervened(
        opened: &Arc<Opened>,
        encoded: EncodedInput,
        interventions: Option<Interventions>,
        cancel: &AtomicBool,
    ) -> Result<Self> {
        Self::of(opened, encoded, 0, interventions, cancel)
    }

    fn of(
        opened: &Arc<Opened>,
        encoded: EncodedInput,
        drawn: usize,
        interventions: Option<Interventions>,
        cancel: &AtomicBool,
    ) -> Result<Self> {
        Self::run(opened, encoded, drawn, interventions, None, cancel)
    }

    /// Runs a model; with `known`, not those of its layers that another pass over the same input has run.
    fn run(
        opened: &Arc<Opened>,
        encoded: EncodedInput,
        drawn: usize,
        interventions: Option<Interventions>,
        known: Option<(&Self, &[&str])>,
        cancel: &AtomicBool,
    ) -> Result<Self> {
        let EncodedInput { inputs, source, target } = encoded;
        let sites = Site::all(&*opened.model);
        let probe = sites
            .iter()
            .fold(probe(interventions.as_ref()), |probe, site| probe.record(format!("{}.weights", site.name)))
            .record("logits")
            .record("pool.weights");
        let probe = Residuals::record(probe, &sites);
        let probe = match known {
            Some((known, shared)) => known.residuals.resume(probe, shared),
            None => probe,
        };
        run_model(&inputs, &*opened.model, &Context::inference().with_cancel(cancel).with_probe(&probe))?;
        let id = format!("{:016x}", RandomState::new().build_hasher().finish());
        let attention = |(number, site): (usize, &Site)| {
            let known = known.filter(|(_, shared)| shared.contains(&site.layer_name()));
            if let Some((known, _)) = known {
                return Ok((known.weights[number].clone(), known.origins[number].clone()));
            }
            let weights = probe.weights(&site.name);
            let weights = weights.with_context(|| format!("the model did not pass {}", site.name))?;
            Ok((weights, id.clone()))
        };
        let (weights, origins) =
            sites.iter().enumerate().map(attention).collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let scores =
            probe.get("logits")?.map(|logits| prediction::kept(&*opened.model, &logits)).transpose()?;
        let pool = probe.get("pool.weights")?.map(|pool| pool.to_vec());
        let residuals = Residuals::new(&probe, &sites, known.map(|(known, _)| &known.residuals))?;
        let computed = Mutex::default();
        Ok(Self {
            id,
            opened: Arc::clone(opened),
            changes: Vec::new(),
            interventions,
            inputs,
            source,
            target,
            sites,
            weights,
            origins,
            residuals,
            scores,
            pool,
            drawn,
            computed,
        })
    }

    /// The same with one more token at the end, of the target if there is one. Fails if there is no room.
    pub fn extended(&self, id: u32, most: usize, cancel: &AtomicBool) -> Result<Self> {
        let (source, target) = (self.source.clone(), self.target.clone());
        let inputs = Inputs { ids: self.inputs.ids.clone(), ..Inputs::default() };
        let mut encoded = EncodedInput { inputs, source, target };
        encoded.append(&self.opened, &[id], most)?;
        match self.changes.is_empty() {
            true => Self::of(&self.opened, encoded, self.drawn + 1, self.interventions.clone(), cancel),
            // Where a text is steered depends on where it ends.
            false => {
                Self::resolved(&self.opened, encoded, self.drawn + 1, self.changes.clone(), most, cancel)
            }
        }
    }

    /// Its name, which cannot be guessed.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The names of the passes that ran each attention. What is known of an attention is the same in all passes that have it from the
    /// same one.
    pub fn origins(&self) -> &[String] {
        &self.origins
    }

    /// The changes inside the model.
    pub fn changes(&self) -> &[Intervention] {
        &self.changes
    }

    /// What each layer read.
    pub fn residuals(&self) -> &Residuals {
        &self.residuals
    }

    /// A probe with the interventions of this pass.
    pub fn probe(&self) -> Probe {
        probe(self.interventions.as_ref())
    }

    /// The number of generated tokens at the end.
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

    /// The model's inputs.
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

    /// The tokens at whose positions the model predicts: of the target, if there is one.
    pub fn predicting(&self) -> &[Token] {
        if self.target.is_empty() { &self.source } else { &self.target }
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

    /// The weight of each word in the pool, if the model has one.
    pub fn pool(&self) -> Option<&[f32]> {
        self.pool.as_deref()
    }

    /// The tokens of the queries and those of the keys.
    pub fn sides(&self, group: Group) -> (&[Token], &[Token]) {
        let side = |target: bool| if target { self.target.as_slice() } else { self.source.as_slice() };
        (side(group.queries_target()), side(group.keys_target()))
    }

    /// The tokens on the rows and columns of a map.
    pub fn axes(&self, group: Group, shown: TokenDisplay) -> (TokenAxis, TokenAxis) {
        let (queries, keys) = self.sides(group);
        (TokenAxis::new(queries, shown), TokenAxis::new(keys, shown))
    }

    /// Tokens as the head measures expect them.
    pub fn analysis_tokens(tokens: &[Token]) -> Tokens {
        Tokens {
            ids: tokens.iter().map(|token| token.id).collect(),
            special: tokens.iter().map(|token| token.special).collect(),
            delimiter: tokens.iter().map(|token| delimits(&token.text)).collect(),
            ..Tokens::default()
        }
    }

    /// About how many bytes it holds now, with what was computed on demand. What it shares with another pass counts in both: each
    /// may outlive the other.
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
        let computed = self.computed().bytes();
        let pixels = self.inputs.pictures.as_ref().map_or(0, Tensor::count);
        let scores = self.scores.as_ref().map_or(0, Tensor::count);
        sites
            + computed
            + self.residuals.bytes()
            + 4 * (pixels + scores)
            + 200 * (self.source.len() + self.target.len())
    }

    pub(super) fn computed(&self) -> MutexGuard<'_, Computed> {
        self.computed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A probe with interventions.
fn probe(interventions: Option<&Interventions>) -> Probe {
    interventions.map_or_else(Probe::new, |interventions| interventions(Probe::new()))
}

/// Runs a model for what a probe records. Models that predict the next token compute only the last position's scores: those of
/// all positions would be the largest tensor of a long text, and are not shown.
pub(super) fn run_model(inputs: &Inputs, model: &dyn Model, context: &Context) -> Result<()> {
    match model.abilities().continues() {
        true => model.forward_last(context, inputs).map(drop)?,
        false => input_tensors::run(model, inputs, context)?,
    }
    Ok(())
}
