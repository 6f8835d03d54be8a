//! What the last hidden states are turned into.

use super::one;
use crate::error::{Error, Result};
use crate::layers::{Activation, NormConfig};
use crate::models::sizes::ensure_sizes;
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
        let classes = [self.classes, self.pair, self.token_classes.map(|of_tokens| of_tokens.classes)];
        let whole = self.classes.is_some() || self.tokens.is_some();
        if [whole, self.token_classes.is_some(), self.spans].iter().filter(|&&has| has).count() > 1 {
            let problem =
                "it scores tokens, classes of texts, classes of tokens or spans, not several of them";
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
        Self { tied, bias: false, transform: None, projected: false, scale: 1.0, soft_cap: None }
    }
}

/// How the classes of each token are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenClasses {
    /// The number of classes; 1 for a single logit that tells two classes apart.
    pub classes: usize,
    /// A layer with this activation before the scores.
    #[serde(default)]
    pub transform: Option<Activation>,
}

/// A vector for the whole input: that of the first token through a layer of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pooler {
    /// The function after that layer.
    pub activation: Activation,
}

impl Pooler {
    /// The first token's vector, through a layer with this function.
    pub fn new(activation: Activation) -> Self {
        Self { activation }
    }
}
