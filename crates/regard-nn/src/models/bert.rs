//! BERT: a bidirectional encoder, trained to predict masked words (Devlin et al., 2018).
//!
//! ```text
//! x = norm(token + position + type embeddings)
//! x = norm(x + attention(x));  x = norm(x + feed-forward(x))        for each layer
//! masked words:  logits = norm(gelu(x·W))·token embeddingᵀ + b
//! classes:       logits = tanh(x[first]·W)·W
//! ```
//!
//! RoBERTa, DistilBERT and MiniLM are the same form with other numbers.

use super::form::{
    Attention, Deviations, Dropouts, FeedForward, Form, Input, Layer, Output, Pooler, Positions, Stack,
    TokenScores, Tokens,
};
use crate::block::Placement;
use crate::layers::{Activation, NormConfig};
use serde::{Deserialize, Serialize};

/// The settings of a BERT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BertConfig {
    /// The number of tokens it knows.
    pub vocabulary: usize,
    /// The most positions it reads.
    pub context: usize,
    /// The number of token types; 0 if it has none.
    pub n_types: usize,
    /// The number of layers.
    pub n_layers: usize,
    /// The number of heads in each.
    pub n_heads: usize,
    /// The width of the residual stream.
    pub d_model: usize,
    /// The width inside the feed-forward layers.
    pub d_hidden: usize,
    /// The function in the feed-forward layers.
    pub activation: Activation,
    /// ε of the layer norms.
    pub norm_epsilon: f32,
    /// The deviation of initial weights.
    pub deviation: f32,
    /// The share of values that training drops.
    pub dropout: f32,
    /// The number of classes of a text that it distinguishes; if not given it predicts masked words.
    pub classes: Option<usize>,
    /// Whether training recomputes each layer in the backward pass instead of keeping its values.
    pub checkpointing: bool,
}

impl Default for BertConfig {
    /// BERT base, with the head that predicts masked words.
    fn default() -> Self {
        Self {
            vocabulary: 30_522,
            context: 512,
            n_types: 2,
            n_layers: 12,
            n_heads: 12,
            d_model: 768,
            d_hidden: 3072,
            activation: Activation::Gelu,
            norm_epsilon: 1e-12,
            deviation: 0.02,
            dropout: 0.0,
            classes: None,
            checkpointing: false,
        }
    }
}

impl BertConfig {
    /// The form of this BERT.
    pub fn form(&self) -> Form {
        let norm = NormConfig::layer(self.norm_epsilon);
        let layer = Layer {
            attention: Attention::new(self.d_model, self.n_heads),
            cross: None,
            feed_forward: FeedForward { bias: true, ..FeedForward::new(self.d_hidden, self.activation) },
            norm,
            placement: Placement::Post,
            residual_scale: 1.0,
            layer_scale: None,
        };
        let words =
            TokenScores { bias: true, transform: Some((self.activation, norm)), ..TokenScores::new(true) };
        Form {
            family: "bert".to_owned(),
            d_model: self.d_model,
            context: Some(self.context),
            input: Input::Tokens(Tokens {
                types: self.n_types,
                norm: Some(norm),
                ..Tokens::new(self.vocabulary)
            }),
            encoder: Some(Stack {
                positions: Positions::Learned { context: self.context, offset: 0, skips_padding: false },
                ..Stack::of(self.n_layers, layer)
            }),
            decoder: None,
            output: Output {
                tokens: self.classes.is_none().then_some(words),
                pooler: self.classes.map(|_| Pooler::new(Activation::Tanh)),
                classes: self.classes,
                ..Output::default()
            },
            dropout: Dropouts {
                embeddings: self.dropout,
                attention: self.dropout,
                residual: self.dropout,
                last: 0.0,
                pooled: self.dropout,
            },
            deviations: Deviations::all(self.deviation),
            checkpointing: self.checkpointing,
        }
    }
}
