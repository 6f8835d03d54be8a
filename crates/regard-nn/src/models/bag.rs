//! A bag of word vectors: their mean, and a classifier. Attention over the vectors is optional.
//!
//! ```text
//! logit = mean(embedding of each word) · w + b
//! logit = mean(attention(embedding + position)) · w + b
//! ```
//!
//! The smallest model in which words get vectors as a by-product of another task. What would make it better (positions,
//! trained projections, a residual connection) can be switched on one by one.

use super::inputs::Inputs;
use super::model::{Abilities, AttentionSite, Model, Predicts, two_classes, written};
use super::padding::shares;
use super::sizes::ensure_sizes;
use crate::attention::{AttentionConfig, MultiHead, Pattern, Rules};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Embedding, Linear, LinearConfig};
use crate::parameter::{Draw, Initial, Module, Parameter, module};
use crate::position::{Position, PositionSizes, Positions};
use regard_tensor::{Ids, Mask, Tensor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The sizes and the form of a bag.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BagConfig {
    /// The number of words it knows.
    pub vocabulary: usize,
    /// The width of a word's vector.
    pub d_embedding: usize,
    /// The number of heads that attend over the vectors; 0 for none.
    pub n_heads: usize,
    /// How attention knows where a word stands.
    pub positions: Position,
    /// The most positions a learned table has.
    pub context: usize,
    /// Whether what attention says is added to the vectors rather than taking their place.
    pub residual: bool,
    /// Whether the projections of attention are trained, or stay as they were drawn.
    pub trained: bool,
    /// The standard deviation of word vectors and positions before training; PyTorch's embeddings start with 1.
    pub deviation: f32,
}

impl Default for BagConfig {
    fn default() -> Self {
        Self {
            vocabulary: 15_000,
            d_embedding: 16,
            n_heads: 0,
            positions: Position::None,
            context: 512,
            residual: false,
            trained: true,
            deviation: 0.1,
        }
    }
}

/// A bag of vectors.
#[derive(Debug, Clone)]
pub struct Bag {
    words: Embedding,
    positions: Positions,
    attention: Option<MultiHead>,
    classifier: Linear,
    config: BagConfig,
}

module!(Bag { words, positions, attention, classifier });

impl Bag {
    /// A model with random weights.
    pub fn new(config: BagConfig, seed: u64) -> Result<Self> {
        Self::build(config, &Initial::new(seed))
    }

    /// A model with weights from a source.
    pub fn build(config: BagConfig, initial: &Initial) -> Result<Self> {
        let BagConfig { vocabulary, d_embedding, n_heads, context, deviation, .. } = config;
        let sizes = [("vocabulary", vocabulary), ("d_embedding", d_embedding), ("context", context)];
        ensure_sizes("bag", &sizes)?;
        if !(deviation.is_finite() && deviation >= 0.0) {
            let problem = format!("the initial deviation must be a number of 0 or more, got {deviation}");
            return Err(Error::configuration("bag", problem));
        }
        if n_heads == 0 && config.positions.acts_in_attention() {
            let problem = "rotary, alibi and relative positions are seen by attention only: give it heads";
            return Err(Error::configuration("bag", problem));
        }
        let attention = AttentionConfig { fused: false, ..AttentionConfig::new(d_embedding, n_heads.max(1)) };
        let draw = Draw::Normal((d_embedding as f32).powf(-0.5));
        let heads = match n_heads {
            0 => None,
            _ => Some(MultiHead::new(&initial.part("attention"), attention, (draw, draw))?),
        };
        let sizes = PositionSizes {
            context,
            d_model: d_embedding,
            n_heads: n_heads.max(1),
            d_head: attention.d_head,
            bidirectional: true,
        };
        let line = LinearConfig::new(d_embedding, 1);
        Ok(Self {
            words: Embedding::new(
                &initial.part("words"),
                (vocabulary, d_embedding),
                Draw::Normal(deviation),
            )?,
            positions: Positions::new(&initial.part("positions"), config.positions, sizes, deviation)?,
            attention: heads,
            classifier: Linear::new(&initial.part("classifier"), line, draw)?,
            config,
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &BagConfig {
        &self.config
    }
}

impl Model for Bag {
    fn kind(&self) -> &'static str {
        "bag"
    }

    fn abilities(&self) -> Abilities {
        let context = self.positions.limit();
        Abilities { one_logit: true, context, ..Abilities::new(Predicts::Class, 2) }
    }

    fn attentions(&self) -> Vec<AttentionSite<'_>> {
        self.attention.iter().map(|attention| self.positions.site(attention)).collect()
    }

    fn hidden(&self, context: &Context, inputs: &Inputs) -> Result<Tensor> {
        let context = &context.without_cache();
        let ids = inputs.require_ids("bag")?;
        inputs.lengths("bag")?;
        let present = inputs.present.as_ref();
        let (batch, time) = (ids.shape()[0], ids.shape()[1]);
        if self.positions.limit().is_some_and(|limit| time > limit) {
            let problem = format!("{time} words do not fit its context of {}", self.config.context);
            return Err(Error::input("bag", problem));
        }
        let places = Ids::new(&(0..time as u32).collect::<Vec<_>>(), [1, time])?;
        let words = self.positions.add(context, &self.words.forward(context, ids)?, &places)?;
        let mut x = context.see("embeddings", words)?; // (B, T, E)
        if let Some(attention) = &self.attention {
            let rules = Rules::new(Pattern::Full, time, time)?
                .padded(present.cloned())
                .biased(self.positions.bias(context, time, time)?)
                .rotated(self.positions.rotation(&places, batch)?);
            let here = context.within("layers").within(0).within("self");
            let here = if self.config.trained { here } else { here.frozen() };
            let output = attention.forward(&here, &x, None, &rules)?;
            x = if self.config.residual { x.add(&output)? } else { output };
        }
        Ok(mean_pool(&x, present)?.reshape([batch, 1, x.shape().last()])?)
    }

    fn scores(&self, context: &Context, hidden: &Tensor) -> Result<Tensor> {
        two_classes(context, &self.classifier, hidden)
    }

    fn token_embeddings(&self) -> Option<&Parameter> {
        Some(self.words.weight())
    }

    fn token_embeddings_mut(&mut self) -> Option<&mut Parameter> {
        Some(self.words.weight_mut())
    }

    fn fresh(&self, seed: u64) -> Result<Box<dyn Model>> {
        Ok(Box::new(Self::new(self.config.clone(), seed)?))
    }

    fn duplicate(&self) -> Box<dyn Model> {
        Box::new(self.independent())
    }

    fn settings(&self) -> Result<(&'static str, Value)> {
        written("bag", &self.config)
    }
}

/// The mean of the vectors that are not padding: (batch, time, width) → (batch, width).
fn mean_pool(x: &Tensor, present: Option<&Mask>) -> Result<Tensor> {
    let Some(present) = present else { return Ok(x.mean(1)?) };
    Ok(shares(present, x.device())?.matmul(x)?.reshape([x.shape()[0], x.shape().last()])?)
}
