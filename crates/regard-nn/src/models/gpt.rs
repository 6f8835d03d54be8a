//! GPT: a causal language model (Radford et al., 2019).
//!
//! ```text
//! x = token embedding + position embedding
//! x = x + attention(norm(x));  x = x + feed-forward(norm(x))        for each layer
//! logits = norm(x) · token embeddingᵀ
//! ```
//!
//! Positions, the place of the norms, the function and the kind of attention are free to choose, for experiments.

use super::sequence::{Sequence, last};
use super::sizes::{ensure_deviation, ensure_dropout, ensure_epsilon, ensure_sizes};
use crate::attention::{AttentionConfig, AttentionKind, MultiHead, Pattern, Rules, Scale};
use crate::block::{BlockConfig, BlockDraws, NormPlacement, Stack};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Activation, Embedding, FeedForwardConfig, Norm, NormKind};
use crate::parameter::{Draw, Initial, module};
use crate::position::{Position, PositionSizes, Positions};
use regard_tensor::ops::{CrossEntropy, Layout};
use regard_tensor::{Ids, Mask, Tensor};
use serde::{Deserialize, Serialize};

/// The sizes and the form of a GPT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GptConfig {
    /// The number of tokens it knows.
    pub vocabulary: usize,
    /// The most positions it is made for.
    pub context: usize,
    /// The number of layers.
    pub n_layers: usize,
    /// The number of heads in each.
    pub n_heads: usize,
    /// The width of its vectors.
    pub d_model: usize,
    /// The width inside the feed-forward layers; four times the model's if not given.
    pub d_hidden: Option<usize>,
    /// The share of values that training drops.
    pub dropout: f32,
    /// ε of the layer norms.
    pub norm_epsilon: f32,
    /// The deviation of initial weights; of those that write to the residual stream, smaller by √(2·layers).
    pub deviation: f32,
    /// How it knows where a token stands.
    pub positions: Position,
    /// Where the norms stand.
    pub norm: NormPlacement,
    /// The function in the feed-forward layers.
    pub activation: Activation,
    /// The kind of attention.
    pub attention: AttentionKind,
    /// A window of so many tokens back, if attention is to be local.
    pub window: Option<usize>,
    /// Whether scores are divided by √(width of a head).
    pub scaled: bool,
    /// Whether they are also divided by the number of the layer, counted from 1.
    pub scale_by_layer: bool,
    /// Whether the output scores tokens with the embedding table itself.
    pub tied: bool,
    /// Whether training drops each layer's values and computes them again in the backward pass.
    pub checkpointing: bool,
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
            d_hidden: None,
            dropout: 0.0,
            norm_epsilon: 1e-5,
            deviation: 0.02,
            positions: Position::Learned,
            norm: NormPlacement::Pre,
            activation: Activation::GeluNew,
            attention: AttentionKind::Softmax,
            window: None,
            scaled: true,
            scale_by_layer: false,
            tied: true,
            checkpointing: false,
        }
    }
}

/// A GPT.
#[derive(Debug, Clone)]
pub struct Gpt {
    tokens: Embedding,
    positions: Positions,
    layers: Stack,
    norm: Option<Norm>,
    head: Option<Embedding>,
    config: GptConfig,
}

module!(Gpt { tokens, positions, layers, norm, head });

impl Gpt {
    /// A GPT with random weights.
    pub fn new(config: GptConfig, seed: u64) -> Result<Self> {
        Self::build(config, &Initial::new(seed))
    }

