//! What the configurations of all decoders have in common.

use crate::layers::NormConfig;
use crate::models::form::{
    Attention, Deviations, Dropouts, FeedForward, Form, Input, Layer, Output, Positions, Stack, Tokens,
};

/// The sizes of a decoder whose layers are alike.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoder {
    pub d_model: usize,
    pub vocabulary: usize,
    pub context: Option<usize>,
    pub n_layers: usize,
    pub deviation: f32,
    pub dropout: f32,
}

impl Decoder {
    /// The form with layers of these parts, their norms before each sublayer, and a last norm.
    pub fn form(
        &self,
        (attention, feed_forward): (Attention, FeedForward),
        norm: NormConfig,
        output: Output,
    ) -> Form {
        let layer = Layer {
            attention,
            cross: None,
            feed_forward,
            norm,
            placement: crate::block::Placement::Pre,
            residual_scale: 1.0,
            layer_scale: None,
        };
        Form {
            family: String::new(),
            d_model: self.d_model,
            context: self.context,
            input: Input::Tokens(Tokens::new(self.vocabulary)),
            encoder: None,
            decoder: Some(Stack {
                norm: Some(norm),
                positions: Positions::None,
                ..Stack::of(self.n_layers, layer)
            }),
            output,
            dropout: Dropouts {
                embeddings: self.dropout,
                attention: self.dropout,
                residual: self.dropout,
                ..Dropouts::default()
            },
            deviations: Deviations::by_depth(self.deviation, self.n_layers),
            checkpointing: false,
        }
    }
}
