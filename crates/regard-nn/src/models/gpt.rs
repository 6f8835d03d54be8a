//! GPT: a causal language model (Radford et al., 2019).
//!
//! ```text
//! x = token embedding + position embedding
//! x = x + attention(norm(x));  x = x + feed-forward(norm(x))        for each layer
//! logits = norm(x) · token embeddingᵀ
//! ```
//!
//! Position encoding, norm placement, activation and kind of attention are free to choose, for experiments.

use super::form::{
    Attention, AttentionPositions, Deviations, Dropouts, FeedForward, Form, Input, Layer, Output, Positions,
    Stack, TokenScores, Tokens, Window,
};
use crate::attention::{AttentionKind, Biases, Scale};
use crate::block::Placement;
use crate::layers::{Activation, NormConfig, NormKind};
use crate::position::{Position, RotaryConfig};
use serde::{Deserialize, Serialize};

/// The settings of a GPT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GptConfig {
    /// The number of tokens it knows.
    pub vocabulary: usize,
    /// The number of tokens it is made for.
    pub context: usize,
    /// The number of layers.
    pub n_layers: usize,
    /// The number of heads in each.
    pub n_heads: usize,
    /// The width of the residual stream.
    pub d_model: usize,
    /// The width inside the feed-forward layers; four times the model's if not given.
    pub d_hidden: Option<usize>,
    /// The share of values that training drops.
    pub dropout: f32,
    /// ε of the layer norms.
    pub norm_epsilon: f32,
    /// The deviation of initial weights; of those that write to the residual stream, smaller by √(2·layers).
    pub deviation: f32,
    /// The position encoding.
    pub positions: Position,
    /// Where the norms stand.
    pub norm: Placement,
    /// The function in the feed-forward layers.
    pub activation: Activation,
    /// The kind of attention.
    pub attention: AttentionKind,
    /// A window of so many tokens back, if attention is local.
    pub window: Option<usize>,
    /// Whether scores are divided by √(width of a head).
    pub scaled: bool,
    /// Whether the embedding table scores the tokens.
    pub tied: bool,
    /// Whether linear layers and norms have biases. (GPT-2 has them; nanoGPT trains without.)
    pub bias: bool,
    /// Whether training recomputes each layer in the backward pass instead of keeping its values.
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
            norm: Placement::Pre,
            activation: Activation::GeluNew,
            attention: AttentionKind::Softmax,
            window: None,
            scaled: true,
            tied: true,
            bias: true,
            checkpointing: false,
        }
    }
}

impl GptConfig {
    /// The form of this GPT.
    pub fn form(&self) -> Form {
        let kind = if self.bias { NormKind::Layer } else { NormKind::LayerWithoutBias };
        let norm = NormConfig { kind, epsilon: self.norm_epsilon };
        let rotary =
            |interleaved| AttentionPositions::Rotary(RotaryConfig { interleaved, ..RotaryConfig::default() });
        let added = match self.positions {
            Position::Learned => {
                Positions::Learned { context: self.context, offset: 0, skips_padding: false }
            }
            // As large as the embeddings begin, so that neither drowns the other.
            Position::Sinusoidal => Positions::Sinusoidal { scale: self.deviation, halves: false },
            _ => Positions::None,
        };
        let inside = match self.positions {
            Position::Rotary => Some(rotary(false)),
            Position::RotaryInterleaved => Some(rotary(true)),
            Position::Alibi => Some(AttentionPositions::Alibi),
            Position::Relative => {
                Some(AttentionPositions::Relative { buckets: 32, max_distance: 128, by_layer: false })
            }
            Position::None | Position::Sinusoidal | Position::Learned => None,
        };
        let layer = Layer {
            attention: Attention {
                fused: true,
                bias: Biases::all(self.bias),
                scale: if self.scaled { Scale::InverseRoot } else { Scale::Factor(1.0) },
                kind: self.attention,
                window: self.window.map(|before| Window { before, after: 0 }),
                positions: inside,
                transposed: true,
                ..Attention::new(self.d_model, self.n_heads)
            },
            cross: None,
            feed_forward: FeedForward {
                bias: self.bias,
                transposed: true,
                ..FeedForward::new(self.d_hidden.unwrap_or(self.d_model.saturating_mul(4)), self.activation)
            },
            norm,
            placement: self.norm,
            residual_scale: 1.0,
            layer_scale: None,
        };
        Form {
            family: "gpt".to_owned(),
            d_model: self.d_model,
            context: Some(self.context),
            input: Input::Tokens(Tokens::new(self.vocabulary)),
            encoder: None,
            decoder: Some(Stack {
                positions: added,
                // Post-norm blocks end with a norm of their own.
                norm: (self.norm != Placement::Post).then_some(norm),
                ..Stack::of(self.n_layers, layer)
            }),
            output: Output { tokens: Some(TokenScores::new(self.tied)), ..Output::default() },
            dropout: Dropouts {
                embeddings: self.dropout,
                attention: self.dropout,
                residual: self.dropout,
                ..Dropouts::default()
            },
            deviations: Deviations::by_depth(self.deviation, self.n_layers),
            checkpointing: self.checkpointing,
        }
    }
}
