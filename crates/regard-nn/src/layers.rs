//! The layers a transformer is made of, besides attention.

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
        self.forward_then(context, x, None)
    }

    /// The layer's value with a function applied to it, in one pass.
    pub fn forward_then(&self, context: &Context, x: &Tensor, function: Option<Function>) -> Result<Tensor> {
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

/// How vectors are brought to a common size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormKind {
    /// (x − mean) / deviation · weight + bias (Ba et al., 2016).
    Layer,
    /// x / √mean(x²) · weight (Zhang & Sennrich, 2019).
    RootMeanSquare,
}

/// A norm, described.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormConfig {
    /// Which one.
    pub kind: NormKind,
    /// Keeps it from dividing by 0.
    pub epsilon: f32,
}

impl NormConfig {
    /// A layer norm.
    pub fn layer(epsilon: f32) -> Self {
        Self { kind: NormKind::Layer, epsilon }
    }

    /// A root-mean-square norm.
    pub fn rms(epsilon: f32) -> Self {
        Self { kind: NormKind::RootMeanSquare, epsilon }
    }
}

/// A norm of any kind.
#[derive(Debug, Clone)]
pub struct Norm {
    weight: Parameter,
    bias: Option<Parameter>,
    kind: NormKind,
    epsilon: f32,
}

module!(Norm { weight, bias });

impl Norm {
    /// A norm that scales by 1 and shifts by 0 at first.
    pub fn new(initial: &Initial, NormConfig { kind, epsilon }: NormConfig, width: usize) -> Result<Self> {
        let weight = initial.parameter("weight", [width], Draw::Constant(1.0))?;
        let bias = match kind {
            NormKind::Layer => Some(initial.parameter("bias", [width], Draw::Constant(0.0))?),
            NormKind::RootMeanSquare => None,
        };
        Ok(Self { weight, bias, kind, epsilon })
    }

    /// The norm of each vector.
    pub fn forward(&self, context: &Context, x: &Tensor) -> Result<Tensor> {
        let weight = context.parameter(&self.weight);
        let bias = self.bias.as_ref().map(|bias| context.parameter(bias));
        Ok(match self.kind {
            NormKind::Layer => x.layer_norm(&weight, bias.as_ref(), self.epsilon)?,
            NormKind::RootMeanSquare => x.rms_norm(&weight, self.epsilon)?,
        })
    }

    /// The sum of two batches of vectors, and the norm of each vector of it, in one pass where the device can.
    pub fn forward_sum(&self, context: &Context, x: &Tensor, y: &Tensor) -> Result<(Tensor, Tensor)> {
        let weight = context.parameter(&self.weight);
        let bias = self.bias.as_ref().map(|bias| context.parameter(bias));
        Ok(match self.kind {
            NormKind::Layer => x.add_layer_norm(y, &weight, bias.as_ref(), self.epsilon)?,
            NormKind::RootMeanSquare => x.add_rms_norm(y, &weight, self.epsilon)?,
        })
    }

    /// The norm as the linear map it is where vectors have the size of `at`: what each of several vectors that sum to `at`
    /// contributes to its norm, the bias left out.
    pub fn linear_at(&self, context: &Context, at: &Tensor, x: &Tensor) -> Result<Tensor> {
        let centred = |x: &Tensor| -> Result<Tensor> {
            let mut shape = x.shape().to_vec();
            if let Some(last) = shape.last_mut() {
                *last = 1;
            }
            Ok(match self.kind {
                NormKind::Layer => x.subtract(&x.mean(-1)?.reshape(shape)?)?,
                NormKind::RootMeanSquare => x.clone(),
            })
        };
        let at = centred(at)?;
        let mut shape = at.shape().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = 1;
        }
        let size = at.multiply(&at)?.mean(-1)?.shift(self.epsilon)?.sqrt()?.reshape(shape)?;
        Ok(centred(x)?.divide(&size)?.multiply(&context.parameter(&self.weight))?)
    }

    /// What is added, if anything is.
    pub fn bias(&self) -> Option<&Parameter> {
        self.bias.as_ref()
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
    #[serde(alias = "gelu_pytorch_tanh", alias = "gelu_tanh")]
    GeluNew,
    /// x·sigmoid(x).
    #[serde(alias = "swish")]
    Silu,
    /// The hyperbolic tangent.
    Tanh,
}

impl From<Activation> for Function {
    fn from(activation: Activation) -> Self {
        match activation {
            Activation::Relu => Self::Relu,
            Activation::Gelu => Self::Gelu,
            Activation::GeluNew => Self::GeluTanh,
            Activation::Silu => Self::Silu,
            Activation::Tanh => Self::Tanh,
        }
    }
}

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
    /// Whether something is added in each layer.
    pub bias: bool,
    /// How the weights lie in memory.
    pub layout: Layout,
}

/// Two linear layers with a function between them: f(x·W₁)·W₂, or gated: (f(x·W₀) ∘ x·W₁)·W₂.
#[derive(Debug, Clone)]
pub struct FeedForward {
    gate: Option<Linear>,
    up: Linear,
    down: Linear,
    function: Function,
}

module!(FeedForward { gate, up, down });

impl FeedForward {
    /// A layer with drawn weights: `up` for the way up (and the gate), `down` for the way down.
    pub fn new(initial: &Initial, config: FeedForwardConfig, (up, down): (Draw, Draw)) -> Result<Self> {
        let FeedForwardConfig { d_model, d_hidden, activation, gated, bias, layout } = config;
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
            function: activation.into(),
        })
    }

    /// The layer's value; `hidden` is what its second layer reads, `output` what it says.
    pub fn forward(&self, context: &Context, x: &Tensor) -> Result<Tensor> {
        let hidden = match &self.gate {
            None => self.up.forward_then(context, x, Some(self.function))?,
            Some(gate) => {
                let gate = gate.forward_then(context, x, Some(self.function))?;
                gate.multiply(&self.up.forward(context, x)?)?
            }
        };
        let hidden = context.see("hidden", hidden)?;
        context.see("output", self.down.forward(context, &hidden)?)
    }
}
