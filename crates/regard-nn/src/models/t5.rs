//! T5: an encoder and a decoder that attends to it (Raffel et al., 2019).
//!
//! ```text
//! encoder   x = x + attention(norm(x));  x = x + ffn(norm(x))
//! decoder   y = y + causal attention(norm(y));  y = y + attention(norm(y) → x);  y = y + ffn(norm(y))
//! logits = norm(y) · head
//! ```
//!
//! Positions are a learned bias by distance, shared by all layers of a stack; scores are not scaled. Version 1.0 has ReLU
//! and one table for input and output; 1.1 has a gated GELU and a head of its own.

use super::form::{
    Attention, AttentionPositions, Deviations, Dropouts, FeedForward, Form, Input, Layer, Output, Stack,
    TokenScores, Tokens,
};
use crate::attention::{Biases, Scale};
use crate::block::Placement;
use crate::layers::{Activation, NormConfig};
use serde::{Deserialize, Serialize};

/// The settings of a T5.
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
    /// The width of the residual stream.
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
    /// Whether the embedding table scores the tokens (version 1.0).
    pub tied: bool,
    /// Whether the last hidden states are divided by √width before they are scored, as a shared table wants it.
    pub scale_output: bool,
    /// The token that the decoder starts with.
    pub start: u32,
    /// The share of values that training drops.
    pub dropout: f32,
    /// The share of a target's probability that training spreads over all tokens.
    pub smoothing: f32,
    /// Whether training recomputes each layer in the backward pass instead of keeping its values.
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

impl T5Config {
    /// The form of this T5.
    pub fn form(&self) -> Form {
        let norm = NormConfig::rms(self.norm_epsilon);
        let (buckets, max_distance) = (self.buckets, self.max_distance);
        let cross = Attention {
            d_head: self.d_head,
            bias: Biases::all(false),
            scale: Scale::None,
            ..Attention::new(self.d_model, self.n_heads)
        };
        let layer = |decodes: bool| Layer {
            attention: Attention {
                positions: Some(AttentionPositions::Relative { buckets, max_distance, by_layer: false }),
                ..cross.clone()
            },
            cross: decodes.then(|| cross.clone()),
            feed_forward: FeedForward {
                gated: self.gated,
                ..FeedForward::new(self.d_hidden, self.activation)
            },
            norm,
            placement: Placement::Pre,
            residual_scale: 1.0,
            layer_scale: None,
        };
        let stack =
            |n_layers, decodes| Some(Stack { norm: Some(norm), ..Stack::of(n_layers, layer(decodes)) });
        let inverse_root = |width: usize| (width as f32).powf(-0.5);
        Form {
            family: "t5".to_owned(),
            d_model: self.d_model,
            context: None,
            input: Input::Tokens(Tokens { start: Some(self.start), ..Tokens::new(self.vocabulary) }),
            encoder: stack(self.n_layers, false),
            decoder: stack(self.n_decoder_layers, true),
            output: Output {
                tokens: Some(TokenScores {
                    scale: if self.scale_output { inverse_root(self.d_model) } else { 1.0 },
                    ..TokenScores::new(self.tied)
                }),
                smoothing: self.smoothing,
                ..Output::default()
            },
            dropout: Dropouts {
                embeddings: self.dropout,
                attention: self.dropout,
                residual: self.dropout,
                last: self.dropout,
                pooled: 0.0,
            },
            // Scores are not scaled: the first queries are drawn smaller instead.
            deviations: Deviations {
                embeddings: 1.0,
                positions: inverse_root(self.d_model),
                inner: inverse_root(self.d_model),
                residual: inverse_root(self.d_hidden),
            },
            checkpointing: self.checkpointing,
        }
    }
}
