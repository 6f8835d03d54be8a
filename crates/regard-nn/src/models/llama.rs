//! Llama: a causal language model with RMS norms, rotary positions, grouped-query attention and a gated feed-forward
//! layer (Touvron et al., 2023).
//!
//! ```text
//! x = token embedding
//! x = x + attention(norm(x));  x = x + (silu(norm(x)·W_gate) ∘ norm(x)·W_up)·W_down        for each layer
//! logits = norm(x) · head
//! ```

use super::form::{
    Attention, AttentionPositions, Deviations, Dropouts, FeedForward, Form, Input, Layer, Output, Stack,
    TokenScores, Tokens,
};
use crate::attention::Biases;
use crate::block::Placement;
use crate::layers::{Activation, NormConfig};
use crate::position::{RotaryConfig, RotaryScaling};
use serde::{Deserialize, Serialize};

/// The settings of a Llama.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LlamaConfig {
    /// The number of tokens it knows.
    pub vocabulary: usize,
    /// The number of tokens it is made for.
    pub context: usize,
    /// The number of layers.
    pub n_layers: usize,
    /// The number of query heads in each.
    pub n_heads: usize,
    /// The number of key-value heads.
    pub n_kv_heads: usize,
    /// The width of the residual stream.
    pub d_model: usize,
    /// The width of a head, if not that of the residual stream over the number of heads.
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
    /// Whether the embedding table scores the tokens.
    pub tied: bool,
    /// Whether attention's projections have biases.
    pub attention_bias: bool,
    /// Whether the feed-forward layers have biases.
    pub ffn_bias: bool,
    /// The share of attention weights and sublayer outputs that training drops.
    pub dropout: f32,
    /// Whether training recomputes each layer in the backward pass instead of keeping its values.
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

impl LlamaConfig {
    /// The form of this Llama.
    pub fn form(&self) -> Form {
        let norm = NormConfig::rms(self.norm_epsilon);
        let rotary = RotaryConfig {
            base: self.rotary_base,
            scaling: self.rotary_scaling.clone(),
            ..RotaryConfig::default()
        };
        let attention = Attention::new(self.d_model, self.n_heads);
        let layer = Layer {
            attention: Attention {
                n_kv_heads: self.n_kv_heads,
                d_head: self.d_head.unwrap_or(attention.d_head),
                bias: Biases::all(self.attention_bias),
                positions: Some(AttentionPositions::Rotary(rotary)),
                ..attention
            },
            cross: None,
            feed_forward: FeedForward {
                gated: true,
                bias: self.ffn_bias,
                ..FeedForward::new(self.d_hidden, self.activation)
            },
            norm,
            placement: Placement::Pre,
            residual_scale: 1.0,
            layer_scale: None,
        };
        Form {
            family: "llama".to_owned(),
            d_model: self.d_model,
            context: Some(self.context),
            input: Input::Tokens(Tokens::new(self.vocabulary)),
            encoder: None,
            decoder: Some(Stack { norm: Some(norm), ..Stack::of(self.n_layers, layer) }),
            output: Output { tokens: Some(TokenScores::new(self.tied)), ..Output::default() },
            dropout: Dropouts { attention: self.dropout, residual: self.dropout, ..Dropouts::default() },
            deviations: Deviations::by_depth(self.deviation, self.n_layers),
            checkpointing: self.checkpointing,
        }
    }
}
