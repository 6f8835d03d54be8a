//! The feed-forward layer.

use super::{Activation, Linear, LinearConfig, MixtureConfig, clamp};
use crate::context::Context;
use crate::error::Result;
use crate::parameter::{Draw, Initial, module};
use regard_tensor::Tensor;
use regard_tensor::ops::Layout;

/// The sizes and the form of a feed-forward layer.
#[derive(Debug, Clone, Copy)]
pub struct FeedForwardConfig {
    /// The width of the model.
    pub d_model: usize,
    /// The width in the middle.
    pub d_hidden: usize,
    /// The function between the two layers.
    pub activation: Activation,
    /// Whether the function's value multiplies a second projection (Shazeer, 2020), instead of being it.
    pub gated: bool,
    /// If gated: what is gated is cut off at ± this and 1 is added to it, the gate is cut off above (gpt-oss).
    pub clamp: Option<f32>,
    /// Whether something is added in each layer.
    pub bias: bool,
    /// How the weights lie in memory.
    pub layout: Layout,
    /// Several such layers, of which each token takes a few.
    pub mixture: Option<MixtureConfig>,
}

/// Two linear layers with a function between them: f(x·W₁)·W₂, or gated: (f(x·W₀) ∘ x·W₁)·W₂.
#[derive(Debug, Clone)]
pub struct FeedForward {
    gate: Option<Linear>,
    up: Linear,
    down: Linear,
    activation: Activation,
    clamp: Option<f32>,
}

module!(FeedForward { gate, up, down });

impl FeedForward {
    /// A layer with drawn weights: `up` for the way up (and the gate), `down` for the way down.
    pub fn new(initial: &Initial, config: FeedForwardConfig, (up, down): (Draw, Draw)) -> Result<Self> {
        let FeedForwardConfig { d_model, d_hidden, activation, gated, clamp, bias, layout, .. } = config;
        let widen = LinearConfig { inputs: d_model, outputs: d_hidden, bias, layout };
        let narrow = LinearConfig { inputs: d_hidden, outputs: d_model, bias, layout };
        let gate = match gated {
            true => Some(Linear::new(&initial.part("gate"), widen, up)?),
            false => None,
        };
        Ok(Self {
            gate,
            up: Linear::new(&initial.part("up"), widen, up)?,
            down: Linear::new(&initial.part("down"), narrow, down)?,
            activation,
            clamp,
        })
    }

    /// The layer's value; `hidden` is what its second layer reads, `output` what it says.
    pub fn forward(&self, context: &Context, x: &Tensor) -> Result<Tensor> {
        let hidden = match (&self.gate, self.clamp) {
            (None, _) => self.up.forward_then(context, x, self.activation)?,
            (Some(gate), None) => {
                let gate = gate.forward_then(context, x, self.activation)?;
                gate.multiply(&self.up.forward(context, x)?)?
            }
            (Some(gate), Some(limit)) => {
                let gate = self.activation.apply(&clamp(&gate.forward(context, x)?, limit, false)?)?;
                gate.multiply(&clamp(&self.up.forward(context, x)?, limit, true)?.shift(1.0)?)?
            }
        };
        let hidden = context.see("hidden", hidden)?;
        context.see("output", self.down.forward(context, &hidden)?)
    }
}
