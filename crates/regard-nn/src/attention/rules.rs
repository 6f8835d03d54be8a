//! Attention composed: who may attend × how pairs are scored × how scores become weights.
//!
//! Dot scores with a softmax run in tiles, whatever the mask; linear attention has its own form; everything else, and
//! every pass that changes or differentiates scores or weights themselves, goes step by step as the reference does.

use super::{Additive, Cache, Pattern, RelativeVectors, Scale, Weights, dense, linear};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::position::Rotation;
use crate::probe::Probe;
use regard_tensor::ops::{Allowed, Attention, Bias, Decoding, Projections, attend as attend_in_tiles};
use regard_tensor::{Device, Mask, Tensor};

/// Who may attend to whom and where everyone stands: what all layers of one pass share.
#[derive(Debug, Clone)]
pub struct Rules {
    pub(super) pattern: Pattern,
    pub(super) allowed: Allowed,
    pub(super) bias: Bias,
    pub(super) rotation: Option<Rotation>,
    pub(super) relative: Option<RelativeVectors>,
}

impl Rules {
    /// A pattern over so many queries and keys, the last query standing at the last key.
    pub fn new(pattern: Pattern, queries: usize, keys: usize) -> Result<Self> {
        let allowed = pattern.compile(queries, keys)?;
        Ok(Self { pattern, allowed, bias: Bias::None, rotation: None, relative: None })
    }

    /// Leaves out keys that are padding: (batch, keys), true where a token is.
    #[must_use]
    pub fn padded(mut self, present: Option<Mask>) -> Self {
        self.allowed.keys = present;
        self
    }

    /// Adds something to the scores.
    #[must_use]
    pub fn biased(mut self, bias: Bias) -> Self {
        self.bias = bias;
        self
    }

    /// The same rules with the tensors in them on a device, copied once for all layers.
    pub(crate) fn on(mut self, device: Device) -> Result<Self> {
        self.bias = bias_on(&self.bias, device)?;
        self.rotation = self.rotation.map(|rotation| rotation.on(device)).transpose()?;
        self.relative = self.relative.map(|relative| relative.on(device)).transpose()?;
        Ok(self)
    }

    /// Compares queries and keys with vectors of relative positions.
    #[must_use]
    pub fn related(mut self, relative: Option<RelativeVectors>) -> Self {
        self.relative = relative;
        self
    }

    /// Turns queries and keys by their place.
    #[must_use]
    pub fn rotated(mut self, rotation: Option<Rotation>) -> Self {
        self.rotation = rotation;
        self
    }
}

/// How scores become weights.
#[derive(Debug, Clone, Default)]
pub enum Weigh {
    /// e^score / Σ e^score.
    #[default]
    Softmax,
    /// Softmax with one more logit a head that takes weight but says nothing: learned, or (`None`) 0, in which case it
    /// is e^score / (1 + Σ e^score) (Miller, 2023).
    Sink(Option<Tensor>),
    /// 1 / (1 + e^−(score + shift)), each pair for itself (Ramapuram et al., 2024). Where no shift is given it is theirs,
    /// −ln n, with n the number of keys that the query may attend to: neither padding nor what comes later changes it.
    Sigmoid {
        /// What is added to the scores.
        shift: Option<f32>,
    },
    /// φ(q)·φ(k) over its sum, with φ(x) = elu(x) + 1: linear in length. It takes the place of the score; nothing can be
    /// added to it, and its weights are not dropped.
    Linear,
}

/// How a pair is scored.
#[derive(Debug, Clone)]
pub enum Score {
    /// The dot product of query and key, scaled.
    Dot(Scale),
    /// A small network's opinion of query and key.
    Additive(Box<Additive>),
}

/// How a layer attends.
#[derive(Debug, Clone)]
pub struct How {
    /// How pairs are scored.
    pub score: Score,
    /// Scores s become cap·tanh(s / cap).
    pub soft_cap: Option<f32>,
    /// How they become weights.
    pub weigh: Weigh,
    /// The share of weights that training drops.
    pub dropout: f32,
}

impl Default for How {
    fn default() -> Self {
        Self { score: Score::Dot(Scale::InverseRoot), soft_cap: None, weigh: Weigh::Softmax, dropout: 0.0 }
    }
}

/// The output (batch, queries, heads, value width) of attention over projections, under all rules.
///
/// Shows `scores`, `weights` and `heads` to the probe.
pub fn attend(context: &Context, projections: Projections, how: &How, rules: &Rules) -> Result<Tensor> {
    let intervenes = context.intervenes("scores") || context.intervenes("weights");
    let softmax = matches!(how.weigh, Weigh::Softmax | Weigh::Sink(_)) && !rules.pattern.by_content();
    if matches!(how.weigh, Weigh::Linear) && !matches!(rules.bias, Bias::None) {
        let problem = "linear attention has no scores that a bias could be added to";
        return Err(Error::configuration("attention", problem));
    }
    let heads = if let Score::Dot(scale) = how.score
        && softmax
        && !intervenes
    {
        in_tiles(context, projections, scale, how, rules)?
    } else {
        let (query, key, value) = separated(projections)?;
        check([&query, &key, &value], rules)?;
        match how.weigh {
            Weigh::Linear if !intervenes && linear_fits(rules, &query, &key) => {
                if let Some(probe) = context.probe() {
                    show_linear(context, probe, [&query, &key, &value], how, rules)?;
                }
                linear_attention_heads(&query, &key, &value, rules)?
            }
            _ => {
                let (heads, weights) = dense::attend(context, [&query, &key, &value], how, rules)?;
                if let Some(probe) = context.probe() {
                    probe.keep_weights(context.path(), Weights::dense(weights));
                }
                heads
            }
        }
    };
    context.see("heads", heads)
}

