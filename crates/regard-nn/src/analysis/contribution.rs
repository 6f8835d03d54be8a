//! Direct logit attribution and the logit lens.
//!
//! In a pre-norm model the final residual stream is the sum of the embeddings and the outputs of all heads and
//! feed-forward layers. The final norm is linear once its scale is frozen, so the logit is exactly a sum of contributions:
//! direct logit attribution (Elhage et al., 2021). The logit lens (nostalgebraist, 2020) unembeds the residual stream
//! after each layer as if it were the last.

use super::{Shown, Target, Tokens, attentions, pad};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::Norm;
use crate::models::Model;
use crate::parameter::Parameter;
use crate::probe::Probe;
use regard_tensor::Tensor;

/// The contribution of each part of a model to a logit. The contributions sum to the logit.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Contributions {
    /// The embeddings.
    pub embeddings: f64,
    /// Each head of each layer.
    pub heads: Vec<Vec<f64>>,
    /// The bias of each layer's output projection, which belongs to no head.
    pub attention_bias: Vec<f64>,
    /// Each layer's feed-forward layer.
    pub ffn: Vec<f64>,
    /// The bias of the final norm.
    pub norm_bias: f64,
    /// The logit (or difference of logits) itself.
    pub logit: f64,
}

impl Contributions {
    /// The sum of all parts.
    pub fn sum(&self) -> f64 {
        let heads = self.heads.iter().flatten().chain(&self.attention_bias).chain(&self.ffn);
        self.embeddings + self.norm_bias + heads.sum::<f64>()
    }
}

fn last_parts(model: &dyn Model) -> Result<(&Norm, &Tensor)> {
    let parts = model.unembedding().filter(|last| last.plain_sum && last.scale == 1.0);
    let parts = parts.and_then(|last| Some((last.norm?, last.table.tensor())));
    parts.ok_or_else(|| {
        let problem = format!("the residual stream of this {} is not a sum of contributions", model.kind());
        Error::input("direct contributions", problem)
    })
}

fn take(probe: &Probe, site: &str) -> Result<Tensor> {
    let missing = || Error::input("direct contributions", format!("the model has no site {site}"));
    probe.get(site)?.ok_or_else(missing)
}

/// The direct contribution of each part of a model to the target's logit.
pub fn contributions(model: &dyn Model, tokens: &Tokens, target: Target) -> Result<Contributions> {
    let (norm, unembedding) = last_parts(model)?;
    let (ids, lengths) = pad(std::slice::from_ref(tokens))?;
    let context = Context::inference();
    let probe =
        ["embeddings", "layers.*.self.heads", "layers.*.ffn.output", "layers.*.residual.after", "logits"]
            .into_iter()
            .fold(Probe::new(), Probe::record);
    Shown::padded(ids, lengths).read(model, &context.clone().with_probe(&probe))?;
    let logit = f64::from(target.logit(&take(&probe, "logits")?)?.sum_all()?.item()?);
    let position = target.position.unwrap_or(0); // checked by the line above
    let here = |site: &str| -> Result<Tensor> { Ok(take(&probe, site)?.select(1, position)?) };
    let layers = attentions(model)?;
    let last = match layers.len() {
        0 => here("embeddings")?,
        count => here(&format!("layers.{}.residual.after", count - 1))?,
    };
    let mut direction = unembedding.detach().select(0, target.class)?;
    if let Some(other) = target.against {
        direction = direction.subtract(&unembedding.detach().select(0, other)?)?;
    }
    let width = direction.count();
    let last = last.reshape([1, width])?;
    let along = |x: &Tensor| -> Result<f64> {
        let x = norm.linear_at(&context, &last, &x.reshape([1, width])?)?;
        Ok(f64::from(x.multiply(&direction)?.sum_all()?.item()?))
    };
    let mut found = Contributions {
        embeddings: along(&here("embeddings")?)?,
        heads: Vec::new(),
        attention_bias: Vec::new(),
        ffn: Vec::new(),
        norm_bias: 0.0,
        logit,
    };
    for (layer, site) in layers.iter().enumerate() {
        let attention = site.projections()?;
        let heads = here(&format!("{}.heads", site.name))?; // (1, H, D)
        let of_head = |head: usize| along(&heads.select(1, head)?.matmul(&attention.head_output(head)?)?);
        found.heads.push((0..attention.config().n_heads).map(of_head).collect::<Result<_>>()?);
        found.attention_bias.push(attention.output_bias().map_or(Ok(0.0), |bias| along(&bias.detach()))?);
        found.ffn.push(along(&here(&format!("layers.{layer}.ffn.output"))?)?);
    }
    if let Some(bias) = norm.bias().map(Parameter::tensor) {
        found.norm_bias = f64::from(bias.detach().multiply(&direction)?.sum_all()?.item()?);
    }
    Ok(found)
}

/// The logits (vocabulary) of the residual stream at a position after the embeddings and after each layer.
pub fn logit_lens(model: &dyn Model, tokens: &Tokens, position: usize) -> Result<Vec<Tensor>> {
    let (ids, lengths) = pad(std::slice::from_ref(tokens))?;
    let context = Context::inference();
    let probe = Probe::new().record("embeddings").record("layers.*.residual.after");
    Shown::padded(ids, lengths).read(model, &context.clone().with_probe(&probe))?;
    let count = attentions(model)?.len();
    let sites =
        ["embeddings".to_owned()].into_iter().chain((0..count).map(|i| format!("layers.{i}.residual.after")));
    let scores = |site: String| -> Result<Tensor> {
        let residual = take(&probe, &site)?.slice(1, position, 1)?; // (1, 1, C)
        let scores = model.lens(&context, &residual)?;
        Ok(scores.reshape([scores.count()])?)
    };
    sites.map(scores).collect()
}
