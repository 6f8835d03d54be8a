//! T5: an encoder and a decoder that attends to it (Raffel et al., 2019).
//!
//! ```text
//! encoder   x = x + attention(norm(x));  x = x + ffn(norm(x))
//! decoder   y = y + causal attention(norm(y));  y = y + attention(norm(y) → x);  y = y + ffn(norm(y))
//! logits = norm(y) · head
//! ```
//!
//! Positions are a learned bias by distance, shared by all layers of a side; scores are not scaled. Version 1.0 has ReLU
//! and one table for input and output; 1.1 has a gated GELU and a head of its own.

use super::sequence::{Sequence, last};
use super::sizes::{ensure_dropout, ensure_epsilon, ensure_sizes};
use crate::attention::{AttentionConfig, MultiHead, Pattern, Rules, Scale};
use crate::block::{BlockConfig, BlockDraws, NormPlacement, Stack};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Activation, Embedding, FeedForwardConfig, Norm, NormKind};
use crate::parameter::{Draw, Initial, Parameter, module};
use crate::position::relative_bias;
use regard_tensor::ops::{Bias, CrossEntropy, Layout};
use regard_tensor::{Ids, Mask, Tensor};
use serde::{Deserialize, Serialize};

/// The sizes and the form of a T5.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct T5Config {
    /// The number of tokens it knows.
    pub vocabulary: usize,
    /// The number of layers of the encoder.
    pub n_layers: usize,
    /// The number of layers of the decoder.
    pub n_decoder_layers: usize,
    /// The number of heads in each.
    pub n_heads: usize,
    /// The width of its vectors.
    pub d_model: usize,
    /// The width of a head.
    pub d_head: usize,
    /// The width inside the feed-forward layers.
    pub d_hidden: usize,
    /// The function in them.
    pub activation: Activation,
    /// Whether they are gated (version 1.1).
    pub gated: bool,
    /// The number of distances that positions distinguish.
    pub buckets: usize,
    /// The distance beyond which all are the same.
    pub max_distance: usize,
    /// ε of the norms.
    pub norm_epsilon: f32,
    /// Whether the output scores tokens with the embedding table itself (version 1.0).
    pub tied: bool,
    /// Whether the last vectors are divided by √width before they are scored, as a table that serves both ends wants it.
    pub scale_output: bool,
    /// The token that the decoder starts with.
    pub start: u32,
    /// The share of values that training drops.
    pub dropout: f32,
    /// The share of a target's probability that training spreads over all tokens.
    pub smoothing: f32,
    /// Whether training drops each layer's values and computes them again in the backward pass.
    pub checkpointing: bool,
}

impl Default for T5Config {
    /// T5 small, version 1.0.
    fn default() -> Self {
        Self {
            vocabulary: 32_128,
            n_layers: 6,
            n_decoder_layers: 6,
            n_heads: 8,
            d_model: 512,
            d_head: 64,
            d_hidden: 2048,
            activation: Activation::Relu,
            gated: false,
            buckets: 32,
            max_distance: 128,
            norm_epsilon: 1e-6,
            tied: true,
            scale_output: true,
            start: 0,
            dropout: 0.0,
            smoothing: 0.0,
            checkpointing: false,
        }
    }
}

/// A T5.
#[derive(Debug, Clone)]
pub struct T5 {
    tokens: Embedding,
    encoder: Side,
    decoder: Side,
    head: Option<Embedding>,
    config: T5Config,
}

module!(T5 { tokens, encoder, decoder, head });

/// The encoder or the decoder.
#[derive(Debug, Clone)]
struct Side {
    distances: Parameter,
    layers: Stack,
    norm: Norm,
}

module!(Side { distances, layers, norm });

impl T5 {
    /// A T5 with random weights.
    pub fn new(config: T5Config, seed: u64) -> Result<Self> {
        Self::build(config, &Initial::new(seed))
    }

