//! Llama: a causal language model with RMS norms, rotary positions, grouped-query attention and a gated feed-forward
//! layer (Touvron et al., 2023).
//!
//! ```text
//! x = token embedding
//! x = x + attention(norm(x));  x = x + (silu(norm(x)·W_gate) ∘ norm(x)·W_up)·W_down        for each layer
//! logits = norm(x) · head
//! ```

use super::sequence::{Sequence, last};
use super::sizes::{ensure_deviation, ensure_dropout, ensure_epsilon, ensure_sizes};
use crate::attention::{AttentionConfig, MultiHead, Pattern, Rules};
use crate::block::{BlockConfig, BlockDraws, NormPlacement, Stack};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Activation, Embedding, FeedForwardConfig, Norm, NormKind};
use crate::parameter::{Draw, Initial, module};
use crate::position::{Rotary, RotaryScaling};
use regard_tensor::ops::{CrossEntropy, Layout, Pairing};
use regard_tensor::{Ids, Mask, Tensor};
use serde::{Deserialize, Serialize};

/// The sizes and the form of a Llama.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LlamaConfig {
    /// The number of tokens it knows.
    pub vocabulary: usize,
    /// The most positions it is made for.
    pub context: usize,
    /// The number of layers.
    pub n_layers: usize,
    /// The number of query heads in each.
    pub n_heads: usize,
    /// The number of key-value heads.
    pub n_kv_heads: usize,
    /// The width of its vectors.
    pub d_model: usize,
    /// The width of a head, if not that of the vectors over the number of heads.
    pub d_head: Option<usize>,
    /// The width inside the feed-forward layers.
    pub d_hidden: usize,
    /// The function in them.
    pub activation: Activation,
    /// The base of the rotary frequencies.
    pub rotary_base: f32,
    /// How they are changed for longer texts.
    pub rotary_scaling: RotaryScaling,
    /// ε of the norms.
    pub norm_epsilon: f32,
    /// The deviation of initial weights; of those that write to the residual stream, smaller by √(2·layers).
    pub deviation: f32,
    /// Whether the output scores tokens with the embedding table itself.
    pub tied: bool,
    /// Whether something is added in the projections of attention.
    pub attention_bias: bool,
    /// Whether something is added in the feed-forward layers.
    pub ffn_bias: bool,
    /// The share of weights and outputs that training drops.
    pub dropout: f32,
    /// Whether training drops each layer's values and computes them again in the backward pass.
    pub checkpointing: bool,
}

impl Default for LlamaConfig {
    /// Small enough to train on a laptop.
    fn default() -> Self {
        Self {
            vocabulary: 10_000,
            context: 256,
            n_layers: 4,
            n_heads: 8,
            n_kv_heads: 4,
            d_model: 256,
            d_head: None,
            d_hidden: 688,
            activation: Activation::Silu,
            rotary_base: 10_000.0,
            rotary_scaling: RotaryScaling::None,
            norm_epsilon: 1e-5,
            deviation: 0.02,
            tied: false,
            attention_bias: false,
            ffn_bias: false,
            dropout: 0.0,
            checkpointing: false,
        }
    }
}

/// A Llama.
#[derive(Debug, Clone)]
pub struct Llama {
    tokens: Embedding,
    layers: Stack,
    norm: Norm,
    head: Option<Embedding>,
    rotary: Rotary,
    config: LlamaConfig,
}

module!(Llama { tokens, layers, norm, head });

impl Llama {
    /// A Llama with random weights.
    pub fn new(config: LlamaConfig, seed: u64) -> Result<Self> {
        Self::build(config, &Initial::new(seed))
    }

