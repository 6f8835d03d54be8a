//! A transformer, described: everything in which architectures differ, as data.
//!
//! A [`Form`] fits on a screen. One [`Transformer`](super::Transformer) runs any of them; a family of checkpoints is a
//! table from its configuration to a form; GPT, BERT, T5, Llama and ViT are recipes that write one.
//!
//! ```
//! use regard_nn::models::{GptConfig, Transformer};
//!
//! let form = GptConfig { vocabulary: 65, context: 64, n_layers: 2, n_heads: 4, d_model: 32, ..Default::default() }.form();
//! let gpt = Transformer::new(form, 0)?;
//! # Ok::<(), regard_nn::Error>(())
//! ```

mod attention;
mod check;
mod feed_forward;
mod input;
mod output;
mod stack;
mod training;

pub use attention::{Attention, AttentionPositions, Window};
pub use feed_forward::FeedForward;
pub use input::{Input, Patches, Projection, Tokens};
pub use output::{AttentionPooler, Output, Pooler, Pooling, TokenClasses, TokenScores, Vector};
pub use stack::{Layer, Positions, Stack};
pub use training::{Deviations, Dropouts};

use super::model::{Abilities, Predicts, Reads};
use regard_tensor::ops::Layout;
use serde::{Deserialize, Serialize};

/// A whole transformer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    /// The family it comes from, for messages and for writing checkpoints: `gpt2`, `llama`, …
    pub family: String,
    /// The width of the residual stream.
    pub d_model: usize,
    /// The number of tokens it was made for. Learned positions enforce it, other encodings do not.
    pub context: Option<usize>,
    /// What it reads.
    pub input: Input,
    /// Layers in which every token attends to every other.
    pub encoder: Option<Stack>,
    /// Layers in which a token attends to itself and earlier ones; with an encoder, also to the encoder's output.
    pub decoder: Option<Stack>,
    /// What its last hidden states are turned into.
    #[serde(default)]
    pub output: Output,
    /// What training drops.
    #[serde(default)]
    pub dropout: Dropouts,
    /// The standard deviations of initial weights.
    pub deviations: Deviations,
    /// Whether training recomputes each layer in the backward pass instead of keeping its values.
    #[serde(default)]
    pub checkpointing: bool,
}

impl Form {
    /// The stack whose hidden states are scored: the decoder, where there is one.
    pub fn last_stack(&self) -> Option<&Stack> {
        self.decoder.as_ref().or(self.encoder.as_ref())
    }

    /// The number of tokens it knows; 0 if it reads pictures.
    pub fn vocabulary(&self) -> usize {
        match &self.input {
            Input::Tokens(tokens) => tokens.vocabulary,
            Input::Patches(_) => 0,
        }
    }

    /// The width of the embeddings before they are projected.
    pub fn d_embedding(&self) -> usize {
        match &self.input {
            Input::Tokens(tokens) => tokens.d_embedding.unwrap_or(self.d_model),
            Input::Patches(_) => self.d_model,
        }
    }

    /// The width of what is added to embeddings for positions and types.
    pub fn d_positions(&self) -> usize {
        match &self.input {
            Input::Tokens(tokens) if tokens.projection == Projection::BeforePositions => self.d_model,
            _ => self.d_embedding(),
        }
    }

    /// Whether an encoder reads and a decoder answers.
    pub fn has_both(&self) -> bool {
        self.encoder.is_some() && self.decoder.is_some()
    }

    /// What such a transformer reads and predicts.
    pub fn abilities(&self) -> Abilities {
        let output = &self.output;
        let one_logit = output.token_classes.is_some_and(|of_tokens| of_tokens.classes == 1);
        let (predicts, classes) = match (output.classes, output.token_classes, output.tokens) {
            (Some(classes), ..) => (Predicts::Class, classes),
            (_, Some(of_tokens), _) => (Predicts::TokenClass, of_tokens.classes.max(2)),
            _ if output.spans => (Predicts::Span, 2),
            _ if output.vector.is_some() => (Predicts::Vector, output.vector_width(self.d_model)),
            (.., Some(_)) if self.decoder.is_some() => (Predicts::NextToken, self.vocabulary()),
            (.., Some(_)) => (Predicts::MaskedToken, self.vocabulary()),
            _ => (Predicts::Nothing, 0),
        };
        let (reads, types, start) = match &self.input {
            Input::Patches(patches) => (Reads::Pictures(*patches), 0, None),
            Input::Tokens(tokens) if self.has_both() => (Reads::Source, tokens.types, tokens.start),
            Input::Tokens(tokens) => (Reads::Tokens, tokens.types, None),
        };
        Abilities { reads, predicts, classes, context: self.context, types, start, one_logit }
    }

    /// The same form for another number of tokens.
    #[must_use]
    pub fn with_vocabulary(mut self, vocabulary: usize) -> Self {
        if let Input::Tokens(tokens) = &mut self.input {
            tokens.vocabulary = vocabulary;
        }
        self
    }

    /// The same form for another number of classes, if it has a classifier.
    #[must_use]
    pub fn with_classes(mut self, classes: usize) -> Self {
        self.output.classes = self.output.classes.map(|_| classes);
        if let Some(of_tokens) = &mut self.output.token_classes {
            of_tokens.classes = classes;
        }
        self
    }
}

fn layout(transposed: bool) -> Layout {
    if transposed { Layout::InOut } else { Layout::OutIn }
}

/// The default of what most have.
fn yes() -> bool {
    true
}

/// The default of factors.
fn one() -> f32 {
    1.0
}
