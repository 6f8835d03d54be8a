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

use super::model::{Abilities, Predicts, Reads};
use super::sizes::{ensure_dropout, ensure_epsilon, ensure_sizes};
use crate::attention::{AttentionConfig, AttentionKind, Biases, Pattern, QueryKeyNorm, Scale};
use crate::block::Placement;
use crate::error::{Error, Result};
use crate::layers::{Activation, FeedForwardConfig, NormConfig};
use crate::position::RotaryConfig;
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

/// What a transformer reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// Token ids.
    Tokens(Tokens),
    /// A picture, cut into patches.
    Patches(Patches),
}

/// The embedding of tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// The number of tokens.
    pub vocabulary: usize,
    /// The number of token types (segments); 0 for none.
    #[serde(default)]
    pub types: usize,
    /// The width of the embeddings, projected to `d_model`, where it is another one.
    #[serde(default)]
    pub d_embedding: Option<usize>,
    /// What embeddings are multiplied with.
    #[serde(default = "one")]
    pub scale: f32,
    /// A norm after positions and types have been added.
    #[serde(default)]
    pub norm: Option<NormConfig>,
    /// The token that a decoder starts an answer with.
    #[serde(default)]
    pub start: Option<u32>,
}

impl Tokens {
    /// A plain table.
    pub fn new(vocabulary: usize) -> Self {
        Self { vocabulary, types: 0, d_embedding: None, scale: 1.0, norm: None, start: None }
    }
}

/// The embedding of a picture's patches, after a learned class token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patches {
    /// The height and width of a picture in pixels.
    pub image: [usize; 2],
    /// The side of a patch in pixels.
    pub size: usize,
    /// The number of colour channels.
    pub channels: usize,
}

impl Patches {
    /// The rows and columns of patches.
    pub fn grid(&self) -> (usize, usize) {
        (self.image[0] / self.size.max(1), self.image[1] / self.size.max(1))
    }

    /// The number of patches.
    pub fn count(&self) -> usize {
        self.grid().0.saturating_mul(self.grid().1)
    }
}

/// Layers, one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// The number of layers.
    pub n_layers: usize,
    /// The forms that layers have.
    pub layers: Vec<Layer>,
    /// Which of these forms each layer has, repeated over all layers: `[0, 1]` alternates between two. Empty: the first.
    #[serde(default)]
    pub order: Vec<usize>,
    /// Whether all layers share one set of weights.
    #[serde(default)]
    pub shared: bool,
    /// What is added to the embeddings for their positions.
    #[serde(default)]
    pub positions: Positions,
    /// The norm after the last layer.
    #[serde(default)]
    pub norm: Option<NormConfig>,
}

impl Stack {
    /// So many layers of one form.
    pub fn of(n_layers: usize, layer: Layer) -> Self {
        let (layers, positions) = (vec![layer], Positions::default());
        Self { n_layers, layers, order: Vec::new(), shared: false, positions, norm: None }
    }

    /// The index, among the forms, of a layer's form.
    pub fn form_of(&self, layer: usize) -> usize {
        if self.order.is_empty() { 0 } else { self.order[layer % self.order.len()] }
    }
}

/// What is added to embeddings for their positions.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Positions {
    /// Nothing.
    #[default]
    None,
    /// Fixed sines and cosines.
    Sinusoidal {
        /// What they are multiplied with.
        scale: f32,
    },
    /// A learned vector for each position.
    Learned {
        /// The most positions.
        context: usize,
        /// The row of the table that the first position has.
        #[serde(default)]
        offset: usize,
        /// Whether tokens with the id `offset − 1` are padding that takes no position, as RoBERTa counts.
        #[serde(default)]
        skips_padding: bool,
    },
}

/// One layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Self-attention.
    pub attention: Attention,
    /// Attention to the encoder's output.
    #[serde(default)]
    pub cross: Option<Attention>,
    /// The feed-forward layer.
    pub feed_forward: FeedForward,
    /// Its norms.
    pub norm: NormConfig,
    /// Where they stand.
    #[serde(default)]
    pub placement: Placement,
    /// What each sublayer's output is multiplied with before it is added to the residual stream.
    #[serde(default = "one")]
    pub residual_scale: f32,
}

