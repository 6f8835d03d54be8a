//! ViT: a transformer that reads a picture as a text of patches (Dosovitskiy et al., 2020).
//!
//! ```text
//! x = [class; patches·W] + positions
//! x = x + attention(norm(x));  x = x + ffn(norm(x))        for each layer
//! logits = norm(x)[class]·W
//! ```

use super::form::{
    Attention, Deviations, Dropouts, FeedForward, Form, Input, Layer, Output, Patches, Positions, Stack,
};
use crate::attention::Biases;
use crate::block::Placement;
use crate::layers::{Activation, NormConfig};
use serde::{Deserialize, Serialize};

/// The settings of a ViT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VitConfig {
    /// The height and width of a picture in pixels.
    pub image: [usize; 2],
    /// The side of a patch in pixels.
    pub patch: usize,
    /// The number of colour channels.
    pub channels: usize,
    /// The number of classes; 0 for no classifier.
    pub classes: usize,
    /// The number of layers.
    pub n_layers: usize,
    /// The number of heads in each.
    pub n_heads: usize,
    /// The width of the residual stream.
    pub d_model: usize,
    /// The width inside the feed-forward layers.
    pub d_hidden: usize,
    /// The function in them.
    pub activation: Activation,
    /// Whether queries, keys and values have biases.
    pub attention_bias: bool,
    /// ε of the layer norms.
    pub norm_epsilon: f32,
    /// The deviation of initial weights.
    pub deviation: f32,
    /// The share of values that training drops.
    pub dropout: f32,
    /// Whether training recomputes each layer in the backward pass instead of keeping its values.
    pub checkpointing: bool,
}

impl Default for VitConfig {
    /// Small enough for hand-written digits.
    fn default() -> Self {
        Self {
            image: [28, 28],
            patch: 4,
            channels: 1,
            classes: 10,
            n_layers: 4,
            n_heads: 4,
            d_model: 64,
            d_hidden: 256,
            activation: Activation::Gelu,
            attention_bias: true,
            norm_epsilon: 1e-12,
            deviation: 0.02,
            dropout: 0.0,
            checkpointing: false,
        }
    }
}

impl VitConfig {
    /// The form of this ViT.
    pub fn form(&self) -> Form {
        let norm = NormConfig::layer(self.norm_epsilon);
        let patches = Patches::new(self.image, self.patch, self.channels);
        let layer = Layer {
            attention: Attention {
                bias: Biases { output: true, ..Biases::all(self.attention_bias) },
                ..Attention::new(self.d_model, self.n_heads)
            },
            cross: None,
            feed_forward: FeedForward { bias: true, ..FeedForward::new(self.d_hidden, self.activation) },
            norm,
            placement: Placement::Pre,
            residual_scale: 1.0,
            layer_scale: None,
        };
        Form {
            family: "vit".to_owned(),
            d_model: self.d_model,
            context: None,
            input: Input::Patches(patches),
            encoder: Some(Stack {
                positions: Positions::Learned {
                    context: patches.count().saturating_add(1),
                    offset: 0,
                    skips_padding: false,
                },
                norm: Some(norm),
                ..Stack::of(self.n_layers, layer)
            }),
            decoder: None,
            output: Output { classes: (self.classes > 0).then_some(self.classes), ..Output::default() },
            dropout: Dropouts {
                embeddings: self.dropout,
                attention: self.dropout,
                residual: self.dropout,
                ..Dropouts::default()
            },
            deviations: Deviations::all(self.deviation),
            checkpointing: self.checkpointing,
        }
    }
}
