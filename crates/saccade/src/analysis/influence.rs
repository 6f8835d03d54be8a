//! From attention to influence: how much each token of a text bears on an answer, by several methods.
//!
//! With Āₗ the mean of a layer's heads and A′ₗ = ½(Āₗ + I) with rows that sum to 1:
//!
//! ```text
//! attention    the row of Ā of the last layer
//! rollout      A′_L · … · A′₁                                  (Abnar & Zuidema, 2020)
//! flow         maximum flow through edges of capacity A′ₗ       (ibid.)
//! norms        rollout of ‖Σₕ αₕ f(xⱼ)‖ instead of Ā           (Kobayashi et al., 2020)
//! gradient     R ← R + Ḡₗ·R from R = I,  Ḡ = mean over heads of max(A ∘ ∂y/∂A, 0)   (Chefer et al., 2021)
//! ```
//!
//! [`super::occlusion`] is the yardstick: it takes each token away and looks at the answer.

use super::flow::Network;
use super::heads::watch;
use super::norms::{normalise_rows, weigh_together, weights_and_vectors};
use super::{Target, Tokens, attentions, pad, scores};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::Model;
use crate::probe::Probe;
use saccade_tensor::{Pass, Tensor};

/// The most tokens for which flow is computed unless asked otherwise.
pub const FLOW_LIMIT: usize = 64;

/// A way to say how much each token matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// The last layer's mean weights.
    Attention,
    /// Weights multiplied through the layers.
    Rollout,
    /// The same with weights by the norms of what is attended to.
    Norms,
    /// Maximum flow through the layers.
    Flow,
    /// Gradient × attention through the layers.
    Gradient,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Attention, Self::Rollout, Self::Norms, Self::Flow, Self::Gradient];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::Rollout => "rollout",
            Self::Norms => "norm-rollout",
            Self::Flow => "flow",
            Self::Gradient => "gradient-attention",
        }
    }
}

/// Each layer's weights, the mean over heads: (time, time).
pub fn mean_attention(model: &Model, tokens: &Tokens) -> Result<Vec<Tensor>> {
    let weights = watch(model, std::slice::from_ref(tokens))?;
    weights.into_iter().map(|weights| Ok(weights.all().mean(1)?.select(0, 0)?)).collect()
}

/// A′ = ½(A + I), with rows that sum to 1: half of what a position becomes it was before.
pub fn with_residual(attention: &Tensor) -> Result<Tensor> {
    let time = attention.shape().last();
    let identity: Vec<f32> =
        (0..time * time).map(|at| f32::from(u8::from(at / time.max(1) == at % time.max(1)))).collect();
    normalise_rows(&attention.add(&Tensor::new(&identity, [time, time])?)?.scale(0.5)?)
}

/// The rollout after each layer, (time, time) each: row i says what position i is made of. Reads the weights of each layer,
/// without the residual.
pub fn rollout(attentions: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut after: Vec<Tensor> = Vec::with_capacity(attentions.len());
    for attention in attentions {
        let mixed = with_residual(attention)?;
        after.push(match after.last() {
            Some(before) => mixed.matmul(before)?,
            None => mixed,
        });
    }
    Ok(after)
}

/// The flow from each input to a position after the last layer. Reads the weights of each layer, without the residual.
pub fn flow(attentions: &[Tensor], position: usize) -> Result<Vec<f64>> {
    let time = attentions.first().map_or(0, |attention| attention.shape().last());
    if position >= time || attentions.iter().any(|attention| attention.shape()[..] != [time, time]) {
        let problem = format!("flow to position {position} needs square weights of one size for more tokens");
        return Err(Error::input("flow", problem));
    }
    let mut network = Network::new((attentions.len() + 1) * time);
    for (layer, attention) in attentions.iter().enumerate() {
        let capacities = with_residual(attention)?.to_vec();
        for query in 0..time {
            for key in 0..time {
                let capacity = f64::from(capacities[query * time + key]);
                network.add(layer * time + key, (layer + 1) * time + query, capacity);
            }
        }
    }
    let sink = attentions.len() * time + position;
    Ok((0..time).map(|input| network.maximum(input, sink)).collect())
}

