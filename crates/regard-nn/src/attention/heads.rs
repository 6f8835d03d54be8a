//! Multi-head attention: project, attend in every head, project back.

use super::cache::Entry;
use super::disentangled::{Disentangled, DisentangledConfig};
use super::rules::{How, Rules, Score, Weigh, attend, attend_next, separated, with_cache};
use super::{Additive, Scale};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Linear, LinearConfig, Norm, NormConfig, clamp};
use crate::parameter::{Draw, Initial, Parameter, module};
use regard_tensor::Tensor;
use regard_tensor::ops::{Bias, Layout, Projections};
use serde::{Deserialize, Serialize};

/// The sizes and the form of a multi-head attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionConfig {
    /// The width of the vectors that ask, and of the result.
    pub d_model: usize,
    /// The width of the vectors that are looked at, where they are others (cross-attention).
    pub d_memory: usize,
    /// The number of query heads.
    pub n_heads: usize,
    /// The number of key-value heads: as many, fewer (grouped-query; Ainslie et al., 2023) or one (multi-query;
    /// Shazeer, 2019).
    pub n_kv_heads: usize,
    /// The width of a head.
    pub d_head: usize,
    /// Whether the three projections are one layer. Queries, keys and values then come from the same vectors.
    pub fused: bool,
    /// Which projections have biases.
    pub bias: Biases,
    /// A norm of queries and keys before they are compared.
    pub query_key_norm: Option<(QueryKeyNorm, NormConfig)>,
    /// Queries, keys and values are cut off at ± this.
    pub clip: Option<f32>,
    /// How the weights lie in memory.
    pub layout: Layout,
    /// What the scores are multiplied with.
    pub scale: Scale,
    /// Scores s become cap·tanh(s / cap).
    pub soft_cap: Option<f32>,
    /// How pairs are scored and scores become weights.
    pub kind: AttentionKind,
    /// Scores of relative positions, which have vectors of their own.
    pub disentangled: Option<DisentangledConfig>,
    /// The share of weights that training drops.
    pub dropout: f32,
}

/// A kind of attention, by the name that configurations have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttentionKind {
    /// Dot products and a softmax.
    #[default]
    Softmax,
    /// Softmax with an implicit logit of 0.
    ZeroSink,
    /// Softmax with a learned logit a head.
    LearnedSink,
    /// A sigmoid for each pair.
    Sigmoid,
    /// Linear attention.
    Linear,
    /// Additive scores and a softmax.
    Additive,
}

/// Which of attention's projections have biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Biases {
    /// Queries.
    pub query: bool,
    /// Keys.
    pub key: bool,
    /// Values.
    pub value: bool,
    /// The output.
    pub output: bool,
}

impl Biases {
    /// All or none.
    pub fn all(bias: bool) -> Self {
        Self { query: bias, key: bias, value: bias, output: bias }
    }
}

/// Over which features queries and keys are normed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueryKeyNorm {
    /// Over the features of each head, with one set of weights for all heads.
    Head,
    /// Over the features of each head, with weights of its own for each (Cohere, StableLM).
    EachHead,
    /// Over the features of all heads together.
    All,
}

impl AttentionConfig {
    /// Self-attention with fused projections, biases and a head width of `d_model / n_heads`.
    pub fn new(d_model: usize, n_heads: usize) -> Self {
        Self {
            d_model,
            d_memory: d_model,
            n_heads,
            n_kv_heads: n_heads,
            d_head: if n_heads > 0 && d_model.is_multiple_of(n_heads) { d_model / n_heads } else { 0 },
            fused: true,
            bias: Biases::all(true),
            query_key_norm: None,
            clip: None,
            layout: Layout::OutIn,
            scale: Scale::InverseRoot,
            soft_cap: None,
            kind: AttentionKind::Softmax,
            disentangled: None,
            dropout: 0.0,
        }
    }

