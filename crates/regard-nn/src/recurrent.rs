//! LSTM and BiLSTM.

use crate::context::Context;
use crate::error::Result;
use crate::parameter::{Draw, Initial, Parameter, module};
use regard_tensor::ops::{LstmWeights, lstm};
use regard_tensor::{Ids, Tensor};

/// An LSTM that reads forward, or in both directions.
#[derive(Debug, Clone)]
pub struct Lstm {
    directions: Vec<Direction>,
}

module!(Lstm { directions });

#[derive(Debug, Clone)]
struct Direction {
    input: Parameter,
    hidden: Parameter,
    bias: Parameter,
}

module!(Direction { input, hidden, bias });

impl Lstm {
    /// Initial weights uniform on ±1/√hidden, as PyTorch draws them.
    pub fn new(initial: &Initial, (inputs, hidden): (usize, usize), bidirectional: bool) -> Result<Self> {
        let draw = Draw::Uniform(1.0 / (hidden as f32).sqrt());
        let direction = |i: usize| {
            let initial = initial.part("directions").part(i);
            Ok(Direction {
                input: initial.parameter("input", [4 * hidden, inputs], draw)?,
                hidden: initial.parameter("hidden", [4 * hidden, hidden], draw)?,
                bias: initial.parameter("bias", [4 * hidden], draw)?,
            })
        };
        let count = if bidirectional { 2 } else { 1 };
        Ok(Self { directions: (0..count).map(direction).collect::<Result<_>>()? })
    }

    /// The states (batch, time, directions·hidden) of sequences (batch, time, inputs), zero in the padding.
    pub fn forward(&self, context: &Context, x: &Tensor, lengths: Option<&Ids>) -> Result<Tensor> {
        let weights: Vec<LstmWeights> = self
            .directions
            .iter()
            .map(|direction| LstmWeights {
                input: context.parameter(&direction.input),
                hidden: context.parameter(&direction.hidden),
                bias: context.parameter(&direction.bias),
            })
            .collect();
        Ok(lstm(x, &weights, lengths)?)
    }
}