/// Multi-head attention in a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// The number of query heads.
    pub n_heads: usize,
    /// The number of key-value heads.
    pub n_kv_heads: usize,
    /// The width of a head.
    pub d_head: usize,
    /// Whether queries, keys and values come from one projection.
    #[serde(default)]
    pub fused: bool,
    /// Which projections have biases.
    #[serde(default)]
    pub bias: Biases,
    /// A norm of queries and keys.
    #[serde(default)]
    pub query_key_norm: Option<(QueryKeyNorm, NormConfig)>,
    /// What scores are multiplied with.
    #[serde(default)]
    pub scale: Scale,
    /// Whether scores are also divided by the layer's number, counted from 1.
    #[serde(default)]
    pub scale_by_layer: bool,
    /// Scores s become cap·tanh(s / cap).
    #[serde(default)]
    pub soft_cap: Option<f32>,
    /// How pairs are scored and how scores become weights.
    #[serde(default)]
    pub kind: AttentionKind,
    /// How far a token sees, if not everywhere that the stack allows.
    #[serde(default)]
    pub window: Option<Window>,
    /// A further pattern that pairs must fit.
    #[serde(default)]
    pub pattern: Option<Pattern>,
    /// Positions that act inside attention.
    #[serde(default)]
    pub positions: Option<AttentionPositions>,
    /// Whether weights lie as (inputs, outputs), as GPT-2's do, rather than as (outputs, inputs).
    #[serde(default)]
    pub transposed: bool,
}

/// How far a token sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Positions back.
    pub before: usize,
    /// Positions ahead.
    #[serde(default)]
    pub after: usize,
}

/// Positions that act inside attention.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum AttentionPositions {
    /// Queries and keys rotated by their positions.
    Rotary(RotaryConfig),
    /// A penalty proportional to distance.
    Alibi,
    /// A learned bias by distance, one table for all layers of the stack.
    Relative {
        /// The number of distances that are distinguished.
        buckets: usize,
        /// The distance beyond which all are the same.
        max_distance: usize,
    },
}

impl Attention {
    /// Heads that share the width evenly, with biases and the usual scale.
    pub fn new(d_model: usize, n_heads: usize) -> Self {
        Self {
            n_heads,
            n_kv_heads: n_heads,
            d_head: if n_heads > 0 && d_model.is_multiple_of(n_heads) { d_model / n_heads } else { 0 },
            fused: false,
            bias: Biases::all(true),
            query_key_norm: None,
            scale: Scale::InverseRoot,
            scale_by_layer: false,
            soft_cap: None,
            kind: AttentionKind::Softmax,
            window: None,
            pattern: None,
            positions: None,
            transposed: false,
        }
    }

    /// Who may attend to whom.
    pub fn allowed(&self, causal: bool) -> Pattern {
        let window = self.window.map(|window| Pattern::Window {
            before: window.before,
            after: if causal { 0 } else { window.after },
        });
        let base = if causal { Pattern::Causal } else { Pattern::Full };
        let mut parts: Vec<Pattern> = window.into_iter().chain(self.pattern.clone()).collect();
        match (parts.len(), causal) {
            (0, _) => base,
            (1, false) => parts.remove(0),
            _ => Pattern::All(if causal { [vec![base], parts].concat() } else { parts }),
        }
    }

    /// What the module of a layer is built from.
    pub fn config(&self, d_model: usize, layer: usize, dropout: f32) -> AttentionConfig {
        let scale = match self.scale_by_layer {
            false => self.scale,
            true => Scale::Factor(self.scale.factor(self.d_head) / (layer + 1) as f32),
        };
        AttentionConfig {
            d_model,
            d_memory: d_model,
            n_heads: self.n_heads,
            n_kv_heads: self.n_kv_heads,
            d_head: self.d_head,
            fused: self.fused,
            bias: self.bias,
            query_key_norm: self.query_key_norm,
            layout: layout(self.transposed),
            scale,
            soft_cap: self.soft_cap,
            kind: self.kind,
            dropout,
        }
    }