    /// A Llama with weights from a source.
    pub fn build(config: LlamaConfig, initial: &Initial) -> Result<Self> {
        let LlamaConfig { vocabulary, n_layers, d_model, norm_epsilon, .. } = config;
        let sizes = [("vocabulary", vocabulary), ("context", config.context), ("d_model", d_model)];
        let heads = [("n_heads", config.n_heads), ("n_kv_heads", config.n_kv_heads)];
        let others = [("d_hidden", config.d_hidden), ("d_head", config.d_head.unwrap_or(1))];
        ensure_sizes("llama", &[&sizes[..], &heads, &others].concat())?;
        ensure_dropout("llama", config.dropout)?;
        ensure_epsilon("llama", norm_epsilon)?;
        ensure_deviation("llama", config.deviation)?;
        config.rotary_scaling.check(config.rotary_base)?;
        let block = config.block();
        let d_head = block.attention.d_head;
        if !d_head.is_multiple_of(2) {
            let problem = format!("the width of a head ({d_head}) must be even for rotary positions");
            return Err(Error::configuration("llama", problem));
        }
        let draw = Draw::Normal(config.deviation);
        let residual = Draw::Normal(config.deviation / (2.0 * n_layers.max(1) as f32).sqrt());
        let draws = BlockDraws { inner: draw, residual };
        let head = match config.tied {
            true => None,
            false => Some(Embedding::new(&initial.part("head"), (vocabulary, d_model), draw)?),
        };
        Ok(Self {
            tokens: Embedding::new(&initial.part("tokens"), (vocabulary, d_model), draw)?,
            layers: Stack::new(&initial.part("layers"), n_layers, |_| block, draws, config.checkpointing)?,
            norm: Norm::new(&initial.part("norm"), NormKind::RootMeanSquare, d_model, norm_epsilon)?,
            head,
            rotary: Rotary::new(d_head, config.rotary_base, config.rotary_scaling, Pairing::Halves),
            config,
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &LlamaConfig {
        &self.config
    }

    /// Scores of every next token (batch, time, vocabulary) for ids (batch, time), of which `present` names those that
    /// are not padding.
    pub fn forward(&self, context: &Context, ids: &Ids, present: Option<&Mask>) -> Result<Tensor> {
        let x = self.stream(context, ids, present)?; // (B, T, C)
        context.see("logits", self.head().scores(context, &x)?) // (B, T, V)
    }

    /// The scores after the last id alone (batch, 1, vocabulary), which is all that generation needs.
    pub fn forward_last(&self, context: &Context, ids: &Ids, present: Option<&Mask>) -> Result<Tensor> {
        let x = last(&self.stream(context, ids, present)?)?; // (B, 1, C)
        context.see("logits", self.head().scores(context, &x)?) // (B, 1, V)
    }

    /// The stream after the last layer and norm, (batch, time, width): what scores are made of.
    pub fn stream(&self, context: &Context, ids: &Ids, present: Option<&Mask>) -> Result<Tensor> {
        let sequence = Sequence::new("llama", context, ids, present)?;
        sequence.ensure_within("llama", self.config.context)?;
        let x = context.see("embeddings", self.tokens.forward(context, ids)?)?; // (B, T, C)
        let rules = Rules::new(Pattern::Causal, sequence.time, sequence.keys)?
            .padded(sequence.present.clone())
            .rotated(Some(self.rotary.rotation(&sequence.positions, sequence.batch)?));
        let x = self.layers.forward(context, x, &rules, None)?;
        sequence.finish(context);
        self.norm.forward(context, &x)
    }

    /// The mean cross-entropy of the next token: `targets` are the ids one place on.
    pub fn loss(&self, context: &Context, ids: &Ids, targets: &Ids) -> Result<Tensor> {
        let x = self.stream(context, ids, None)?;
        self.head().loss(context, &x, None, targets, CrossEntropy::default())
    }

    /// What scores the tokens.
    fn head(&self) -> &Embedding {
        self.head.as_ref().unwrap_or(&self.tokens)
    }

    /// Each attention with its place, such as `layers.0.self`.
    pub fn attentions(&self) -> Vec<(String, &MultiHead)> {
        self.layers.attentions()
    }

    /// Scores of every token (…, vocabulary) from the stream (…, width) as it is after some layer.
    pub fn unembed(&self, context: &Context, stream: &Tensor) -> Result<Tensor> {
        let x = self.norm.forward(context, stream)?;
        self.head().scores(context, &x)
    }

    /// The norm before the scores, if there is one.
    pub fn final_norm(&self) -> Option<&Norm> {
        Some(&self.norm)
    }

    /// The table that scores the tokens, (vocabulary, width).
    pub fn unembedding(&self) -> &Tensor {
        self.head().weight().tensor()
    }

    /// The table of token embeddings, (vocabulary, width).
    pub fn token_embeddings(&self) -> &Tensor {
        self.tokens.weight().tensor()
    }
}

impl LlamaConfig {
    fn block(&self) -> BlockConfig {
        let attention = AttentionConfig::new(self.d_model, self.n_heads);
        BlockConfig {
            attention: AttentionConfig {
                n_kv_heads: self.n_kv_heads,
                d_head: self.d_head.unwrap_or(attention.d_head),
                fused: false,
                bias: self.attention_bias,
                output_bias: self.attention_bias,
                dropout: self.dropout,
                ..attention
            },
            cross: None,
            ffn: FeedForwardConfig {
                d_model: self.d_model,
                d_hidden: self.d_hidden,
                activation: self.activation,
                gated: true,
                bias: self.ffn_bias,
                layout: Layout::OutIn,
            },
            norm: NormKind::RootMeanSquare,
            epsilon: self.norm_epsilon,
            placement: NormPlacement::Pre,
            dropout: self.dropout,
        }
    }
}
