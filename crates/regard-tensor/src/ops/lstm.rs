//! An LSTM over whole sequences, in one or both directions, with padded lengths.

use crate::error::{Result, ensure_shape};
use crate::ids::Ids;
use crate::kernels::lstm::{self, Sizes, Weights};
use crate::tape::Inputs;
use crate::tensor::{Tensor, ensure_same_device};

/// The parameters of one direction, in PyTorch's layout (gates input, forget, cell, output one after another).
#[derive(Debug, Clone)]
pub struct LstmWeights {
    /// (4·hidden, inputs).
    pub input: Tensor,
    /// (4·hidden, hidden).
    pub hidden: Tensor,
    /// (4·hidden). PyTorch has two biases; only their sum matters.
    pub bias: Tensor,
}

/// Runs sequences x (batch, time, inputs) through an LSTM forward (one set of weights) or in both directions (two).
///
/// Returns the hidden states (batch, time, directions·hidden). With `lengths`, steps beyond a sequence's length are
/// left out (the backward direction starts at its last real step) and give zeros.
pub fn lstm(x: &Tensor, weights: &[LstmWeights], lengths: Option<&Ids>) -> Result<Tensor> {
    let shape = x.shape();
    ensure_shape(
        shape.rank() == 3,
        "lstm",
        || "sequences of (batch, time, inputs)".into(),
        || shape.to_string(),
    )?;
    ensure_shape(
        weights.len() == 1 || weights.len() == 2,
        "lstm",
        || "weights for one or two directions".into(),
        || weights.len().to_string(),
    )?;
    let hidden = weights[0].hidden.shape().last();
    let sizes =
        Sizes { batch: shape[0], time: shape[1], inputs: shape[2], hidden, directions: weights.len() };
    for direction in weights {
        let expected =
            [(&direction.input, vec![4 * hidden, shape[2]]), (&direction.hidden, vec![4 * hidden, hidden])];
        for (weight, expected) in expected.into_iter().chain([(&direction.bias, vec![4 * hidden])]) {
            ensure_shape(
                weight.shape()[..] == expected[..],
                "lstm",
                || format!("a weight of {expected:?}"),
                || weight.shape().to_string(),
            )?;
        }
    }
    if let Some(lengths) = lengths {
        let fits = lengths.count() == sizes.batch;
        ensure_shape(fits, "lstm", || format!("{} lengths", sizes.batch), || lengths.count().to_string())?;
        lengths.ensure_below(("lstm", "length"), sizes.time + 1)?;
    }
    let arrays: Vec<Weights> = weights
        .iter()
        .map(|w| Weights {
            input: w.input.array.clone(),
            hidden: w.hidden.array.clone(),
            bias: w.bias.array.clone(),
        })
        .collect();
    let parents: Vec<&Tensor> =
        [x].into_iter().chain(weights.iter().flat_map(|w| [&w.input, &w.hidden, &w.bias])).collect();
    ensure_same_device("lstm", parents.iter().copied())?;
    let output_shape = [sizes.batch, sizes.time, sizes.directions * hidden];
    if output_shape.contains(&0) {
        // Nothing to read, or nothing to remember it in: every gradient is zero.
        let device = x.device();
        let shapes: Vec<_> = parents.iter().map(|parent| parent.shape().clone()).collect();
        let zeros = move |_: Tensor, inputs: &mut Inputs| {
            let mut shapes = shapes.iter().enumerate();
            shapes.try_for_each(|(input, shape)| inputs.send(input, Tensor::full_on(device, shape, 0.0)?))
        };
        return Ok(Tensor::full_on(device, output_shape, 0.0)?.with_rule(&parents, || zeros));
    }
    let (value, saved) = lstm::forward(sizes, &x.array, &arrays, lengths)?;
    let (x, output) = (x.detach(), value.clone());
    let lengths = lengths.cloned();
    Ok(Tensor::from_array(value, output_shape).with_rule(&parents, || {
        move |g: Tensor, inputs: &mut Inputs| {
            let gradients = lstm::backward(sizes, &x.array, &output, &saved, lengths.as_ref(), &g.array)?;
            inputs.send(0, Tensor::from_array(gradients.x, x.shape()))?;
            for (direction, w) in gradients.weights.into_iter().enumerate() {
                let first = 1 + 3 * direction;
                inputs.send(first, Tensor::from_array(w.input, [4 * hidden, sizes.inputs]))?;
                inputs.send(first + 1, Tensor::from_array(w.hidden, [4 * hidden, hidden]))?;
                inputs.send(first + 2, Tensor::from_array(w.bias, [4 * hidden]))?;
            }
            Ok(())
        }
    }))
}