    fn check(&self) -> Result<()> {
        let heads = [("n_heads", self.n_heads), ("n_kv_heads", self.n_kv_heads)];
        ensure_sizes("attention", &[&heads[..], &[("d_head", self.d_head.max(1))]].concat())?;
        match self.positions {
            Some(AttentionPositions::Rotary(rotary)) => rotary.check(self.d_head)?,
            Some(AttentionPositions::Relative { buckets, max_distance }) => {
                ensure_sizes("attention", &[("buckets", buckets), ("max_distance", max_distance)])?;
                if buckets < 4 {
                    let problem = format!("buckets must be at least 4, got {buckets}");
                    return Err(Error::configuration("attention", problem));
                }
            }
            _ => {}
        }
        let biased =
            matches!(self.positions, Some(AttentionPositions::Alibi | AttentionPositions::Relative { .. }));
        if biased && self.kind == AttentionKind::Linear {
            let problem = "linear attention has no scores that alibi or relative positions could be added to";
            return Err(Error::configuration("attention", problem));
        }
        let problem = match (self.soft_cap, self.scale, &self.pattern) {
            (Some(cap), ..) if !(cap > 0.0 && cap.is_finite()) => "a soft cap must be a number above 0",
            (Some(_), ..) if self.kind == AttentionKind::Linear => "linear attention has no scores to cap",
            (_, Scale::Factor(factor), _) if !factor.is_finite() => "the scale must be a number",
            (.., Some(Pattern::Strided(0))) => "a stride must be at least 1",
            _ => return Ok(()),
        };
        Err(Error::configuration("attention", problem))
    }
}

/// The feed-forward layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedForward {
    /// The width in the middle.
    pub d_hidden: usize,
    /// The function there.
    pub activation: Activation,
    /// Whether the function's value multiplies a second projection.
    #[serde(default)]
    pub gated: bool,
    /// Whether its projections have biases.
    #[serde(default)]
    pub bias: bool,
    /// Whether weights lie as (inputs, outputs), as GPT-2's do, rather than as (outputs, inputs).
    #[serde(default)]
    pub transposed: bool,
}

impl FeedForward {
    /// What the module is built from.
    pub fn config(&self, d_model: usize) -> FeedForwardConfig {
        let Self { d_hidden, activation, gated, bias, transposed } = *self;
        FeedForwardConfig { d_model, d_hidden, activation, gated, bias, layout: layout(transposed) }
    }
}

/// What the last hidden states are turned into.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Output {
    /// Scores of tokens: of the next one if the last stack is causal, else of a masked one.
    pub tokens: Option<TokenScores>,
    /// One vector for the whole input.
    pub pooler: Option<Pooler>,
    /// Scores of the classes of the whole input.
    pub classes: Option<usize>,
    /// The share of a target's probability that training spreads over all tokens.
    pub smoothing: f32,
}

/// How tokens are scored.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenScores {
    /// Whether the embedding table scores them.
    pub tied: bool,
    /// Whether each token has a bias.
    #[serde(default)]
    pub bias: bool,
    /// A layer with this activation and a norm before the scores.
    #[serde(default)]
    pub transform: Option<(Activation, NormConfig)>,
    /// What hidden states are multiplied with before they are scored.
    #[serde(default = "one")]
    pub scale: f32,
}

/// A vector for the whole input: that of the first token through a layer of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pooler {
    /// The function after that layer.
    pub activation: Activation,
}

/// The shares of values that training drops.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dropouts {
    /// Of embeddings.
    pub embeddings: f32,
    /// Of attention weights.
    pub attention: f32,
    /// Of what each sublayer adds to the residual stream.
    pub residual: f32,
    /// Of the hidden states after the last norm.
    pub last: f32,
    /// Of the pooled vector before it is classified.
    pub pooled: f32,
}