    /// A GPT with weights from a source.
    pub fn build(config: GptConfig, initial: &Initial) -> Result<Self> {
        let GptConfig { vocabulary, context, n_layers, n_heads, d_model, norm_epsilon, .. } = config;
        let d_hidden = config.d_hidden.unwrap_or(d_model);
        let sizes = [("vocabulary", vocabulary), ("context", context), ("n_heads", n_heads)];
        ensure_sizes("gpt", &[&sizes[..], &[("d_model", d_model), ("d_hidden", d_hidden)]].concat())?;
        ensure_dropout("gpt", config.dropout)?;
        ensure_epsilon("gpt", norm_epsilon)?;
        ensure_deviation("gpt", config.deviation)?;
        let biased = matches!(config.positions, Position::Alibi | Position::Relative);
        if biased && config.attention == AttentionKind::Linear {
            let problem = "linear attention has no scores that alibi or relative positions could be added to";
            return Err(Error::configuration("gpt", problem));
        }
        let attention = AttentionConfig::new(d_model, n_heads);
        let draw = Draw::Normal(config.deviation);
        let draws = BlockDraws {
            inner: draw,
            residual: Draw::Normal(config.deviation / (2.0 * n_layers.max(1) as f32).sqrt()),
        };
        let sizes =
            PositionSizes { context, d_model, n_heads, d_head: attention.d_head, bidirectional: false };
        let block = |i: usize| config.block(attention, i);
        let layers = Stack::new(&initial.part("layers"), n_layers, block, draws, config.checkpointing)?;
        // With the norms after the sums, the last block has normed already.
        let norm = match config.norm {
            NormPlacement::Pre => {
                Some(Norm::new(&initial.part("norm"), NormKind::Layer, d_model, norm_epsilon)?)
            }
            NormPlacement::Post => None,
        };
        let head = match config.tied {
            true => None,
            false => Some(Embedding::new(&initial.part("head"), (vocabulary, d_model), draw)?),
        };
        Ok(Self {
            tokens: Embedding::new(&initial.part("tokens"), (vocabulary, d_model), draw)?,
            positions: Positions::new(&initial.part("positions"), config.positions, sizes, config.deviation)?,
            layers,
            norm,
            head,
            config,
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &GptConfig {
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
        let sequence = Sequence::new("gpt", context, ids, present)?;
        if let Some(limit) = self.positions.limit() {
            sequence.ensure_within("gpt", limit)?;
        }
        let x = self.positions.add(context, &self.tokens.forward(context, ids)?, &sequence.positions)?; // (B, T, C)
        let x = context.see("embeddings", context.drop_out("embeddings", self.config.dropout, x)?)?;
        let rules = Rules::new(self.config.pattern(), sequence.time, sequence.keys)?
            .padded(sequence.present.clone())
            .biased(self.positions.bias(context, sequence.time, sequence.keys)?)
            .rotated(self.positions.rotation(&sequence.positions, sequence.batch)?);
        let x = self.layers.forward(context, x, &rules, None)?;
        sequence.finish(context);
        match &self.norm {
            Some(norm) => norm.forward(context, &x),
            None => Ok(x),
        }
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
        let x = match &self.norm {
            Some(norm) => norm.forward(context, stream)?,
            None => stream.clone(),
        };
        self.head().scores(context, &x)
    }

    /// The norm before the scores, if there is one.
    pub fn final_norm(&self) -> Option<&Norm> {
        self.norm.as_ref()
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

impl GptConfig {
    fn block(&self, attention: AttentionConfig, layer: usize) -> BlockConfig {
        let width = if self.scaled { attention.d_head as f32 } else { 1.0 };
        let depth = if self.scale_by_layer { (layer + 1) as f32 } else { 1.0 };
        BlockConfig {
            attention: AttentionConfig {
                layout: Layout::InOut,
                scale: Scale::Factor(1.0 / (width.sqrt() * depth)),
                kind: self.attention,
                dropout: self.dropout,
                ..attention
            },
            cross: None,
            ffn: FeedForwardConfig {
                d_model: self.d_model,
                d_hidden: self.d_hidden.unwrap_or(4 * self.d_model),
                activation: self.activation,
                gated: false,
                bias: true,
                layout: Layout::InOut,
            },
            norm: NormKind::Layer,
            epsilon: self.norm_epsilon,
            placement: self.norm,
            dropout: self.dropout,
        }
    }

    fn pattern(&self) -> Pattern {
        match self.window {
            None => Pattern::Causal,
            Some(before) => Pattern::Window { before, after: 0 }.causal(),
        }
    }
}
