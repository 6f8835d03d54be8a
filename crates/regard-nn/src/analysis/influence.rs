//! Token influence: how much each token of a text matters for a prediction, by several methods.
//!
//! With Āₗ the mean of a layer's heads and A′ₗ = ½(Āₗ + I) with rows that sum to 1:
//!
//! ```text
//! attention    the row of Ā in the last layer
//! rollout      A′_L · … · A′₁                                  (Abnar & Zuidema, 2020)
//! flow         maximum flow through edges of capacity A′ₗ       (ibid.)
//! norms        rollout of ‖Σₕ αₕ f(xⱼ)‖ instead of Ā           (Kobayashi et al., 2020)
//! gradient     R ← R + Ḡₗ·R from R = I,  Ḡ = mean over heads of max(A ∘ ∂y/∂A, 0)   (Chefer et al., 2021)
//! ```
//!
//! An encoder–decoder model is treated as one sequence of layers over the tokens of source and target together: in the
//! encoder's layers the target tokens attend to nothing, in the decoder's the source tokens do.
//!
//! [`super::occlusion`] is the reference: it removes each token and measures the change of the prediction.

use super::flow::Network;
use super::heads::record_weights;
use super::norms::{normalise_rows, weigh_together, weights_and_vectors};
use super::{Part, Shown, Subject, Target, Tokens};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::{AttentionSite, Model};
use crate::probe::Probe;
use regard_tensor::{Device, Pass, Tensor};

/// The default limit of tokens for attention flow.
pub const FLOW_LIMIT: usize = 64;

/// A method that estimates how much each token matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Method {
    /// The mean attention weights of the last layer.
    Attention,
    /// Attention rollout: weights multiplied through the layers.
    Rollout,
    /// Rollout of value-norm weights.
    Norms,
    /// Attention flow: maximum flow through the layers.
    Flow,
    /// Gradient × attention, accumulated through the layers.
    Gradient,
}

