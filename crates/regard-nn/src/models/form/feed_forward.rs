//! The feed-forward layer, described.

use super::layout;
use crate::error::Result;
use crate::layers::{Activation, FeedForwardConfig};
use crate::models::sizes::ensure_sizes;
use serde::{Deserialize, Serialize};

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

    pub(super) fn check(&self) -> Result<()> {
        ensure_sizes("transformer", &[("d_hidden", self.d_hidden)])
    }
}
