//! Multi-head attention, described.

use super::layout;
use crate::attention::{
    AttentionConfig, AttentionKind, Biases, DisentangledConfig, Pattern, QueryKeyNorm, Scale,
};
use crate::error::{Error, Result};
use crate::layers::NormConfig;
use crate::models::sizes::{ensure_epsilon, ensure_sizes};
use crate::position::RotaryConfig;
use serde::{Deserialize, Serialize};

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
    /// Queries, keys and values are cut off at ± this.
    #[serde(default)]
    pub clip: Option<f32>,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum AttentionPositions {
    /// Queries and keys rotated by their positions.
    Rotary(RotaryConfig),
    /// A penalty proportional to distance.
    Alibi,
    /// A learned bias by distance, one table for all layers of the stack or one for each.
    Relative {
        /// The number of distances that are distinguished.
        buckets: usize,
        /// The distance beyond which all are the same.
        max_distance: usize,
        /// Whether each layer has a table of its own (UMT5).
        #[serde(default)]
        by_layer: bool,
    },
    /// Vectors of relative positions that queries and keys are compared with, one table for all layers of an encoder
    /// (DeBERTa).
    Disentangled {
        /// How many distances to each side have a vector.
        span: usize,
        /// Distances up to half the span are exact, longer ones share vectors up to this one; if not given, all are exact
        /// and those beyond the span are as far as it.
        #[serde(default)]
        max_distance: Option<usize>,
        /// Which scores they have.
        parts: DisentangledConfig,
        /// A norm of the vectors.
        #[serde(default)]
        norm: Option<NormConfig>,
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
            clip: None,
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
            clip: self.clip,
            layout: layout(self.transposed),
            scale,
            soft_cap: self.soft_cap,
            kind: self.kind,
            disentangled: match self.positions {
                Some(AttentionPositions::Disentangled { parts, .. }) => Some(parts),
                _ => None,
            },
            dropout,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let heads = [("n_heads", self.n_heads), ("n_kv_heads", self.n_kv_heads)];
        ensure_sizes("attention", &[&heads[..], &[("d_head", self.d_head.max(1))]].concat())?;
        match &self.positions {
            Some(AttentionPositions::Rotary(rotary)) => rotary.check(self.d_head)?,
            &Some(AttentionPositions::Relative { buckets, max_distance, .. }) => {
                ensure_sizes("attention", &[("buckets", buckets), ("max_distance", max_distance)])?;
                if buckets < 4 {
                    let problem = format!("buckets must be at least 4, got {buckets}");
                    return Err(Error::configuration("attention", problem));
                }
            }
            &Some(AttentionPositions::Disentangled { span, max_distance, norm, .. }) => {
                let far = max_distance.unwrap_or(1);
                ensure_sizes("attention", &[("span", span), ("max_distance", far)])?;
                norm.map_or(Ok(()), |norm| ensure_epsilon("attention", norm.epsilon))?;
                if max_distance.is_some_and(|far| span < 4 || far <= span / 2 + 1) {
                    let problem = format!("distances up to {far} cannot share {span} vectors");
                    return Err(Error::configuration("attention", problem));
                }
            }
            _ => {}
        }
        let biased = !matches!(self.positions, None | Some(AttentionPositions::Rotary(_)));
        if biased && self.kind == AttentionKind::Linear {
            let problem = "linear attention has no scores that alibi or relative positions could be added to";
            return Err(Error::configuration("attention", problem));
        }
        if let Some(limit) = self.clip.filter(|limit| !(*limit > 0.0 && limit.is_finite())) {
            let problem = format!("projections can be cut off at a number above 0, not at {limit}");
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