/// The same for one new token a text, whose place in the cache stands in memory: where a step of a generation is recorded.
pub(super) fn attend_next(
    context: &Context,
    cache: &Cache,
    projections: [&Tensor; 3],
    how: &How,
    rules: &Rules,
) -> Result<Tensor> {
    let whole = rules.allowed.keys.is_none() && rules.allowed.blocks.is_none() && !rules.pattern.by_content();
    let (Score::Dot(scale), Weigh::Softmax | Weigh::Sink(_), Bias::None, true, None) =
        (&how.score, &how.weigh, &rules.bias, whole, context.probe())
    else {
        let problem = "only softmax over all earlier tokens, without a bias, can be recorded";
        return Err(Error::configuration("attention", problem));
    };
    let query = projections[0];
    let (heads, width) = (query.shape()[2], query.shape()[3]);
    let sink = match &how.weigh {
        Weigh::Sink(Some(sink)) => Some(sink.clone()),
        Weigh::Sink(None) => Some(Tensor::full_on(query.device(), [heads], 0.0)?),
        _ => None,
    };
    let how = Decoding { scale: scale.factor(width), soft_cap: how.soft_cap, sink };
    cache.decode(context.path(), projections, &how)
}

fn in_tiles(
    context: &Context,
    projections: Projections,
    scale: Scale,
    how: &How,
    rules: &Rules,
) -> Result<Tensor> {
    let (heads, width, keys) = sizes(projections);
    let device = match projections {
        Projections::Separate { query, .. } | Projections::Cached { query, .. } => query.device(),
        Projections::Fused { packed, .. } => packed.device(),
    };
    let sink = match &how.weigh {
        Weigh::Sink(Some(sink)) => Some(sink.clone()),
        Weigh::Sink(None) => Some(Tensor::full_on(device, [heads], 0.0)?),
        _ => None,
    };
    let attention = Attention {
        scale: scale.factor(width),
        soft_cap: how.soft_cap,
        allowed: rules.allowed.clone(),
        bias: bias_on(&rules.bias, device)?,
        sink,
        dropout: context.dropout("weights", how.dropout),
    };
    let attended = attend_in_tiles(projections, &attention)?;
    if let Some(probe) = context.probe() {
        if context.watches("scores") {
            let (query, key, _) = separated(projections)?;
            let scores = dense::scores(context, &query.detach(), &key.detach(), how, rules)?;
            context.see("scores", scores)?;
        } else {
            probe.pass(context.site("scores"));
        }
        probe.keep_weights(context.path(), Weights::tiled(&attended, keys));
    }
    Ok(attended.output)
}

/// A bias on the device of the scores that it is added to.
pub(super) fn bias_on(bias: &Bias, device: Device) -> Result<Bias> {
    Ok(match bias {
        Bias::None => Bias::None,
        Bias::Dense(values) => Bias::Dense(values.to(device)?),
        Bias::Slopes(slopes) => Bias::Slopes(slopes.to(device)?),
        Bias::Buckets { table, buckets } => {
            Bias::Buckets { table: table.to(device)?, buckets: buckets.clone() }
        }
    })
}

/// The number of heads, their width, and the number of keys.
fn sizes(projections: Projections) -> (usize, usize, usize) {
    let at = |tensor: &Tensor, axis: usize| tensor.shape().get(axis).copied().unwrap_or(0);
    match projections {
        Projections::Separate { query, key, .. } => (at(query, 2), at(query, 3), at(key, 1)),
        Projections::Cached { query, length, .. } => (at(query, 2), at(query, 3), length),
        Projections::Fused { packed, heads, kv_heads } => {
            (heads, at(packed, 2) / (heads + 2 * kv_heads).max(1), at(packed, 1))
        }
    }
}

/// Query, key and value as tensors of their own, (batch, time, heads, width).
pub(super) fn separated(projections: Projections) -> Result<(Tensor, Tensor, Tensor)> {
    Ok(match projections {
        Projections::Separate { query, key, value } => (query.clone(), key.clone(), value.clone()),
        Projections::Cached { query, key, value, length } => {
            (query.clone(), key.slice(1, 0, length)?, value.slice(1, 0, length)?)
        }
        Projections::Fused { packed, heads, kv_heads } => {
            let [batch, time, row] = packed.shape()[..] else {
                return Err(Error::input("attention", format!("a packed projection of {}", packed.shape())));
            };
            let width = row / (heads + 2 * kv_heads).max(1);
            let part = |first: usize, count: usize| {
                packed.slice(2, first * width, count * width)?.reshape([batch, time, count, width])
            };
            (part(0, heads)?, part(heads, kv_heads)?, part(heads + kv_heads, kv_heads)?)
        }
    })
}

