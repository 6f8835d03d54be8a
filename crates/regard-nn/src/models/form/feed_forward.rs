//! The feed-forward layer, described.

use super::layout;
use crate::error::{Error, Result};
use crate::layers::{Activation, FeedForwardConfig, MixtureConfig};
use crate::models::sizes::ensure_sizes;
use serde::{Deserialize, Serialize};

/// The feed-forward layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedForward {
    /// The width in the middle; of a mixture, that of each expert.
    pub d_hidden: usize,
    /// The function there.
    pub activation: Activation,
    /// Whether the function's value multiplies a second projection.
    #[serde(default)]
    pub gated: bool,
    /// If gated: what is gated is cut off at ± this and 1 is added to it, the gate is cut off above (gpt-oss).
    #[serde(default)]
    pub clamp: Option<f32>,
    /// Whether its projections have biases.
    #[serde(default)]
    pub bias: bool,
    /// Whether weights lie as (inputs, outputs), as GPT-2's do, rather than as (outputs, inputs).
    #[serde(default)]
    pub transposed: bool,
    /// Several such layers, of which each token takes a few.
    #[serde(default)]
    pub mixture: Option<MixtureConfig>,
}

impl FeedForward {
    /// A plain layer without biases.
    pub fn new(d_hidden: usize, activation: Activation) -> Self {
        Self {
            d_hidden,
            activation,
            gated: false,
            clamp: None,
            bias: false,
            transposed: false,
            mixture: None,
        }
    }

    /// What the module is built from.
    pub fn config(&self, d_model: usize) -> FeedForwardConfig {
        let Self { d_hidden, activation, gated, clamp, bias, transposed, mixture } = *self;
        let layout = layout(transposed);
        FeedForwardConfig { d_model, d_hidden, activation, gated, clamp, bias, layout, mixture }
    }

    pub(super) fn check(&self) -> Result<()> {
        ensure_sizes("transformer", &[("d_hidden", self.d_hidden)])?;
        self.mixture.map_or(Ok(()), |mixture| mixture.check())?;
        match self.clamp {
            Some(limit) if !(self.gated && limit > 0.0 && limit.is_finite()) => {
                let problem = "only gated feed-forward layers are cut off, at a number above 0";
                Err(Error::configuration("transformer", problem))
            }
            _ => Ok(()),
        }
    }
}