    /// Rejects sizes that do not fit together.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { d_model, n_heads, n_kv_heads, d_head, .. } = *self;
        let problem = if n_heads == 0 || n_kv_heads == 0 {
            "there must be at least one head".to_owned()
        } else if !n_heads.is_multiple_of(n_kv_heads) {
            format!("{n_heads} query heads cannot share {n_kv_heads} key-value heads evenly")
        } else if d_head == 0 && !d_model.is_multiple_of(n_heads) {
            format!("the width ({d_model}) must be divisible by the number of heads ({n_heads})")
        } else if d_head == 0 {
            "the width of a head must be at least 1".to_owned()
        } else if self.kind == AttentionKind::Additive && n_heads != n_kv_heads {
            "additive scores need a key head for each query head".to_owned()
        } else if self.disentangled.is_some() && (self.fused || n_heads != n_kv_heads) {
            "disentangled attention has projections of their own for queries and keys, and as many of both"
                .to_owned()
        } else if self.fused && self.d_memory != d_model {
            "fused projections read one kind of vector".to_owned()
        } else if self.fused && !(self.bias.query == self.bias.key && self.bias.key == self.bias.value) {
            "a fused projection has one bias for queries, keys and values, or none".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::configuration("multi-head attention", problem))
    }
}

/// Attention with several heads.
#[derive(Debug, Clone)]
pub struct MultiHead {
    project: Option<Linear>,
    query: Option<Linear>,
    key: Option<Linear>,
    value: Option<Linear>,
    query_norm: Option<Norm>,
    key_norm: Option<Norm>,
    sink: Option<Parameter>,
    additive: Option<Additive>,
    positions: Option<Disentangled>,
    output: Linear,
    config: AttentionConfig,
}

module!(MultiHead { project, query, key, value, query_norm, key_norm, sink, additive, positions, output });

impl MultiHead {
    /// A multi-head attention; `draw` for the projections in and out.
    pub fn new(initial: &Initial, config: AttentionConfig, draw: (Draw, Draw)) -> Result<Self> {
        config.check()?;
        let AttentionConfig { d_model, d_memory, n_heads, n_kv_heads, d_head, layout, .. } = config;
        let linear = |name: &str, inputs: usize, heads: usize, bias: bool, draw: Draw| {
            let linear = LinearConfig { inputs, outputs: heads * d_head, bias, layout };
            Linear::new(&initial.part(name), linear, draw).map(Some)
        };
        let bias = config.bias;
        let (project, query, key, value) = if config.fused {
            (linear("project", d_model, n_heads + 2 * n_kv_heads, bias.query, draw.0)?, None, None, None)
        } else {
            // Where scores are not scaled, the first queries are, as T5 has it.
            let asking = match (draw.0, config.scale) {
                (Draw::Normal(deviation), Scale::None) => Draw::Normal(deviation / (d_head as f32).sqrt()),
                (draw, _) => draw,
            };
            (
                None,
                linear("query", d_model, n_heads, bias.query, asking)?,
                linear("key", d_memory, n_kv_heads, bias.key, draw.0)?,
                linear("value", d_memory, n_kv_heads, bias.value, draw.0)?,
            )
        };
        let norm = |name: &str, heads: usize| match config.query_key_norm {
            None => Ok(None),
            Some((over, norm)) => {
                let shape = match over {
                    QueryKeyNorm::Head => vec![d_head],
                    QueryKeyNorm::EachHead => vec![heads, d_head],
                    QueryKeyNorm::All => vec![heads * d_head],
                };
                Norm::new(&initial.part(name), norm, shape).map(Some)
            }
        };
        let sink = match config.kind {
            AttentionKind::LearnedSink => Some(initial.parameter("sink", [n_heads], Draw::Constant(0.0))?),
            _ => None,
        };
        let additive = match config.kind {
            AttentionKind::Additive => {
                Some(Additive::new(&initial.part("additive"), (Some(d_head), d_head, d_head), draw.0)?)
            }
            _ => None,
        };
        let positions = |form| Disentangled::new(&initial.part("positions"), &config, form, draw.0);
        let positions = config.disentangled.map(positions).transpose()?;
        let out = LinearConfig { inputs: n_heads * d_head, outputs: d_model, bias: bias.output, layout };
        let output = Linear::new(&initial.part("output"), out, draw.1)?;
        let (query_norm, key_norm) = (norm("query_norm", n_heads)?, norm("key_norm", n_kv_heads)?);
        Ok(Self {
            project,
            query,
            key,
            value,
            query_norm,
            key_norm,
            sink,
            additive,
            positions,
            output,
            config,
        })
    }

