//! What the last hidden states are turned into.

use super::{one, yes};
use crate::error::{Error, Result};
use crate::layers::{Activation, NormConfig};
use crate::models::sizes::{ensure_epsilon, ensure_sizes};
use serde::{Deserialize, Serialize};

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
    /// Which token stands for the whole input.
    pub pooling: Pooling,
    /// A query of its own that attends to all hidden states and stands for the whole input instead.
    pub attention_pooler: Option<AttentionPooler>,
    /// A vector for the whole input, to compare with those of others.
    pub vector: Option<Vector>,
    /// Whether a second classifier reads the second token, and the mean of both counts (DeiT).
    pub distilled: bool,
    /// Scores of the classes of each token.
    pub token_classes: Option<TokenClasses>,
    /// Whether each token is scored as the first and as the last of an answer.
    pub spans: bool,
    /// Classes of the whole input that are scored beside the tokens, at the site `pair.logits`: whether one sentence
    /// follows another, which BERT learns together with masked words.
    pub pair: Option<usize>,
    /// The share of a target's probability that training spreads over all tokens.
    pub smoothing: f32,
}

impl Output {
    pub(super) fn check(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.smoothing) {
            let problem = format!("smoothing must be at least 0 and below 1, got {}", self.smoothing);
            return Err(Error::configuration("transformer", problem));
        }
        if let Some(cap) = self.tokens.and_then(|scores| scores.soft_cap)
            && !(cap > 0.0 && cap.is_finite())
        {
            let problem = format!("a soft cap must be a number above 0, got {cap}");
            return Err(Error::configuration("transformer", problem));
        }
        if self.distilled && self.classes.is_none() {
            let problem = "a second classifier stands beside a first";
            return Err(Error::configuration("transformer", problem));
        }
        if let Some(AttentionPooler { n_heads, d_hidden, norm, .. }) = self.attention_pooler {
            ensure_sizes("transformer", &[("n_heads", n_heads), ("d_hidden", d_hidden)])?;
            ensure_epsilon("transformer", norm.epsilon)?;
        }
        let width = self.vector.and_then(|vector| vector.projection).map_or(1, |(width, _)| width);
        ensure_sizes("transformer", &[("vector", width)])?;
        let classes = [self.classes, self.pair, self.token_classes.map(|of_tokens| of_tokens.classes)];
        let whole = self.classes.is_some() || self.tokens.is_some();
        if [whole, self.token_classes.is_some(), self.spans, self.vector.is_some()]
            .iter()
            .filter(|&&has| has)
            .count()
            > 1
        {
            let problem = "it scores tokens, classes of texts, classes of tokens, spans or a vector, not several of them";
            return Err(Error::configuration("transformer", problem));
        }
        if self.pair.is_some() && self.tokens.is_none() {
            let problem = "a pair is scored beside tokens; without them it is one of the classes of a text";
            return Err(Error::configuration("transformer", problem));
        }
        classes
            .iter()
            .try_for_each(|classes| ensure_sizes("transformer", &[("classes", classes.unwrap_or(1))]))
    }

    /// The number of classes that have names.
    pub fn labels(&self) -> Option<usize> {
        let of_tokens = self.token_classes.map(|of_tokens| of_tokens.classes).filter(|&classes| classes > 1);
        self.classes.or(of_tokens)
    }

    /// The width of the vector for the whole input.
    pub(super) fn vector_width(&self, d_model: usize) -> usize {
        self.vector.and_then(|vector| vector.projection).map_or(d_model, |(width, _)| width)
    }

    /// Whether nothing is scored.
    pub fn is_bare(&self) -> bool {
        self.tokens.is_none() && self.classes.is_none() && self.token_classes.is_none() && !self.spans
    }
}

/// Which token stands for the whole input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pooling {
    /// The first, as encoders have it; classes are scored with a bias.
    #[default]
    First,
    /// The last that is not padding, as decoders have it; classes are scored without a bias.
    Last,
    /// The last position, even if it is padding (SigLIP).
    End,
    /// The first token with this id (CLIP).
    Token(u32),
    /// The token with the largest id (the first CLIP models).
    Largest,
    /// The mean of all that are not padding (ModernBERT).
    Mean,
    /// The first beside the mean of the patches (DINOv2).
    FirstAndMean,
}

impl Pooling {
    /// The position of the token that stands for `tokens` of them, where it depends on nothing else and no other has a share.
    pub fn position(self, tokens: usize) -> Option<usize> {
        match self {
            Self::First => Some(0),
            Self::Last | Self::End => Some(tokens.saturating_sub(1)),
            Self::Token(_) | Self::Largest | Self::Mean | Self::FirstAndMean => None,
        }
    }
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
    /// Whether hidden states are projected to the width of the embeddings, without a bias (OPT).
    #[serde(default)]
    pub projected: bool,
    /// Whether that layer has a bias.
    #[serde(default = "yes")]
    pub transform_bias: bool,
    /// What hidden states are multiplied with before they are scored.
    #[serde(default = "one")]
    pub scale: f32,
    /// Scores s become cap·tanh(s / cap) (Gemma 2).
    #[serde(default)]
    pub soft_cap: Option<f32>,
}

impl TokenScores {
    /// Plain scores, by the embedding table or by one of their own.
    pub fn new(tied: bool) -> Self {
        Self {
            tied,
            bias: false,
            transform: None,
            transform_bias: true,
            projected: false,
            scale: 1.0,
            soft_cap: None,
        }
    }
}

/// How the classes of each token are scored.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenClasses {
    /// The number of classes; 1 for a single logit that tells two classes apart.
    pub classes: usize,
    /// A layer before the scores, as a pooler has one.
    #[serde(default)]
    pub transform: Option<Pooler>,
}

/// A layer between hidden states and the scores of classes: of the vector that stands for the whole input, or of each
/// token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pooler {
    /// The function after that layer.
    pub activation: Activation,
    /// Whether the layer has a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// A norm after the function.
    #[serde(default)]
    pub norm: Option<NormConfig>,
}

impl Pooler {
    /// A layer with a bias and this function.
    pub fn new(activation: Activation) -> Self {
        Self { activation, bias: true, norm: None }
    }
}

/// A learned query that attends to all hidden states, then a feed-forward layer with a norm before it (SigLIP):
/// `x = attention(query); x + ffn(norm(x))`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionPooler {
    /// The number of heads.
    pub n_heads: usize,
    /// The width inside the feed-forward layer.
    pub d_hidden: usize,
    /// The function there.
    pub activation: Activation,
    /// The norm before it.
    pub norm: NormConfig,
}

/// A vector for the whole input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// Its width and whether there is a bias, if it is projected.
    #[serde(default)]
    pub projection: Option<(usize, bool)>,
}
