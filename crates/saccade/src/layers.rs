//! The layers a transformer is made of, besides attention.

use crate::context::Context;
use crate::error::Result;
use crate::parameter::{Initial, Parameter, module};
use saccade_tensor::ops::{Function, Layout};
use saccade_tensor::{Ids, Tensor};

/// x·W + b.
#[derive(Debug, Clone)]
pub struct Linear {
    weight: Parameter,
    bias: Option<Parameter>,
    layout: Layout,
}

module!(Linear { weight, bias });

impl Linear {
    /// A layer with normal initial weights and a bias of 0.
    pub fn normal(
        initial: &Initial,
        (inputs, outputs): (usize, usize),
        layout: Layout,
        deviation: f32,
    ) -> Self {
        let shape = match layout {
            Layout::InOut => [inputs, outputs],
            Layout::OutIn => [outputs, inputs],
        };
        let weight = initial.normal("weight", shape, deviation);
        Self { weight, bias: Some(Initial::constant([outputs], 0.0)), layout }
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
}

/// A vector for each id.
#[derive(Debug, Clone)]
pub struct Embedding {
    weight: Parameter,
}

module!(Embedding { weight });

impl Embedding {
    /// A table with normal initial values.
    pub fn normal(initial: &Initial, (rows, width): (usize, usize), deviation: f32) -> Self {
        Self { weight: initial.normal("weight", [rows, width], deviation) }
    }

    /// The vectors of some ids.
    pub fn forward(&self, context: &Context, ids: &Ids) -> Result<Tensor> {
        Ok(context.parameter(&self.weight).embedding(ids)?)
    }

    /// Scores of each row against x: the table used backwards, as models with tied weights do.
    pub fn scores(&self, context: &Context, x: &Tensor) -> Result<Tensor> {
        Ok(x.linear(&context.parameter(&self.weight), None, Layout::OutIn, None)?)
    }

    /// The table.
    pub fn weight(&self) -> &Parameter {
        &self.weight
    }
}

/// (x − mean) / deviation · weight + bias.
#[derive(Debug, Clone)]
pub struct LayerNorm {
    weight: Parameter,
    bias: Parameter,
    epsilon: f32,
}

module!(LayerNorm { weight, bias });

impl LayerNorm {
    /// A norm that changes nothing else at first.
    pub fn new(width: usize, epsilon: f32) -> Self {
        Self { weight: Initial::constant([width], 1.0), bias: Initial::constant([width], 0.0), epsilon }
    }

    /// The norm of each vector.
    pub fn forward(&self, context: &Context, x: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (context.parameter(&self.weight), context.parameter(&self.bias));
        Ok(x.layer_norm(&weight, Some(&bias), self.epsilon)?)
    }
}

/// Two linear layers with a function between them.
#[derive(Debug, Clone)]
pub struct FeedForward {
    up: Linear,
    down: Linear,
    function: Function,
}

module!(FeedForward { up, down });

impl FeedForward {
    /// `width` → `hidden` → `width`; `deviation` for the way up and the way down.
    pub fn new(
        initial: &Initial,
        (width, hidden): (usize, usize),
        layout: Layout,
        function: Function,
        deviation: (f32, f32),
    ) -> Self {
        Self {
            up: Linear::normal(&initial.part("up"), (width, hidden), layout, deviation.0),
            down: Linear::normal(&initial.part("down"), (hidden, width), layout, deviation.1),
            function,
        }
    }

    /// The layer's value.
    pub fn forward(&self, context: &Context, x: &Tensor) -> Result<Tensor> {
        let hidden = self.up.forward_then(context, x, Some(self.function))?;
        self.down.forward(context, &hidden)
    }
}