    /// Each position of x (batch, queries, width) attends to `memory` (batch, keys, its width), or to x itself.
    pub fn forward(
        &self,
        context: &Context,
        x: &Tensor,
        memory: Option<&Tensor>,
        rules: &Rules,
    ) -> Result<Tensor> {
        let [batch, time, _] = x.shape()[..] else {
            let problem = format!("vectors must be (batch, time, width), got {}", x.shape());
            return Err(Error::input("multi-head attention", problem));
        };
        if memory.is_some() && self.project.is_some() {
            let problem = "fused projections cannot attend to other vectors";
            return Err(Error::configuration("multi-head attention", problem));
        }
        let heads = self.heads(context, x, memory, rules)?; // (B, T, H, D)
        let joined = heads.reshape([batch, time, self.config.n_heads * self.config.d_head])?;
        context.see("output", self.output.forward(context, &joined)?)
    }

    fn heads(&self, context: &Context, x: &Tensor, memory: Option<&Tensor>, rules: &Rules) -> Result<Tensor> {
        let AttentionConfig { n_heads, n_kv_heads, .. } = self.config;
        let how = self.how(context);
        let watched = ["query", "key", "value"].iter().any(|name| context.watches(name));
        let plain = rules.rotation.is_none() && self.query_norm.is_none() && context.cache().is_none();
        if let (Some(project), true, false) = (&self.project, plain, watched) {
            let packed = self.clipped(project.forward(context, x)?)?; // (B, T, (H + 2G)·D)
            if let Some(probe) = context.probe() {
                for name in ["query", "key", "value"] {
                    probe.pass(context.site(name));
                }
            }
            let fused = Projections::Fused { packed: &packed, heads: n_heads, kv_heads: n_kv_heads };
            return attend(context, fused, &how, rules);
        }
        if let (Some(memory), Some(cache)) = (memory, context.cache()) {
            // What is attended to does not grow, so its keys and values are computed once.
            let query = self.project_one(context, "query", self.query.as_ref(), x, n_heads)?;
            let query = self.normed(context, self.query_norm.as_ref(), query)?;
            let (key, value) = cache.fixed(context.path(), || {
                let key = self.project_one(context, "key", self.key.as_ref(), memory, n_kv_heads)?;
                Ok((
                    self.normed(context, self.key_norm.as_ref(), key)?,
                    self.project_one(context, "value", self.value.as_ref(), memory, n_kv_heads)?,
                ))
            })?;
            let projections = Projections::Separate { query: &query, key: &key, value: &value };
            return attend(context, projections, &how, rules);
        }
        let (query, key, value) = self.project(context, x, memory)?;
        let mut query = self.normed(context, self.query_norm.as_ref(), query)?;
        let mut key = self.normed(context, self.key_norm.as_ref(), key)?;
        if let Some(rotation) = &rules.rotation {
            query = context.see("query_rotated", rotation.apply(&query)?)?;
            key = context.see("key_rotated", rotation.apply(&key)?)?;
        }
        if let Some(positions) = self.position_scores(context, rules, (&query, &key))? {
            let projections = Projections::Separate { query: &query, key: &key, value: &value };
            return attend(context, projections, &how, &rules.clone().biased(Bias::Dense(positions)));
        }
        if let Some(cache) = context.cache().filter(|cache| cache.place().is_some()) {
            return attend_next(context, cache, [&query, &key, &value], &how, rules);
        }
        let mut entry: Option<Entry> = None;
        let projections = with_cache(context.cache(), context.path(), &mut entry, [&query, &key, &value])?;
        attend(context, projections, &how, rules)
    }

    /// What disentangled positions add to the scores.
    fn position_scores(
        &self,
        context: &Context,
        rules: &Rules,
        contents: (&Tensor, &Tensor),
    ) -> Result<Option<Tensor>> {
        let (Some(positions), Some(form), Some(vectors)) =
            (&self.positions, self.config.disentangled, &rules.relative)
        else {
            return Ok(None);
        };
        let (Some(query), Some(key)) = (&self.query, &self.key) else { return Ok(None) };
        let scale = self.config.scale.factor(self.config.d_head);
        positions.scores(context, (form, scale), (vectors, (query, key)), contents)
    }

    /// What it was built from.
    pub fn config(&self) -> &AttentionConfig {
        &self.config
    }