    /// A T5 with weights from a source.
    pub fn build(config: T5Config, initial: &Initial) -> Result<Self> {
        let T5Config { vocabulary, d_model, buckets, max_distance, .. } = config;
        let sizes = [("vocabulary", vocabulary), ("d_model", d_model), ("n_heads", config.n_heads)];
        let others =
            [("d_head", config.d_head), ("d_hidden", config.d_hidden), ("max_distance", max_distance)];
        ensure_sizes("t5", &[&sizes[..], &others, &[("buckets", buckets)]].concat())?;
        ensure_dropout("t5", config.dropout)?;
        ensure_epsilon("t5", config.norm_epsilon)?;
        if !(0.0..1.0).contains(&config.smoothing) {
            let problem = format!("smoothing must be at least 0 and below 1, got {}", config.smoothing);
            return Err(Error::configuration("t5", problem));
        }
        if buckets < 4 {
            return Err(Error::configuration("t5", format!("buckets must be at least 4, got {buckets}")));
        }
        if config.start as usize >= vocabulary {
            let problem = format!("start is {}, which is none of its {vocabulary} tokens", config.start);
            return Err(Error::configuration("t5", problem));
        }
        // The original divides by √width where it draws, since it does not scale the scores.
        let draw = Draw::Normal((d_model as f32).powf(-0.5));
        let head = match config.tied {
            true => None,
            false => Some(Embedding::new(&initial.part("head"), (vocabulary, d_model), draw)?),
        };
        Ok(Self {
            tokens: Embedding::new(&initial.part("tokens"), (vocabulary, d_model), Draw::Normal(1.0))?,
            encoder: Side::new(&initial.part("encoder"), &config, false)?,
            decoder: Side::new(&initial.part("decoder"), &config, true)?,
            head,
            config,
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &T5Config {
        &self.config
    }

    /// The encoder's vectors (batch, time, width) for ids (batch, time), of which `present` names those that are not
    /// padding.
    pub fn encode(&self, context: &Context, ids: &Ids, present: Option<&Mask>) -> Result<Tensor> {
        // What an encoder reads does not grow.
        let context = &context.without_cache();
        let here = context.within("encoder");
        let sequence = Sequence::new("t5", context, ids, present)?;
        let rules = self.encoder.rules(&here, &self.config, &sequence, false)?;
        self.encoder.forward(&here, &self.config, self.tokens.forward(context, ids)?, &rules, None)
    }

    /// Scores of every next token (batch, time, vocabulary) after the decoder's ids (batch, time), given what the encoder
    /// made of a text and which of its places are not padding.
    pub fn decode(
        &self,
        context: &Context,
        ids: &Ids,
        present: Option<&Mask>,
        (encoded, source): (&Tensor, Option<&Mask>),
    ) -> Result<Tensor> {
        let x = self.before_scores(context, ids, present, (encoded, source))?;
        context.see("logits", self.head().scores(context, &x)?)
    }

    /// The scores after the decoder's last id alone (batch, 1, vocabulary), which is all that generation needs.
    pub fn decode_last(
        &self,
        context: &Context,
        ids: &Ids,
        present: Option<&Mask>,
        (encoded, source): (&Tensor, Option<&Mask>),
    ) -> Result<Tensor> {
        let x = last(&self.before_scores(context, ids, present, (encoded, source))?)?;
        context.see("logits", self.head().scores(context, &x)?)
    }

    /// What scores the tokens.
    fn head(&self) -> &Embedding {
        self.head.as_ref().unwrap_or(&self.tokens)
    }

    /// The decoder's stream after the last layer and norm.
    fn before_scores(
        &self,
        context: &Context,
        ids: &Ids,
        present: Option<&Mask>,
        (encoded, source): (&Tensor, Option<&Mask>),
    ) -> Result<Tensor> {
        let here = context.within("decoder");
        let sequence = Sequence::new("t5", context, ids, present)?;
        let rules = self.decoder.rules(&here, &self.config, &sequence, true)?;
        let [rows, source_length, width] = encoded.shape()[..] else {
            let problem = format!("what was encoded must be (batch, time, width), got {}", encoded.shape());
            return Err(Error::input("t5", problem));
        };
        let mask = source.map_or([rows, source_length].into(), |source| source.shape().clone());
        if rows != sequence.batch || width != self.config.d_model || mask[..] != [rows, source_length] {
            let problem = format!(
                "{} texts cannot be answered from what was encoded, {}, under a mask of {mask}",
                sequence.batch,
                encoded.shape()
            );
            return Err(Error::input("t5", problem));
        }
        let cross = Rules::new(Pattern::Full, sequence.time, source_length)?.padded(source.cloned());
        let x = self.tokens.forward(context, ids)?;
        let x = self.decoder.forward(&here, &self.config, x, &rules, Some((encoded, &cross)))?;
        sequence.finish(context);
        Ok(match self.config.scale_output {
            true => x.scale((self.config.d_model as f32).powf(-0.5))?,
            false => x,
        })
    }

    /// Scores (batch, time, vocabulary) of every next token of a target after a source.
    pub fn forward(
        &self,
        context: &Context,
        (source, source_present): (&Ids, Option<&Mask>),
        (target, target_present): (&Ids, Option<&Mask>),
    ) -> Result<Tensor> {
        let encoded = self.encode(context, source, source_present)?;
        self.decode(context, target, target_present, (&encoded, source_present))
    }

    /// The mean cross-entropy of a target's tokens, where they are not `ignored`: the decoder reads `input`, which is the
    /// start token and the target but its last, and is to say `targets`.
    pub fn loss(
        &self,
        context: &Context,
        (source, source_present): (&Ids, Option<&Mask>),
        (input, targets): (&Ids, &Ids),
        ignored: u32,
    ) -> Result<Tensor> {
        let encoded = self.encode(context, source, source_present)?;
        let x = self.before_scores(context, input, None, (&encoded, source_present))?;
        let settings = CrossEntropy { ignored: Some(ignored), smoothing: self.config.smoothing };
        self.head().loss(context, &x, None, targets, settings)
    }

    /// Each attention with its place, such as `encoder.layers.0.self`.
    pub fn attentions(&self) -> Vec<(String, &MultiHead)> {
        let mut all = Vec::new();
        for (name, side) in [("encoder", &self.encoder), ("decoder", &self.decoder)] {
            all.extend(
                side.layers.attentions().into_iter().map(|(site, heads)| (format!("{name}.{site}"), heads)),
            );
        }
        all
    }

    /// The table of token embeddings, (vocabulary, width).
    pub fn token_embeddings(&self) -> &Tensor {
        self.tokens.weight().tensor()
    }
}

impl Side {
    fn new(initial: &Initial, config: &T5Config, decodes: bool) -> Result<Self> {
        let T5Config { n_heads, d_model, d_head, d_hidden, buckets, norm_epsilon, .. } = *config;
        let deviation = |inputs: usize| Draw::Normal((inputs as f32).powf(-0.5));
        let attention = AttentionConfig {
            d_head,
            fused: false,
            bias: false,
            output_bias: false,
            scale: Scale::None,
            dropout: config.dropout,
            ..AttentionConfig::new(d_model, n_heads)
        };
        let block = BlockConfig {
            attention,
            cross: decodes.then_some(attention),
            ffn: FeedForwardConfig {
                d_model,
                d_hidden,
                activation: config.activation,
                gated: config.gated,
                bias: false,
                layout: Layout::OutIn,
            },
            norm: NormKind::RootMeanSquare,
            epsilon: norm_epsilon,
            placement: NormPlacement::Pre,
            dropout: config.dropout,
        };
        let draws = BlockDraws { inner: deviation(d_model), residual: deviation(d_hidden) };
        let layers = if decodes { config.n_decoder_layers } else { config.n_layers };
        Ok(Self {
            distances: initial.parameter("distances", [buckets, n_heads], deviation(d_model))?,
            layers: Stack::new(&initial.part("layers"), layers, |_| block, draws, config.checkpointing)?,
            norm: Norm::new(&initial.part("norm"), NormKind::RootMeanSquare, d_model, norm_epsilon)?,
        })
    }

    fn rules(
        &self,
        context: &Context,
        config: &T5Config,
        sequence: &Sequence,
        causal: bool,
    ) -> Result<Rules> {
        let pattern = if causal { Pattern::Causal } else { Pattern::Full };
        let table = context.parameter(&self.distances);
        let buckets = (config.buckets, config.max_distance, !causal);
        let bias: Bias = relative_bias(&table, (sequence.time, sequence.keys), buckets)?;
        Ok(Rules::new(pattern, sequence.time, sequence.keys)?.padded(sequence.present.clone()).biased(bias))
    }

    fn forward(
        &self,
        context: &Context,
        config: &T5Config,
        x: Tensor,
        rules: &Rules,
        memory: Option<(&Tensor, &Rules)>,
    ) -> Result<Tensor> {
        let x = context.see("embeddings", context.drop_out("embeddings", config.dropout, x)?)?;
        let x = self.layers.forward(context, x, rules, memory)?;
        context.drop_out("norm", config.dropout, self.norm.forward(context, &x)?)
    }
}