/// The value-norm weights of each layer, all heads together, rows summing to 1: (time, time).
pub fn norm_attention(model: &Model, tokens: &Tokens) -> Result<Vec<Tensor>> {
    let layers = weights_and_vectors(model, tokens)?.into_iter();
    layers
        .map(|(weights, vectors)| normalise_rows(&weigh_together(&weights, &vectors)?.select(0, 0)?))
        .collect()
}

/// A ∘ ∂y/∂A of each layer: (heads, time, time), y being the target's logit.
pub fn gradient_attention(model: &Model, tokens: &Tokens, target: Target) -> Result<Vec<Tensor>> {
    let (ids, lengths) = pad(std::slice::from_ref(tokens))?;
    let sites = attentions(model)?;
    let probe = sites.iter().fold(Probe::new(), |probe, (site, _)| probe.track(format!("{site}.weights")));
    let answer = scores(model, &Context::inference().with_probe(&probe), &ids, &lengths)?;
    let logit = target.logit(&answer)?.sum_all()?;
    let mut pass = Pass::new();
    let mut weights = Vec::with_capacity(sites.len());
    for (site, _) in &sites {
        let missing = || Error::input("gradient × attention", format!("the model did not pass {site}"));
        let tracked = probe.get(&format!("{site}.weights"))?.ok_or_else(missing)?;
        pass = pass.with_respect_to(&tracked);
        weights.push(tracked);
    }
    let gradients = logit.gradients(&pass)?;
    let of = |tracked: &Tensor| -> Result<Tensor> {
        let gradient = gradients.get(tracked).unwrap_or_else(|| Tensor::zeros(tracked.shape()));
        Ok(tracked.detach().multiply(&gradient.detach())?.select(0, 0)?)
    };
    weights.iter().map(of).collect()
}

/// R ← R + Ḡ·R over the layers, from R = I.
pub fn relevance(products: &[Tensor]) -> Result<Tensor> {
    let time = products.first().map_or(0, |product| product.shape().last());
    let identity: Vec<f32> =
        (0..time * time).map(|at| f32::from(u8::from(at / time.max(1) == at % time.max(1)))).collect();
    let mut relevance = Tensor::new(&identity, [time, time])?;
    for product in products {
        let mean = product.relu()?.mean(0)?;
        relevance = relevance.add(&mean.matmul(&relevance)?)?;
    }
    Ok(relevance)
}

/// How much each token matters for the target, by a method. Flow is refused for more than `flow_limit` tokens.
pub fn influence(
    model: &Model,
    tokens: &Tokens,
    target: Target,
    method: Method,
    flow_limit: usize,
) -> Result<Vec<f64>> {
    let time = tokens.len();
    if target.position.is_some_and(|position| position >= time) {
        let problem = format!("the target is at {:?}, but there are {time} tokens", target.position);
        return Err(Error::input("influence", problem));
    }
    let last = |mut layers: Vec<Tensor>| layers.pop().ok_or_else(|| Error::input("influence", "no layers"));
    let matrix = match method {
        Method::Attention => last(mean_attention(model, tokens)?)?,
        Method::Rollout => last(rollout(&mean_attention(model, tokens)?)?)?,
        Method::Norms => last(rollout(&norm_attention(model, tokens)?)?)?,
        Method::Gradient => relevance(&gradient_attention(model, tokens, target)?)?,
        Method::Flow if time > flow_limit => {
            let problem = format!("flow through {time} tokens takes long; the limit is {flow_limit}");
            return Err(Error::input("influence", problem));
        }
        Method::Flow => {
            let layers = mean_attention(model, tokens)?;
            let positions = target.position.map_or(0..time, |position| position..position + 1);
            let mut sums = vec![0.0; time];
            for position in positions {
                sums.iter_mut().zip(flow(&layers, position)?).for_each(|(sum, flow)| *sum += flow);
            }
            return Ok(sums);
        }
    };
    let row = match target.position {
        Some(position) => matrix.select(0, position)?,
        None => matrix.mean(0)?, // a model that pools reads all positions
    };
    Ok(row.to_vec().into_iter().map(f64::from).collect())
}