/// The standard deviations of initial weights.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviations {
    /// Of embeddings.
    pub embeddings: f32,
    /// Of learned positions.
    pub positions: f32,
    /// Of projections that read the residual stream, and of heads.
    pub inner: f32,
    /// Of projections that write to it.
    pub residual: f32,
}

impl Deviations {
    /// One for all.
    pub fn all(deviation: f32) -> Self {
        Self { embeddings: deviation, positions: deviation, inner: deviation, residual: deviation }
    }

    /// One for all but the projections that write to the residual stream, which is summed over two a layer.
    pub fn by_depth(deviation: f32, n_layers: usize) -> Self {
        Self { residual: deviation / (2.0 * n_layers.max(1) as f32).sqrt(), ..Self::all(deviation) }
    }
}

fn layout(transposed: bool) -> Layout {
    if transposed { Layout::InOut } else { Layout::OutIn }
}

/// The default of factors.
fn one() -> f32 {
    1.0
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

    /// Whether an encoder reads and a decoder answers.
    pub fn has_both(&self) -> bool {
        self.encoder.is_some() && self.decoder.is_some()
    }

    /// What such a transformer reads and predicts.
    pub fn abilities(&self) -> Abilities {
        let (predicts, classes) = match (self.output.classes, self.output.tokens) {
            (Some(classes), _) => (Predicts::Class, classes),
            (None, Some(_)) if self.decoder.is_some() => (Predicts::NextToken, self.vocabulary()),
            (None, Some(_)) => (Predicts::MaskedToken, self.vocabulary()),
            (None, None) => (Predicts::Nothing, 0),
        };
        let (reads, types, start) = match &self.input {
            Input::Patches(patches) => (Reads::Pictures(*patches), 0, None),
            Input::Tokens(tokens) if self.has_both() => (Reads::Source, tokens.types, tokens.start),
            Input::Tokens(tokens) => (Reads::Tokens, tokens.types, None),
        };
        Abilities { reads, predicts, classes, context: self.context, types, start, one_logit: false }
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
        self
    }

    /// Rejects forms that cannot be built, before anything is allocated.
    pub fn check(&self) -> Result<()> {
        let wrong = |problem: String| Err(Error::configuration("transformer", problem));
        ensure_sizes("transformer", &[("d_model", self.d_model), ("context", self.context.unwrap_or(1))])?;
        match &self.input {
            Input::Tokens(tokens) => {
                let width = tokens.d_embedding.unwrap_or(1);
                let sizes = [
                    ("vocabulary", tokens.vocabulary),
                    ("d_embedding", width),
                    ("types", tokens.types.max(1)),
                ];
                ensure_sizes("transformer", &sizes)?;
                if !tokens.scale.is_finite() {
                    return wrong(format!("the scale of embeddings must be a number, got {}", tokens.scale));
                }
                if let Some(norm) = tokens.norm {
                    ensure_epsilon("transformer", norm.epsilon)?;
                }
                if let Some(start) = tokens.start.filter(|&start| start as usize >= tokens.vocabulary) {
                    return wrong(format!(
                        "start is {start}, which is none of its {} tokens",
                        tokens.vocabulary
                    ));
                }
            }
            Input::Patches(Patches { image: [height, width], size, channels }) => {
                let sizes =
                    [("height", *height), ("width", *width), ("patch", *size), ("channels", *channels)];
                ensure_sizes("transformer", &sizes)?;
                if !height.is_multiple_of(*size) || !width.is_multiple_of(*size) {
                    return wrong(format!(
                        "an image of {height}×{width} is not made of patches of {size}×{size}"
                    ));
                }
                if self.decoder.is_some() || self.output.tokens.is_some() {
                    return wrong(
                        "a transformer that reads pictures has an encoder and classes only".to_owned(),
                    );
                }
            }
        }
        let stacks: Vec<&Stack> = self.encoder.iter().chain(&self.decoder).collect();
        if stacks.is_empty() {
            return wrong("it needs an encoder, a decoder or both".to_owned());
        }
        for stack in stacks {
            self.check_stack(stack)?;
        }
        let crosses = |stack: &Option<Stack>| {
            stack.iter().flat_map(|stack| &stack.layers).any(|layer| layer.cross.is_some())
        };
        let all_cross =
            self.decoder.iter().flat_map(|stack| &stack.layers).all(|layer| layer.cross.is_some());
        if crosses(&self.encoder)
            || !self.has_both() && crosses(&self.decoder)
            || self.has_both() && !all_cross
        {
            let problem =
                "the layers of a decoder have cross-attention if there is an encoder, and no others have it";
            return wrong(problem.to_owned());
        }
        if self.output.tokens.is_some_and(|scores| scores.tied && scores.transform.is_none())
            && self.d_embedding() != self.d_model
        {
            let problem = "a table of narrower embeddings scores tokens only after a transform to its width";
            return wrong(problem.to_owned());
        }
        if let Some(Stack { positions: Positions::Learned { skips_padding: true, .. }, .. }) = self.decoder {
            let problem = "positions that skip padding are for encoders, which read everything at once";
            return wrong(problem.to_owned());
        }
        let Dropouts { embeddings, attention, residual, last, pooled } = self.dropout;
        for dropout in [embeddings, attention, residual, last, pooled] {
            ensure_dropout("transformer", dropout)?;
        }
        if !(0.0..1.0).contains(&self.output.smoothing) {
            return wrong(format!("smoothing must be at least 0 and below 1, got {}", self.output.smoothing));
        }
        if let Some(classes) = self.output.classes {
            ensure_sizes("transformer", &[("classes", classes)])?;
        }
        let Deviations { embeddings, positions, inner, residual } = self.deviations;
        match [embeddings, positions, inner, residual]
            .iter()
            .find(|&&value| !(value >= 0.0 && value.is_finite()))
        {
            Some(value) => wrong(format!("deviation must be a number of at least 0, got {value}")),
            None => Ok(()),
        }
    }

    fn check_stack(&self, stack: &Stack) -> Result<()> {
        let wrong = |problem: String| Err(Error::configuration("transformer", problem));
        if stack.layers.is_empty() || stack.order.iter().any(|&form| form >= stack.layers.len()) {
            return wrong(format!("order names a form of layer that is none of {}", stack.layers.len()));
        }
        // No more layers than a machine could hold: each has parameters of its own.
        ensure_sizes("transformer", &[("n_layers", stack.n_layers.max(1))])?;
        if let Positions::Learned { context, offset, .. } = stack.positions {
            ensure_sizes("transformer", &[("context", context), ("position_offset", offset.max(1))])?;
        }
        let tables = |layer: &Layer| match layer.attention.positions {
            Some(AttentionPositions::Relative { buckets, max_distance }) => {
                Some((buckets, max_distance, layer.attention.n_heads))
            }
            _ => None,
        };
        let mut relative = stack.layers.iter().filter_map(tables);
        if let Some(first) = relative.next()
            && relative.any(|other| other != first)
        {
            return wrong(
                "layers that share a table of relative positions must have as many heads and buckets".into(),
            );
        }
        if let Some(norm) = stack.norm {
            ensure_epsilon("transformer", norm.epsilon)?;
        }
        if stack.shared && stack.layers.len() > 1 {
            return wrong("layers that share their weights have one form".to_owned());
        }
        for layer in &stack.layers {
            ensure_epsilon("transformer", layer.norm.epsilon)?;
            if !layer.residual_scale.is_finite() {
                return wrong(format!("residual_scale must be a number, got {}", layer.residual_scale));
            }
            if layer.cross.as_ref().is_some_and(|cross| cross.fused) {
                return wrong(
                    "cross-attention reads two kinds of vectors: its projections cannot be fused".to_owned(),
                );
            }
            ensure_sizes("transformer", &[("d_hidden", layer.feed_forward.d_hidden)])?;
            for attention in [&layer.attention].into_iter().chain(&layer.cross) {
                attention.check()?;
                attention.config(self.d_model, 0, 0.0).check()?;
            }
        }
        Ok(())
    }
}
