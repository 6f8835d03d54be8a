//! Multi-head attention: project, attend in every head, project back.

use crate::attention::Scale;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::Linear;
use crate::parameter::{Initial, module};
use saccade_tensor::Tensor;
use saccade_tensor::ops::{Allowed, Attention, Bias, Layout, Projections, attend};

/// The sizes of a multi-head attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionConfig {
    /// The width of the vectors that come in and go out.
    pub d_model: usize,
    /// The number of heads, which divides the width.
    pub n_heads: usize,
    /// The share of weights that training drops.
    pub dropout: f32,
    /// How the weights lie in memory.
    pub layout: Layout,
}

/// Self-attention with several heads: one fused projection to queries, keys and values, and one back.
#[derive(Debug, Clone)]
pub struct MultiHead {
    project: Linear,
    output: Linear,
    n_heads: usize,
    dropout: f32,
}

module!(MultiHead { project, output });

impl MultiHead {
    /// A multi-head attention with normal initial weights; `deviation` for the projections in and out.
    pub fn new(config: AttentionConfig, initial: &Initial, deviation: (f32, f32)) -> Result<Self> {
        let AttentionConfig { d_model, n_heads, dropout, layout } = config;
        if n_heads == 0 || !d_model.is_multiple_of(n_heads) {
            return Err(Error::configuration(
                "multi-head attention",
                format!("the width ({d_model}) must be divisible by the number of heads ({n_heads})"),
            ));
        }
        Ok(Self {
            project: Linear::normal(&initial.part("project"), (d_model, 3 * d_model), layout, deviation.0),
            output: Linear::normal(&initial.part("output"), (d_model, d_model), layout, deviation.1),
            n_heads,
            dropout,
        })
    }

    /// Each position of x (batch, time, width) attends to those it may.
    pub fn forward(&self, context: &Context, site: &str, x: &Tensor, allowed: &Allowed) -> Result<Tensor> {
        let packed = self.project.forward(context, x)?; // (B, T, 3C)
        let width = x.shape().last() / self.n_heads;
        let attention = Attention {
            scale: Scale::InverseRoot.factor(width),
            allowed: allowed.clone(),
            bias: Bias::None,
            sink: None,
            dropout: context.dropout(&format!("{site}.weights"), self.dropout),
        };
        let projections = Projections::Fused { packed: &packed, heads: self.n_heads, kv_heads: self.n_heads };
        let heads = attend(projections, &attention)?.output; // (B, T, H, D)
        self.output.forward(context, &heads.reshape(x.shape())?)
    }
}
