//! What only training uses: dropout and the deviations of initial weights.

use crate::error::{Error, Result};
use crate::models::sizes::ensure_dropout;
use serde::{Deserialize, Serialize};

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

impl Dropouts {
    pub(super) fn check(&self) -> Result<()> {
        let Self { embeddings, attention, residual, last, pooled } = *self;
        let all = [embeddings, attention, residual, last, pooled];
        all.into_iter().try_for_each(|dropout| ensure_dropout("transformer", dropout))
    }
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

    pub(super) fn check(&self) -> Result<()> {
        let Self { embeddings, positions, inner, residual } = *self;
        let wrong = |value: &f32| !(*value >= 0.0 && value.is_finite());
        match [embeddings, positions, inner, residual].into_iter().find(wrong) {
            None => Ok(()),
            Some(value) => {
                let problem = format!("deviation must be a number of at least 0, got {value}");
                Err(Error::configuration("transformer", problem))
            }
        }
    }
}
