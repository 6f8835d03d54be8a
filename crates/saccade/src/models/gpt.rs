//! GPT: a causal language model (Radford et al., 2019).
//!
//! ```text
//! x = token embedding + position embedding
//! x = x + attention(norm(x));  x = x + feed-forward(norm(x))        for each layer
//! logits = norm(x) · token embeddingᵀ
//! ```

use crate::attention::{AttentionConfig, MultiHead};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Embedding, FeedForward, LayerNorm};
use crate::parameter::{Initial, module};
use saccade_tensor::ops::{Allowed, CrossEntropy, Function, Layout};
use saccade_tensor::{Ids, Tensor};

/// The sizes of a GPT.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GptConfig {
    /// The number of tokens it knows.
    pub vocabulary: usize,
    /// The most positions it can read.
    pub context: usize,
    /// The number of layers.
    pub n_layers: usize,
    /// The number of heads in each.
    pub n_heads: usize,
    /// The width of its vectors.
    pub d_model: usize,
    /// The share of values that training drops.
    pub dropout: f32,
    /// ε of the layer norms.
    pub norm_epsilon: f32,
}

impl Default for GptConfig {
    /// GPT-2, the smallest.
    fn default() -> Self {
        Self {
            vocabulary: 50_257,
            context: 1024,
            n_layers: 12,
            n_heads: 12,
            d_model: 768,
            dropout: 0.0,
            norm_epsilon: 1e-5,
        }
    }
}

/// A GPT.
#[derive(Debug, Clone)]
pub struct Gpt {
    tokens: Embedding,
    positions: Embedding,
    layers: Vec<Block>,
    norm: LayerNorm,
    config: GptConfig,
}

module!(Gpt { tokens, positions, layers, norm });

#[derive(Debug, Clone)]
struct Block {
    attention_norm: LayerNorm,
    attention: MultiHead,
    ffn_norm: LayerNorm,
    ffn: FeedForward,
}

module!(Block { attention_norm, attention, ffn_norm, ffn });

/// Initial weights have this deviation; those that write to the residual stream are smaller by √(2·layers).
const DEVIATION: f32 = 0.02;

impl Gpt {
    /// A GPT with random weights.
    pub fn new(config: GptConfig, seed: u64) -> Result<Self> {
        let GptConfig { vocabulary, context, n_layers, d_model, norm_epsilon, .. } = config;
        if vocabulary == 0 || context == 0 || d_model == 0 {
            return Err(Error::configuration("gpt", "vocabulary, context and width must be at least 1"));
        }
        let initial = Initial::new(seed);
        let residual = DEVIATION / (2.0 * n_layers.max(1) as f32).sqrt();
        let block = |i: usize| -> Result<Block> {
            let initial = initial.part("layers").part(i);
            let attention = AttentionConfig {
                d_model,
                n_heads: config.n_heads,
                dropout: config.dropout,
                layout: Layout::InOut,
            };
            Ok(Block {
                attention_norm: LayerNorm::new(d_model, norm_epsilon),
                attention: MultiHead::new(attention, &initial.part("attention"), (DEVIATION, residual))?,
                ffn_norm: LayerNorm::new(d_model, norm_epsilon),
                ffn: FeedForward::new(
                    &initial.part("ffn"),
                    (d_model, 4 * d_model),
                    Layout::InOut,
                    Function::GeluTanh,
                    (DEVIATION, residual),
                ),
            })
        };
        Ok(Self {
            tokens: Embedding::normal(&initial.part("tokens"), (vocabulary, d_model), DEVIATION),
            positions: Embedding::normal(&initial.part("positions"), (context, d_model), DEVIATION),
            layers: (0..n_layers).map(block).collect::<Result<_>>()?,
            norm: LayerNorm::new(d_model, norm_epsilon),
            config,
        })
    }

    /// Scores of every next token (batch, time, vocabulary) for ids (batch, time).
    pub fn forward(&self, context: &Context, ids: &Ids) -> Result<Tensor> {
        let [_, time] = ids.shape()[..] else {
            return Err(Error::configuration(
                "gpt",
                format!("ids must be (batch, time), got {}", ids.shape()),
            ));
        };
        if time > self.config.context {
            let problem = format!("{time} tokens do not fit its context of {}", self.config.context);
            return Err(Error::configuration("gpt", problem));
        }
        let places: Vec<u32> = (0..time as u32).collect();
        let positions = self.positions.forward(context, &Ids::new(&places, [1, time])?)?; // (1, T, C)
        let mut x = (&self.tokens.forward(context, ids)? + &positions)?; // (B, T, C)
        x = self.drop(context, "embeddings", x)?;
        let allowed = Allowed { causal: true, ..Allowed::default() };
        for (i, layer) in self.layers.iter().enumerate() {
            let site = format!("layers.{i}.self");
            let normed = layer.attention_norm.forward(context, &x)?;
            let change = layer.attention.forward(context, &site, &normed, &allowed)?;
            x = (&x + &self.drop(context, &format!("{site}.output"), change)?)?;
            let change = layer.ffn.forward(context, &layer.ffn_norm.forward(context, &x)?)?;
            x = (&x + &self.drop(context, &format!("layers.{i}.ffn.output"), change)?)?;
        }
        self.tokens.scores(context, &self.norm.forward(context, &x)?) // (B, T, V)
    }

    /// The mean cross-entropy of the next token: `targets` are the ids one place on.
    pub fn loss(&self, context: &Context, ids: &Ids, targets: &Ids) -> Result<Tensor> {
        Ok(self.forward(context, ids)?.cross_entropy(targets, CrossEntropy::default())?)
    }

    fn drop(&self, context: &Context, site: &str, x: Tensor) -> Result<Tensor> {
        match context.dropout(site, self.config.dropout) {
            Some(dropout) => Ok(x.dropout(&dropout)?),
            None => Ok(x),
        }
    }
}