impl Method {
    /// All methods.
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

/// The attention weights of each layer, averaged over heads: (time, time), where time covers source and target together.
pub fn mean_attention(model: &dyn Model, tokens: &Tokens) -> Result<Vec<Tensor>> {
    let layers = in_order(model, tokens, |subject| {
        let weights = record_weights(subject, std::slice::from_ref(tokens))?;
        weights.into_iter().map(|weights| Ok(weights.all().mean(1)?)).collect()
    })?;
    layers.iter().map(|layer| Ok(layer.select(0, 0)?)).collect()
}

/// Values of each layer of each part, (heads, queries, keys), as (heads, time, time), in the order of the forward pass.
fn in_order(
    model: &dyn Model,
    tokens: &Tokens,
    find: impl Fn(Subject) -> Result<Vec<Tensor>>,
) -> Result<Vec<Tensor>> {
    let of = |part: Part| find(Subject { model, part });
    let Some(source) = tokens.source.as_deref() else {
        return of(Part::Reader)?.iter().map(|layer| placed(layer, (0, 0), tokens.len())).collect();
    };
    let (read, time) = (source.len(), tokens.total_len());
    let encoder = of(Part::Reader)?;
    let mut layers = encoder.iter().map(|layer| placed(layer, (0, 0), time)).collect::<Result<Vec<_>>>()?;
    for (own, cross) in of(Part::Decoder)?.iter().zip(&of(Part::Cross)?) {
        layers.push(placed(own, (read, read), time)?);
        layers.push(placed(cross, (read, 0), time)?);
    }
    Ok(layers)
}

/// Weights (heads, queries, keys) at an offset in a square of zeros.
fn placed(weights: &Tensor, (top, left): (usize, usize), time: usize) -> Result<Tensor> {
    let [heads, queries, keys] = weights.shape()[..] else {
        return Err(Error::input(
            "influence",
            format!("expected weights with three axes, got {}", weights.shape()),
        ));
    };
    let mut values = vec![0.0; heads * time * time];
    for (row, from) in weights.values().chunks_exact(keys.max(1)).enumerate() {
        let (head, query) = (row / queries.max(1), row % queries.max(1));
        let start = (head * time + top + query) * time + left;
        values[start..start + keys].copy_from_slice(from);
    }
    Ok(Tensor::new(&values, [heads, time, time])?.to(weights.device())?)
}

/// A′ = ½(A + I), with rows that sum to 1: the residual connection counts as half.
pub fn with_residual(attention: &Tensor) -> Result<Tensor> {
    let identity = identity(attention.shape().last(), attention.device())?;
    normalise_rows(&attention.add(&identity)?.scale(0.5)?)
}

fn identity(time: usize, device: Device) -> Result<Tensor> {
    let values: Vec<f32> =
        (0..time * time).map(|at| f32::from(u8::from(at / time.max(1) == at % time.max(1)))).collect();
    Ok(Tensor::new(&values, [time, time])?.to(device)?)
}

/// The attention rollout after each layer, (time, time) each: row i has the share of each input token in position i. The
/// weights of each layer are given without the residual connection.
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

/// The attention flow from each input to a position after the last layer. The weights of each layer are given without the
/// residual connection.
pub fn flow(attentions: &[Tensor], position: usize) -> Result<Vec<f64>> {
    let time = attentions.first().map_or(0, |attention| attention.shape().last());
    if position >= time || attentions.iter().any(|attention| attention.shape()[..] != [time, time]) {
        let problem = format!(
            "flow to position {position} needs square weights of equal size for more than {position} tokens"
        );
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

/// The value-norm weights of each layer over all heads, with rows that sum to 1: (time, time).
pub fn norm_attention(model: &dyn Model, tokens: &Tokens) -> Result<Vec<Tensor>> {
    let layers = in_order(model, tokens, |subject| {
        let layers = weights_and_vectors(subject, tokens)?.into_iter();
        layers.map(|(weights, vectors)| normalise_rows(&weigh_together(&weights, &vectors)?)).collect()
    })?;
    layers.iter().map(|layer| Ok(layer.select(0, 0)?)).collect()
}

/// A ∘ ∂y/∂A of each layer, (heads, time, time), where y is the target's logit.
pub fn gradient_attention(model: &dyn Model, tokens: &Tokens, target: Target) -> Result<Vec<Tensor>> {
    let shown = Shown::new(std::slice::from_ref(tokens))?;
    let sites = model.attentions();
    let probe = sites.iter().fold(Probe::new(), |probe, site| probe.track(format!("{}.weights", site.name)));
    let answer = shown.scores(model, &Context::inference().with_probe(&probe))?;
    let logit = target.logit(&answer)?.sum_all()?;
    let tracked = |site: &str| {
        let missing = || Error::input("gradient × attention", format!("the model has no site {site}"));
        probe.get(&format!("{site}.weights"))?.ok_or_else(missing)
    };
    let mut pass = Pass::new();
    for site in &sites {
        pass = pass.with_respect_to(&tracked(&site.name)?);
    }
    let gradients = logit.gradients(&pass)?;
    let of = |site: &AttentionSite| -> Result<Tensor> {
        let weights = tracked(&site.name)?;
        let gradient = match gradients.get(&weights) {
            Some(gradient) => gradient,
            None => Tensor::zeros(weights.shape()).to(weights.device())?,
        };
        Ok(weights.detach().multiply(&gradient.detach())?.select(0, 0)?)
    };
    in_order(model, tokens, |subject| subject.attentions()?.iter().map(of).collect())
}

/// I + Ḡ of each layer, (time, time): what [`relevance`] multiplies.
pub fn relevance_steps(products: &[Tensor]) -> Result<Vec<Tensor>> {
    let step = |product: &Tensor| {
        Ok(product.relu()?.mean(0)?.add(&identity(product.shape().last(), product.device())?)?)
    };
    products.iter().map(step).collect()
}

/// R ← R + Ḡ·R over the layers, starting from R = I.
pub fn relevance(products: &[Tensor]) -> Result<Tensor> {
    let (time, device) =
        products.first().map_or((0, Device::Cpu), |product| (product.shape().last(), product.device()));
    let mut relevance = identity(time, device)?;
    for product in products {
        let mean = product.relu()?.mean(0)?;
        relevance = relevance.add(&mean.matmul(&relevance)?)?;
    }
    Ok(relevance)
}

/// The influence of each token on the target, by a method. Tokens of the source come first, if there is one. Flow is
/// rejected for more than `flow_limit` tokens.
pub fn influence(
    model: &dyn Model,
    tokens: &Tokens,
    target: Target,
    method: Method,
    flow_limit: usize,
) -> Result<Vec<f64>> {
    if target.position.is_some_and(|position| position >= tokens.len()) {
        let problem =
            format!("the target is at {:?}, but there are {} tokens", target.position, tokens.len());
        return Err(Error::input("influence", problem));
    }
    // The source tokens come before those of the target.
    let time = tokens.total_len();
    let position = target.position.map(|position| time - tokens.len() + position);
    let last = |mut layers: Vec<Tensor>| {
        layers.pop().ok_or_else(|| Error::input("influence", "the model has no layers"))
    };
    let matrix = match method {
        Method::Attention => last(mean_attention(model, tokens)?)?,
        Method::Rollout => last(rollout(&mean_attention(model, tokens)?)?)?,
        Method::Norms => last(rollout(&norm_attention(model, tokens)?)?)?,
        Method::Gradient => relevance(&gradient_attention(model, tokens, target)?)?,
        Method::Flow if time > flow_limit => {
            let problem =
                format!("flow through {time} tokens would take long; the limit is {flow_limit} tokens");
            return Err(Error::input("influence", problem));
        }
        Method::Flow => {
            let layers = mean_attention(model, tokens)?;
            let positions = position.map_or(0..time, |position| position..position + 1);
            let mut sums = vec![0.0; time];
            for position in positions {
                sums.iter_mut().zip(flow(&layers, position)?).for_each(|(sum, flow)| *sum += flow);
            }
            return Ok(sums);
        }
    };
    let row = match position {
        Some(position) => matrix.select(0, position)?,
        None => matrix.mean(0)?, // pooling models read all positions
    };
    Ok(row.to_vec().into_iter().map(f64::from).collect())
}
