//! The layers a transformer is made of, besides attention.

mod feed_forward;
mod mixture;
mod norm;

pub use feed_forward::{FeedForward, FeedForwardConfig};
pub(crate) use mixture::AnyFeedForward;
pub use mixture::{Mixture, MixtureConfig};
pub use norm::{Norm, NormConfig, NormKind};

use crate::context::Context;
use crate::error::Result;
use crate::parameter::{Draw, Initial, Parameter, module};
use regard_tensor::ops::{CrossEntropy, Function, Layout};
use regard_tensor::{Ids, Tensor};
use serde::{Deserialize, Serialize};

/// x·W + b.
#[derive(Debug, Clone)]
pub struct Linear {
    weight: Parameter,
    bias: Option<Parameter>,
    layout: Layout,
}

module!(Linear { weight, bias });

/// The sizes of a linear layer, and how it lies in memory.
#[derive(Debug, Clone, Copy)]
pub struct LinearConfig {
    /// The width of what comes in.
    pub inputs: usize,
    /// The width of what goes out.
    pub outputs: usize,
    /// Whether something is added.
    pub bias: bool,
    /// How the weights lie in memory.
    pub layout: Layout,
}

impl LinearConfig {
    /// A layer with a bias and weights (outputs, inputs).
    pub fn new(inputs: usize, outputs: usize) -> Self {
        Self { inputs, outputs, bias: true, layout: Layout::OutIn }
    }
}

impl Linear {
    /// A layer with a bias that is 0 at first.
    pub fn new(initial: &Initial, config: LinearConfig, draw: Draw) -> Result<Self> {
        let LinearConfig { inputs, outputs, bias, layout } = config;
        let shape = match layout {
            Layout::InOut => [inputs, outputs],
            Layout::OutIn => [outputs, inputs],
        };
        let weight = initial.parameter("weight", shape, draw)?;
        let bias = match bias {
            true => Some(initial.parameter("bias", [outputs], Draw::Constant(0.0))?),
            false => None,
        };
        Ok(Self { weight, bias, layout })
    }

    /// The layer's value.
    pub fn forward(&self, context: &Context, x: &Tensor) -> Result<Tensor> {
        self.fused(context, x, None)
    }

    /// The layer's value with a function applied to it, in one pass where the engine has the function.
    pub fn forward_then(&self, context: &Context, x: &Tensor, activation: Activation) -> Result<Tensor> {
        match activation.function() {
            (function, 1.0) => self.fused(context, x, Some(function)),
            _ => activation.apply(&self.fused(context, x, None)?),
        }
    }

    fn fused(&self, context: &Context, x: &Tensor, function: Option<Function>) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(|bias| context.parameter(bias));
        Ok(x.linear(&context.parameter(&self.weight), bias.as_ref(), self.layout, function)?)
    }

    /// The weights.
    pub fn weight(&self) -> &Parameter {
        &self.weight
    }

    /// What is added, if anything is.
    pub fn bias(&self) -> Option<&Parameter> {
        self.bias.as_ref()
    }
}

/// A vector for each id.
#[derive(Debug, Clone)]
pub struct Embedding {
    weight: Parameter,
}

module!(Embedding { weight });

impl Embedding {
    /// A table of `rows` vectors.
    pub fn new(initial: &Initial, (rows, width): (usize, usize), draw: Draw) -> Result<Self> {
        Ok(Self { weight: initial.parameter("weight", [rows, width], draw)? })
    }

    /// The vectors of some ids.
    pub fn forward(&self, context: &Context, ids: &Ids) -> Result<Tensor> {
        context.activations(&context.parameter(&self.weight).embedding(ids)?)
    }

    /// Scores of each row against x: the table used backwards, as models with tied weights do.
    pub fn scores(&self, context: &Context, x: &Tensor) -> Result<Tensor> {
        Ok(x.linear(&context.parameter(&self.weight), None, Layout::OutIn, None)?)
    }

    /// The mean cross-entropy of the scores of x, which are shown as `logits` to whoever looks at them, and otherwise never
    /// kept: with a large vocabulary they are the largest values of a training step.
    pub fn loss(
        &self,
        context: &Context,
        x: &Tensor,
        bias: Option<&Parameter>,
        targets: &Ids,
        settings: CrossEntropy,
    ) -> Result<Tensor> {
        let weight = context.parameter(&self.weight);
        let bias = bias.map(|bias| context.parameter(bias));
        if context.watches("logits") {
            let logits = x.linear(&weight, bias.as_ref(), Layout::OutIn, None)?;
            return Ok(context.see("logits", logits)?.cross_entropy(targets, settings)?);
        }
        if let Some(probe) = context.probe() {
            probe.pass(context.site("logits"));
        }
        Ok(x.scored_cross_entropy(&weight, bias.as_ref(), targets, settings)?)
    }

    /// The table.
    pub fn weight(&self) -> &Parameter {
        &self.weight
    }

    /// The table, to change.
    pub fn weight_mut(&mut self) -> &mut Parameter {
        &mut self.weight
    }
}

/// The function between two layers, by the name that configurations have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// max(x, 0).
    Relu,
    /// x·Φ(x).
    Gelu,
    /// GELU by a hyperbolic tangent.
    #[serde(alias = "gelu_pytorch_tanh", alias = "gelu_tanh", alias = "gelu_fast")]
    GeluNew,
    /// GELU by a logistic function: x·sigmoid(1.702·x).
    QuickGelu,
    /// x·sigmoid(x).
    #[serde(alias = "swish")]
    Silu,
    /// The hyperbolic tangent.
    Tanh,
}

/// The factor in the approximation of Φ(x) by sigmoid(factor·x) (Hendrycks & Gimpel, 2016).
const LOGISTIC_GELU: f32 = 1.702;

impl Activation {
    /// The engine's function, applied to what stands before it multiplied with a factor.
    fn function(self) -> (Function, f32) {
        match self {
            Self::Relu => (Function::Relu, 1.0),
            Self::Gelu => (Function::Gelu, 1.0),
            Self::GeluNew => (Function::GeluTanh, 1.0),
            // x·sigmoid(a·x) = silu(a·x) / a.
            Self::QuickGelu => (Function::Silu, LOGISTIC_GELU),
            Self::Silu => (Function::Silu, 1.0),
            Self::Tanh => (Function::Tanh, 1.0),
        }
    }

    /// The function of each value.
    pub fn apply(self, x: &Tensor) -> Result<Tensor> {
        match self.function() {
            (function, 1.0) => Ok(x.apply(function)?),
            (function, factor) => Ok(x.scale(factor)?.apply(function)?.scale(1.0 / factor)?),
        }
    }
}

/// Values cut off above `limit` and, if `both`, below `−limit`; nothing flows back through those that are.
pub(crate) fn clamp(x: &Tensor, limit: f32, both: bool) -> Result<Tensor> {
    let x = if both { x.shift(limit)?.relu()?.shift(-limit)? } else { x.clone() };
    Ok(x.affine(-1.0, limit)?.relu()?.affine(-1.0, limit)?)
}
