//! One vector for a whole input.

use crate::attention::{AttentionConfig, MultiHead, Pattern, Rules};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{FeedForward, FeedForwardConfig, Norm};
use crate::models::form::{self, Form, Input, Pooling};
use crate::models::inputs::Inputs;
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
    let real = |row: usize| inputs.present.as_ref().map(|mask| &mask.values()[row * time..(row + 1) * time]);
    let ids = |row: usize| inputs.ids.as_ref().map(|ids| &ids.values()[row * time..(row + 1) * time]);
    let at = |row: usize| match form.output.pooling {
        Pooling::Last => real(row).and_then(|real| real.iter().rposition(|&real| real)).unwrap_or(time - 1),
        Pooling::End => time - 1,
        Pooling::Token(end) => ids(row).and_then(|ids| ids.iter().position(|&id| id == end)).unwrap_or(0),
        Pooling::Largest => {
            ids(row).and_then(|ids| (0..time).max_by_key(|&at| (ids[at], std::cmp::Reverse(at)))).unwrap_or(0)
        }
        Pooling::First | Pooling::Mean | Pooling::FirstAndMean => 0,
    };
    match form.output.pooling {
        Pooling::First => Ok(hidden),
        Pooling::Mean => {
            let share = |row: usize| match real(row) {
                None => vec![1.0 / time as f32; time],
                Some(real) => {
                    let count = real.iter().filter(|&&real| real).count().max(1);
                    real.iter().map(|&real| f32::from(real) / count as f32).collect()
                }
            };
            let shares: Vec<f32> = (0..batch).flat_map(share).collect();
            let shares = Tensor::new(&shares, [batch, 1, time])?.to(hidden.device())?;
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
        _ => {
            let rows: Vec<u32> = (0..batch).map(|row| (row * time + at(row)) as u32).collect();
            Ok(hidden.reshape([batch * time, width])?.embedding(&Ids::new(&rows, [batch, 1])?)?)
        }
    }
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
