//! A bag of word vectors: their mean, and a classifier. Attention over the vectors is optional.
//!
//! ```text
//! logit = mean(embedding of each word) · w + b
//! logit = mean(attention(embedding + position)) · w + b
//! ```
//!
//! The smallest model in which words get vectors as a by-product of another task. What would make it better (positions,
//! trained projections, a residual connection) can be switched on one by one.

use super::sequence::lengths_to_mask;
use super::sizes::ensure_sizes;
use crate::attention::{AttentionConfig, MultiHead, Pattern, Rules};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Embedding, Linear, LinearConfig};
use crate::parameter::{Draw, Initial, module};
use crate::position::{Position, PositionSizes, Positions};
use regard_tensor::{Ids, Mask, Tensor};
use serde::{Deserialize, Serialize};

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
        let BagConfig { vocabulary, d_embedding, n_heads, context, .. } = config;
        let sizes = [("vocabulary", vocabulary), ("d_embedding", d_embedding), ("context", context)];
        ensure_sizes("bag", &sizes)?;
        let in_attention = config.positions.pairing().is_some()
            || matches!(config.positions, Position::Alibi | Position::Relative);
        if n_heads == 0 && in_attention {
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
            words: Embedding::new(&initial.part("words"), (vocabulary, d_embedding), Draw::Normal(0.1))?,
            positions: Positions::new(&initial.part("positions"), config.positions, sizes, 0.1)?,
            attention: heads,
            classifier: Linear::new(&initial.part("classifier"), line, draw)?,
            config,
        })
    }

    /// Its attention with its place, if it has heads.
    pub fn attentions(&self) -> Vec<(String, &MultiHead)> {
        self.attention.iter().map(|attention| ("layers.0.self".to_owned(), attention)).collect()
    }

    /// What it was built from.
    pub fn config(&self) -> &BagConfig {
        &self.config
    }

    /// A logit for each text of ids (batch, time): above 0 means positive. `lengths` leave out the padding.
    pub fn forward(&self, context: &Context, ids: &Ids, lengths: Option<&[usize]>) -> Result<Tensor> {
        let context = &context.without_cache();
        let present = lengths_to_mask("bag", ids, lengths)?;
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
                .padded(present.clone())
                .biased(self.positions.bias(context, time, time)?)
                .rotated(self.positions.rotation(&places, batch)?);
            let here = context.within("layers").within(0).within("self");
            let here = if self.config.trained { here } else { here.frozen() };
            let said = attention.forward(&here, &x, None, &rules)?;
            x = if self.config.residual { x.add(&said)? } else { said };
        }
        let pooled = mean_pool(&x, present.as_ref())?;
        context.see("logits", self.classifier.forward(context, &pooled)?.reshape([batch])?)
    }

    /// The mean binary cross-entropy against targets (batch) of 0 or 1.
    pub fn loss(
        &self,
        context: &Context,
        ids: &Ids,
        lengths: Option<&[usize]>,
        targets: &Tensor,
    ) -> Result<Tensor> {
        Ok(self.forward(context, ids, lengths)?.binary_cross_entropy(targets)?)
    }

    /// The table of word vectors, (vocabulary, width).
    pub fn token_embeddings(&self) -> &Tensor {
        self.words.weight().tensor()
    }

    /// The table of word vectors, to put trained ones in.
    pub fn token_embeddings_mut(&mut self) -> &mut Tensor {
        self.words.weight_mut().tensor_mut()
    }
}

/// The mean of the vectors that are not padding: (batch, time, width) → (batch, width).
fn mean_pool(x: &Tensor, present: Option<&Mask>) -> Result<Tensor> {
    let Some(present) = present else { return Ok(x.mean(1)?) };
    let time = present.shape()[1];
    let mut shares = Vec::with_capacity(present.values().len());
    for row in present.values().chunks(time) {
        let count = row.iter().filter(|&&here| here).count();
        shares.extend(row.iter().map(|&here| if here { 1.0 / count as f32 } else { 0.0 }));
    }
    let shares = Tensor::new(&shares, [present.shape()[0], 1, time])?;
    Ok(shares.matmul(x)?.reshape([x.shape()[0], x.shape().last()])?)
}
