//! A stack of layers, and what one layer is made of.

use super::AttentionPositions;
use super::{Attention, FeedForward, one};
use crate::block::Placement;
use crate::error::{Error, Result};
use crate::layers::NormConfig;
use crate::models::sizes::{ensure_epsilon, ensure_sizes};
use serde::{Deserialize, Serialize};

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
    /// A norm of the embeddings with their positions, before the first layer.
    #[serde(default)]
    pub input_norm: Option<NormConfig>,
    /// The norm after the last layer.
    #[serde(default)]
    pub norm: Option<NormConfig>,
}

impl Stack {
    /// So many layers of one form.
    pub fn of(n_layers: usize, layer: Layer) -> Self {
        let (layers, positions) = (vec![layer], Positions::default());
        Self { n_layers, layers, order: Vec::new(), shared: false, positions, input_norm: None, norm: None }
    }

    /// The same stack with layers that differ: `change` makes each of the first form.
    #[must_use]
    pub fn varied(mut self, change: impl Fn(usize, &mut Layer)) -> Self {
        let Some(first) = self.layers.first().cloned() else { return self };
        let (mut forms, mut order) = (Vec::<Layer>::new(), Vec::new());
        for i in 0..self.n_layers {
            let mut layer = first.clone();
            change(i, &mut layer);
            order.push(forms.iter().position(|form| *form == layer).unwrap_or(forms.len()));
            if order.last() == Some(&forms.len()) {
                forms.push(layer);
            }
        }
        // The shortest beginning that, repeated, gives the whole order.
        let repeats = |length: usize| (length..order.len()).all(|i| order[i] == order[i - length]);
        let length = (1..=order.len()).find(|&length| repeats(length)).unwrap_or(0);
        order.truncate(if forms.len() > 1 { length } else { 0 });
        if !forms.is_empty() {
            (self.layers, self.order) = (forms, order);
        }
        self
    }

    /// The form of a layer.
    pub fn layer(&self, layer: usize) -> &Layer {
        &self.layers[self.form_of(layer)]
    }

    /// The index, among the forms, of a layer's form.
    pub fn form_of(&self, layer: usize) -> usize {
        if self.order.is_empty() { 0 } else { self.order[layer % self.order.len()] }
    }

    /// Rejects stacks that cannot be built for a residual stream of this width.
    pub(super) fn check(&self, d_model: usize) -> Result<()> {
        let wrong = |problem: String| Err(Error::configuration("transformer", problem));
        if self.layers.is_empty() || self.order.iter().any(|&form| form >= self.layers.len()) {
            return wrong(format!("order names a form of layer that is none of {}", self.layers.len()));
        }
        // No more layers than a machine could hold: each has parameters of its own.
        ensure_sizes("transformer", &[("n_layers", self.n_layers.max(1))])?;
        if let Positions::Learned { context, offset, .. } = self.positions {
            ensure_sizes("transformer", &[("context", context), ("position_offset", offset.max(1))])?;
        }
        let mut relative = self.layers.iter().filter_map(Layer::relative_table);
        if let Some(first) = relative.next()
            && relative.any(|other| other != first)
        {
            let problem =
                "layers that share a table of relative positions must have as many heads and buckets";
            return wrong(problem.to_owned());
        }
        for norm in self.input_norm.iter().chain(&self.norm) {
            ensure_epsilon("transformer", norm.epsilon)?;
        }
        let mut disentangled = self.layers.iter().filter(|layer| layer.is_disentangled());
        if let Some(first) = disentangled.next()
            && disentangled.any(|other| other.attention.positions != first.attention.positions)
        {
            return wrong("layers share one table of relative vectors".to_owned());
        }
        if self.shared && self.layers.len() > 1 {
            return wrong("layers that share their weights have one form".to_owned());
        }
        self.layers.iter().try_for_each(|layer| layer.check(d_model))
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
        /// Whether all sines come before all cosines (Marian), rather than taking turns.
        #[serde(default)]
        halves: bool,
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
    /// What each feature of a sublayer's output is multiplied with: learned, this at first (DINOv2).
    #[serde(default)]
    pub layer_scale: Option<f32>,
}

impl Layer {
    /// The sizes of its table of relative positions: buckets, distance, heads, and whether each layer has one.
    fn relative_table(&self) -> Option<(usize, usize, usize, bool)> {
        match self.attention.positions {
            Some(AttentionPositions::Relative { buckets, max_distance, by_layer }) => {
                Some((buckets, max_distance, self.attention.n_heads, by_layer))
            }
            _ => None,
        }
    }

    /// Whether relative positions have vectors of their own.
    pub(super) fn is_disentangled(&self) -> bool {
        let attentions = [Some(&self.attention), self.cross.as_ref()];
        let disentangled = |attention: &Attention| {
            matches!(attention.positions, Some(AttentionPositions::Disentangled { .. }))
        };
        attentions.into_iter().flatten().any(disentangled)
    }

    fn check(&self, d_model: usize) -> Result<()> {
        let wrong = |problem: String| Err(Error::configuration("transformer", problem));
        ensure_epsilon("transformer", self.norm.epsilon)?;
        let scales =
            [("residual_scale", self.residual_scale), ("layer_scale", self.layer_scale.unwrap_or(1.0))];
        if let Some((name, scale)) = scales.into_iter().find(|(_, scale)| !scale.is_finite()) {
            return wrong(format!("{name} must be a number, got {scale}"));
        }
        if self.cross.as_ref().is_some_and(|cross| cross.fused) {
            let problem = "cross-attention reads two kinds of vectors: its projections cannot be fused";
            return wrong(problem.to_owned());
        }
        self.feed_forward.check()?;
        for attention in [&self.attention].into_iter().chain(&self.cross) {
            attention.check()?;
            attention.config(d_model, 0, 0.0).check()?;
        }
        Ok(())
    }
}
