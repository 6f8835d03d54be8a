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
    /// The share of a target's probability that training spreads over all tokens.
    pub smoothing: f32,
}

impl Output {
    pub(super) fn check(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.smoothing) {
            let problem = format!("smoothing must be at least 0 and below 1, got {}", self.smoothing);
            return Err(Error::configuration("transformer", problem));
        }
        ensure_sizes("transformer", &[("classes", self.classes.unwrap_or(1))])
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