/// Fails unless queries, keys, values and rules fit together. (The tiled kernel has its own checks.)
fn check([query, key, value]: [&Tensor; 3], rules: &Rules) -> Result<()> {
    let wrong = |problem: String| Err(Error::input("attention", problem));
    let (q, k, v) = (query.shape(), key.shape(), value.shape());
    let ([batch, queries, heads, width], [_, keys, kv_heads, _], [..]) = (&q[..], &k[..], &v[..]) else {
        return wrong(format!(
            "query, key and value must be (batch, time, heads, width), got {q}, {k} and {v}"
        ));
    };
    let fits = k[0] == *batch && k[3] == *width && v.rank() == 4 && v[..3] == k[..3];
    if !fits || *kv_heads == 0 || !heads.is_multiple_of(*kv_heads) || *queries == 0 || *keys == 0 {
        return wrong(format!("query {q}, key {k} and value {v} do not fit together"));
    }
    if let Some(present) = &rules.allowed.keys
        && present.shape()[..] != [*batch, *keys]
    {
        return wrong(format!("the mask of keys must be [{batch}×{keys}], got {}", present.shape()));
    }
    if let Some(blocks) = &rules.allowed.blocks {
        let (examples, planes) = blocks.planes();
        let fits = [1, *batch].contains(&examples) && [1, *heads].contains(&planes);
        if blocks.lengths() != (*queries, *keys) || !fits {
            return wrong(format!(
                "a pattern for {queries} queries and {keys} keys was expected, got one for {:?} in {examples}×{planes} \
                 planes",
                blocks.lengths()
            ));
        }
    }
    match &rules.bias {
        Bias::Buckets { buckets, .. } if buckets.values().len() != queries + keys - 1 => {
            let (span, got) = (queries + keys - 1, buckets.values().len());
            wrong(format!("the bias needs buckets for {span} distances, got {got}"))
        }
        _ => Ok(()),
    }
}

/// Lets the probe see the scores and weights that linear attention's own form has no need of.
fn show_linear(
    context: &Context,
    probe: &Probe,
    [query, key, value]: [&Tensor; 3],
    how: &How,
    rules: &Rules,
) -> Result<()> {
    if context.watches("scores") {
        context.see("scores", dense::scores(context, query, key, how, rules)?)?;
    } else {
        probe.pass(context.site("scores"));
    }
    if context.watches("weights") {
        let (_, weights) = dense::attend(&Context::inference(), [query, key, value], how, rules)?;
        probe.keep_weights(context.path(), Weights::dense(weights));
    } else {
        probe.pass(context.site("weights"));
    }
    Ok(())
}

/// Whether linear attention's own form can follow the rules: everyone sees everyone, or all that came before.
fn linear_fits(rules: &Rules, query: &Tensor, key: &Tensor) -> bool {
    let square = query.shape().get(1) == key.shape().get(1);
    let free = rules.allowed.blocks.is_none() && !rules.pattern.by_content();
    free && (!rules.allowed.causal || square)
}

fn linear_attention_heads(query: &Tensor, key: &Tensor, value: &Tensor, rules: &Rules) -> Result<Tensor> {
    let (query, key) = (linear::features(query, None)?, linear::features(key, rules.allowed.keys.as_ref())?);
    let heads = query.shape()[2];
    let (key, value) = (with_copies(&key, heads)?, with_copies(value, heads)?);
    let [query, key, value] = [&query, &key, &value].map(|x| dense::heads_first(x, heads));
    linear::attend(&query?, &key?, &value?, rules.allowed.causal).and_then(|output| {
        let shape = output.shape();
        let (rows, width) = (shape[1], shape[2]);
        let batch = shape[0] / heads;
        Ok(output.reshape([batch, heads, rows, width])?.permute(&[0, 2, 1, 3])?)
    })
}

/// Key-value heads (batch, time, heads, width), each repeated for the query heads that share it.
fn with_copies(x: &Tensor, heads: usize) -> Result<Tensor> {
    let [batch, time, kv_heads, width] = x.shape()[..] else { return Ok(x.clone()) };
    if kv_heads == heads {
        return Ok(x.clone());
    }
    let copies = Tensor::full_on(x.device(), [1, 1, 1, heads / kv_heads, 1], 0.0)?;
    Ok(x.reshape([batch, time, kv_heads, 1, width])?.add(&copies)?.reshape([batch, time, heads, width])?)
}

/// What a layer's projections become once a cache has been consulted.
pub(super) fn with_cache<'a>(
    cache: Option<&Cache>,
    site: &str,
    entry: &'a mut Option<super::cache::Entry>,
    [query, key, value]: [&'a Tensor; 3],
) -> Result<Projections<'a>> {
    let Some(cache) = cache else { return Ok(Projections::Separate { query, key, value }) };
    let entry = entry.insert(cache.extend(site, key, value)?);
    Ok(Projections::Cached { query, key: &entry.key, value: &entry.value, length: entry.length })
}
