//! One vector for a whole input.

use crate::attention::{AttentionConfig, MultiHead, Pattern, Rules};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{FeedForward, FeedForwardConfig, Norm};
use crate::models::form::{self, Form, Input, Pooling};
use crate::models::inputs::Inputs;
use crate::models::padding::shares;
use crate::parameter::{Draw, Initial, Parameter, module};
use regard_tensor::ops::concatenate;
use regard_tensor::{Ids, Tensor};

/// The hidden states that a head reads: all (batch, time, width) if it chooses among them itself, or the one
/// (batch, 1, width) that stands for each input.
pub(super) fn pooled(form: &Form, hidden: Tensor, inputs: &Inputs) -> Result<Tensor> {
    let [batch, time, width] = hidden.shape()[..] else {
        let problem = format!("hidden states must be (batch, time, width), got {}", hidden.shape());
        return Err(Error::input("transformer", problem));
    };
    match form.output.pooling {
        Pooling::First => Ok(hidden),
        Pooling::Mean => {
            let shares = match &inputs.present {
                Some(present) => shares(present, hidden.device())?,
                None => Tensor::full_on(hidden.device(), [batch, 1, time], 1.0 / time as f32)?,
            };
            Ok(shares.matmul(&hidden)?)
        }
        Pooling::FirstAndMean => {
            let before = match &form.input {
                Input::Patches(patches) => patches.first(),
                Input::Tokens(_) => 1,
            };
            let patches = hidden.slice(1, before, time.saturating_sub(before))?;
            let mean = patches.mean(1)?.reshape([batch, 1, width])?;
            Ok(concatenate(&[&hidden.slice(1, 0, 1)?, &mean], 2)?)
        }
        Pooling::Last | Pooling::End | Pooling::Token(_) | Pooling::Largest => {
            let rows = rows_that_speak(form.output.pooling, [batch, time], inputs)?;
            Ok(hidden.reshape([batch * time, width])?.embedding(&rows)?)
        }
    }
}

/// The one row of each input, of all (batch · time), that stands for it: (batch, 1).
fn rows_that_speak(pooling: Pooling, [batch, time]: [usize; 2], inputs: &Inputs) -> Result<Ids> {
    let rows = move |at: &dyn Fn(usize) -> usize| -> Vec<u32> {
        (0..batch).map(|row| (row * time + at(row)) as u32).collect()
    };
    let shape = [batch, 1];
    Ok(match (pooling, &inputs.present, &inputs.ids) {
        (Pooling::Last, Some(present), _) => present.derive(shape, move |mask| {
            let last = |row: usize| mask[row * time..(row + 1) * time].iter().rposition(|&real| real);
            rows(&|row| last(row).unwrap_or(time - 1))
        })?,
        (Pooling::Token(end), _, Some(ids)) => ids.derive(shape, move |ids| {
            let first = |row: usize| ids[row * time..(row + 1) * time].iter().position(|&id| id == end);
            rows(&|row| first(row).unwrap_or(0))
        })?,
        (Pooling::Largest, _, Some(ids)) => ids.derive(shape, move |ids| {
            let largest =
                |row: usize| (0..time).max_by_key(|&at| (ids[row * time + at], std::cmp::Reverse(at)));
            rows(&|row| largest(row).unwrap_or(0))
        })?,
        (Pooling::Last | Pooling::End, ..) => Ids::new(&rows(&|_| time - 1), shape)?,
        _ => Ids::new(&rows(&|_| 0), shape)?,
    })
}

/// A learned query that attends to all hidden states.
#[derive(Debug, Clone)]
pub(super) struct AttentionPooler {
    query: Parameter,
    attention: MultiHead,
    norm: Norm,
    ffn: FeedForward,
}

module!(AttentionPooler { query, attention, norm, ffn });

impl AttentionPooler {
    pub fn new(initial: &Initial, form: form::AttentionPooler, whole: &Form) -> Result<Self> {
        let (d_model, inner) = (whole.d_model, Draw::Normal(whole.deviations.inner));
        let draws = (inner, Draw::Normal(whole.deviations.residual));
        let attention = AttentionConfig { fused: false, ..AttentionConfig::new(d_model, form.n_heads) };
        let ffn = form::FeedForward { bias: true, ..form::FeedForward::new(form.d_hidden, form.activation) };
        let config: FeedForwardConfig = ffn.config(d_model);
        Ok(Self {
            query: initial.parameter("query", [1, 1, d_model], Draw::Normal(whole.deviations.embeddings))?,
            attention: MultiHead::new(&initial.part("attention"), attention, draws)?,
            norm: Norm::new(&initial.part("norm"), form.norm, [d_model])?,
            ffn: FeedForward::new(&initial.part("ffn"), config, draws)?,
        })
    }

    /// (batch, time, width) → (batch, width). The attention is shown below `pooler`.
    pub fn forward(&self, context: &Context, hidden: &Tensor) -> Result<Tensor> {
        let [batch, time, width] = hidden.shape()[..] else {
            return Err(Error::input("transformer", format!("hidden states of {}", hidden.shape())));
        };
        let context = &context.within("pooler");
        let zeros = Tensor::full_on(hidden.device(), [batch, 1, width], 0.0)?;
        let query = zeros.add(&context.parameter(&self.query))?;
        let rules = Rules::new(Pattern::Full, 1, time)?;
        let x = self.attention.forward(&context.within("self"), &query, Some(hidden), &rules)?;
        let normed = self.norm.forward(context, &x)?;
        Ok(x.add(&self.ffn.forward(&context.within("ffn"), &normed)?)?.reshape([batch, width])?)
    }
}