    /// The part of the output projection that reads one head: (head width, model width).
    pub fn head_output(&self, head: usize) -> Result<Tensor> {
        let AttentionConfig { n_heads, d_head, layout, .. } = self.config;
        if head >= n_heads {
            let problem = format!("there are {n_heads} heads, so there is no head {head}");
            return Err(Error::input("multi-head attention", problem));
        }
        let weight = self.output.weight().tensor().detach();
        Ok(match layout {
            Layout::InOut => weight.slice(0, head * d_head, d_head)?,
            Layout::OutIn => weight.slice(1, head * d_head, d_head)?.transpose(0, 1)?,
        })
    }

    /// What the output projection adds, if it adds anything.
    pub fn output_bias(&self) -> Option<&Tensor> {
        self.output.bias().map(Parameter::tensor)
    }

    /// Queries and keys of vectors (batch, time, width) before norms and rotation: (batch, time, heads, head width).
    pub(crate) fn queries_and_keys(&self, context: &Context, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let (query, key, _) = self.project(context, x, None)?;
        Ok((query, key))
    }

    fn how(&self, context: &Context) -> How {
        let weigh = match (self.config.kind, &self.sink) {
            (AttentionKind::LearnedSink, Some(sink)) => Weigh::Sink(Some(context.parameter(sink))),
            (AttentionKind::ZeroSink, _) => Weigh::Sink(None),
            (AttentionKind::Sigmoid, _) => Weigh::Sigmoid { shift: None },
            (AttentionKind::Linear, _) => Weigh::Linear,
            _ => Weigh::Softmax,
        };
        let score = match &self.additive {
            Some(additive) => Score::Additive(Box::new(additive.clone())),
            None => Score::Dot(self.config.scale),
        };
        How { score, weigh, soft_cap: self.config.soft_cap, dropout: self.config.dropout }
    }

    /// Projections, cut off where they are too large.
    fn clipped(&self, x: Tensor) -> Result<Tensor> {
        match self.config.clip {
            Some(limit) => clamp(&x, limit, true),
            None => Ok(x),
        }
    }

    /// Queries or keys (batch, time, heads, width) after their norm, if they have one.
    fn normed(&self, context: &Context, norm: Option<&Norm>, x: Tensor) -> Result<Tensor> {
        let (Some(norm), Some((over, _))) = (norm, self.config.query_key_norm) else { return Ok(x) };
        let shape = x.shape().clone();
        match over {
            QueryKeyNorm::Head | QueryKeyNorm::EachHead => norm.forward(context, &x),
            QueryKeyNorm::All => {
                let flat = x.reshape([shape[0], shape[1], shape[2] * shape[3]])?;
                Ok(norm.forward(context, &flat)?.reshape(&shape)?)
            }
        }
    }

    /// Query, key and value, (batch, time, heads, width) each.
    fn project(
        &self,
        context: &Context,
        x: &Tensor,
        memory: Option<&Tensor>,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let AttentionConfig { n_heads, n_kv_heads, .. } = self.config;
        if let Some(project) = &self.project {
            let packed = self.clipped(project.forward(context, x)?)?;
            let fused = Projections::Fused { packed: &packed, heads: n_heads, kv_heads: n_kv_heads };
            let (query, key, value) = separated(fused)?;
            return Ok((
                context.see("query", query)?,
                context.see("key", key)?,
                context.see("value", value)?,
            ));
        }
        let memory = memory.unwrap_or(x);
        Ok((
            self.project_one(context, "query", self.query.as_ref(), x, n_heads)?,
            self.project_one(context, "key", self.key.as_ref(), memory, n_kv_heads)?,
            self.project_one(context, "value", self.value.as_ref(), memory, n_kv_heads)?,
        ))
    }

    fn project_one(
        &self,
        context: &Context,
        name: &str,
        layer: Option<&Linear>,
        x: &Tensor,
        heads: usize,
    ) -> Result<Tensor> {
        let Some(layer) = layer else {
            let problem = "fused projections cannot attend to other vectors";
            return Err(Error::configuration("multi-head attention", problem));
        };
        let [batch, time, _] = x.shape()[..] else {
            let problem = format!("vectors must be (batch, time, width), got {}", x.shape());
            return Err(Error::input("multi-head attention", problem));
        };
        let projected = self.clipped(layer.forward(context, x)?)?;
        context.see(name, projected.reshape([batch, time, heads, self.config.d_head])?)
    }
}
