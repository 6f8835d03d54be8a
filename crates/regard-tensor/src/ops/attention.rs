//! Attention in tiles: softmax(scale·Q·Kᵀ + bias)·V without the matrix of weights.

use super::dropout::Dropout;
use crate::array::Array;
use crate::blocks::BlockMask;
use crate::error::{Error, Result, ensure_below, ensure_shape};
use crate::ids::{Ids, Mask};
use crate::kernels::attention::{self, AttentionGradients, BiasGradient, BiasSpec, Place, Spec, Strides};
use crate::tape::Inputs;
use crate::tensor::{Tensor, ensure_same_device};
use std::ops::Range;
use std::sync::Arc;

/// Queries, keys and values of all heads.
#[derive(Debug, Clone, Copy)]
pub enum Projections<'a> {
    /// Three tensors: query (batch, queries, heads, width), key (batch, keys, key-value heads, width) and value
    /// (batch, keys, key-value heads, value width).
    Separate {
        /// The queries.
        query: &'a Tensor,
        /// The keys.
        key: &'a Tensor,
        /// The values.
        value: &'a Tensor,
    },
    /// The same, but of keys and values only the first `length` count: a cache with room to grow.
    Cached {
        /// The queries.
        query: &'a Tensor,
        /// The keys, (batch, room, key-value heads, width).
        key: &'a Tensor,
        /// The values, (batch, room, key-value heads, value width).
        value: &'a Tensor,
        /// How many keys and values there are so far.
        length: usize,
    },
    /// One tensor (batch, time, (heads + 2·key-value heads)·width) with all queries, then all keys, then all values of a
    /// position side by side, as a fused projection makes it. Nothing is copied.
    Fused {
        /// The fused projection.
        packed: &'a Tensor,
        /// The number of query heads.
        heads: usize,
        /// The number of key-value heads, which divides that of query heads.
        kv_heads: usize,
    },
}

/// Who may attend to whom: all that every part allows.
#[derive(Debug, Clone, Default)]
pub struct Allowed {
    /// Only to the same position and earlier ones. With fewer queries than keys, the last query stands at the last key.
    pub causal: bool,
    /// (batch, keys): false where a key is padding.
    pub keys: Option<Mask>,
    /// A pattern in blocks; blocks it leaves out cost nothing.
    pub blocks: Option<Arc<BlockMask>>,
}

/// What is added to the scores before the softmax.
#[derive(Debug, Clone, Default)]
pub enum Bias {
    /// Nothing.
    #[default]
    None,
    /// A value for each pair: (batch or 1, heads or 1, queries, keys).
    Dense(Tensor),
    /// −slope·|query position − key position|, a slope a head (ALiBi; Press et al., 2021).
    Slopes(Tensor),
    /// A value by distance from a table (buckets, heads), as T5 has it (Raffel et al., 2019).
    Buckets {
        /// The learned values.
        table: Tensor,
        /// The bucket of each distance: entry i is for query position − key position = i + 1 − queries, and
        /// there are queries + keys − 1 of them.
        buckets: Ids,
    },
}

/// How to attend.
#[derive(Debug, Clone)]
pub struct Attention {
    /// What the scores are multiplied with, usually 1/√width.
    pub scale: f32,
    /// Scaled products s become cap·tanh(s / cap), before the bias is added (Gemma 2).
    pub soft_cap: Option<f32>,
    /// Who may attend to whom.
    pub allowed: Allowed,
    /// What is added to the scores.
    pub bias: Bias,
    /// A logit a head that takes a share of the weight but adds nothing to the output.
    pub sink: Option<Tensor>,
    /// Dropout on the weights.
    pub dropout: Option<Dropout>,
}

impl Attention {
    /// Everyone to everyone, with the given scale and nothing else.
    pub fn scaled(scale: f32) -> Self {
        let allowed = Allowed::default();
        Self { scale, soft_cap: None, allowed, bias: Bias::None, sink: None, dropout: None }
    }

    /// The same, but not to the future.
    #[must_use]
    pub fn causal(mut self) -> Self {
        self.allowed.causal = true;
        self
    }
}

/// The result of attention.
#[derive(Clone)]
pub struct Attended {
    /// (batch, queries, heads, value width). A row that may attend to nothing is 0.
    pub output: Tensor,
    /// ln Σ e^score of each row, (batch, heads, queries); −∞ where nothing may be attended to. Carries no gradient.
    pub log_sum_exp: Tensor,
    spec: Spec,
}

impl Attended {
    /// Any block of one head's weights, computed now from queries, keys and the log-sum-exp: (queries, keys).
    ///
    /// Weights are those before dropout. Looking at them changes nothing.
    pub fn weights(
        &self,
        example: usize,
        head: usize,
        queries: Range<usize>,
        keys: Range<usize>,
    ) -> Result<Tensor> {
        ensure_below("weights", "example", example, self.spec.batch)?;
        ensure_below("weights", "head", head, self.spec.heads)?;
        ensure_below("weights", "query", queries.end, self.spec.queries + 1)?;
        ensure_below("weights", "key", keys.end, self.spec.keys + 1)?;
        let shape = [queries.len(), keys.len()];
        let lse = &self.log_sum_exp.array;
        let value = attention::weights(&self.spec, lse, &[(example, head)], queries, keys)?;
        Ok(Tensor::from_array(value, shape))
    }

    /// All weights of all heads: (batch, heads, queries, keys).
    ///
    /// # Panics
    /// If another device than the CPU has no memory for them; [`Attended::weights`] returns an error.
    pub fn all_weights(&self) -> Tensor {
        let Spec { batch, heads, queries, keys, .. } = self.spec;
        let all: Vec<_> = (0..batch * heads).map(|i| (i / heads, i % heads)).collect();
        let value = attention::weights(&self.spec, &self.log_sum_exp.array, &all, 0..queries, 0..keys);
        Tensor::from_array(value.expect("memory for all weights"), [batch, heads, queries, keys])
    }
}

/// softmax(scale·Q·Kᵀ + bias)·V over the pairs that may attend, in tiles (Dao et al., *FlashAttention*, 2022).
///
/// With weights P and delta = Σ dO∘O of each row: dV = Pᵀ·dO, dS = P∘(dO·Vᵀ − delta), dQ = scale·dS·K,
/// dK = scale·dSᵀ·Q, and the bias gets dS; a soft cap multiplies dS with 1 − tanh² on its way to Q and K. Weights are recomputed in the backward pass, never stored.
///
/// ```
/// use regard_tensor::{Tensor, ops::{Attention, Projections, attend}};
/// // One head, two positions, width 1: the second query prefers the second key by ln 3.
/// let query = Tensor::new(&[0.0, 1.0], [1, 2, 1, 1])?;
/// let key = Tensor::new(&[0.0, 3.0_f32.ln()], [1, 2, 1, 1])?;
/// let value = Tensor::new(&[1.0, 5.0], [1, 2, 1, 1])?;
/// let projections = Projections::Separate { query: &query, key: &key, value: &value };
/// let attended = attend(projections, &Attention::scaled(1.0))?;
/// let output = attended.output.to_vec();
/// assert!((output[0] - 3.0).abs() < 1e-5 && (output[1] - 4.0).abs() < 1e-5);
/// # Ok::<(), regard_tensor::Error>(())
/// ```
pub fn attend(projections: Projections, attention: &Attention) -> Result<Attended> {
    let (fused, mut parents) = match projections {
        Projections::Separate { query, key, value } | Projections::Cached { query, key, value, .. } => {
            (false, vec![query, key, value])
        }
        Projections::Fused { packed, .. } => (true, vec![packed]),
    };
    parents.extend(attention.bias.tensor());
    parents.extend(&attention.sink);
    ensure_same_device("attention", parents.iter().copied())?;
    let spec = specify(projections, attention)?;
    let (output, lse) = attention::forward(&spec)?;
    let shape = [spec.batch, spec.queries, spec.heads, spec.value_width];
    let log_sum_exp = Tensor::from_array(lse.clone(), [spec.batch, spec.heads, spec.queries]);
    let shapes: Vec<_> = parents.iter().map(|parent| parent.shape().clone()).collect();
    let (saved, kept, bias) = (spec.clone(), output.clone(), attention.bias.clone().detached());
    let output = Tensor::from_array(output, shape).with_rule(&parents, || {
        move |g: Tensor, inputs: &mut Inputs| {
            let AttentionGradients { mut projections, bias: slopes, sink } =
                attention::backward(&saved, &kept, &lse, &g.array, fused)?;
            projections.extend(bias_gradient(&saved, &bias, slopes)?);
            projections.extend(sink);
            for (input, (array, shape)) in projections.into_iter().zip(&shapes).enumerate() {
                inputs.send(input, Tensor::from_array(array, shape))?;
            }
            Ok(())
        }
    });
    Ok(Attended { output, log_sum_exp, spec })
}

impl Bias {
    /// The tensor it is computed from.
    fn tensor(&self) -> Option<&Tensor> {
        match self {
            Self::None => None,
            Self::Dense(tensor) | Self::Slopes(tensor) | Self::Buckets { table: tensor, .. } => Some(tensor),
        }
    }

    fn detached(self) -> Self {
        match self {
            Self::None => Self::None,
            Self::Dense(tensor) => Self::Dense(tensor.detach()),
            Self::Slopes(tensor) => Self::Slopes(tensor.detach()),
            Self::Buckets { table, buckets } => Self::Buckets { table: table.detach(), buckets },
        }
    }
}

/// From the gradient of the scores, by pair or distance, to that of the bias's own parameters.
fn bias_gradient(spec: &Spec, bias: &Bias, slopes: BiasGradient) -> Result<Option<Array>> {
    Ok(match (bias, slopes) {
        (Bias::Dense(_), BiasGradient::Dense(gradient)) => Some(gradient),
        (Bias::Slopes(_), BiasGradient::Distance(gradient)) => {
            Some(attention::distances_to_slopes(&gradient, spec.heads, spec.queries)?)
        }
        (Bias::Buckets { table, buckets }, BiasGradient::Distance(gradient)) => {
            let rows = table.shape()[0];
            Some(attention::distances_to_buckets(&gradient, spec.heads, buckets, rows)?)
        }
        _ => None,
    })
}

/// Checks all shapes once and gathers everything the kernels need.
fn specify(projections: Projections, attention: &Attention) -> Result<Spec> {
    let mut spec = match projections {
        Projections::Separate { query, key, value } => separate(query, key, value)?,
        Projections::Cached { query, key, value, length } => {
            let mut spec = separate(query, key, value)?;
            ensure_below("attention", "length", length, spec.keys + 1)?;
            spec.keys = length;
            spec
        }
        Projections::Fused { packed, heads, kv_heads } => fused(packed, heads, kv_heads)?,
    };
    let nothing = spec.queries == 0 || spec.keys == 0;
    ensure_shape(
        !nothing,
        "attention",
        || "at least one query and one key".into(),
        || format!("{} queries and {} keys", spec.queries, spec.keys),
    )?;
    if !attention.scale.is_finite() {
        return Err(Error::setting("attention", "scale", "finite", attention.scale));
    }
    if let Some(cap) = attention.soft_cap
        && !(cap.is_finite() && cap > 0.0)
    {
        return Err(Error::setting("attention", "soft_cap", "finite and above 0", cap));
    }
    (spec.scale, spec.soft_cap) = (attention.scale, attention.soft_cap);
    spec.causal = attention.allowed.causal;
    if let Some(mask) = &attention.allowed.keys {
        let expected = [spec.batch, spec.keys];
        ensure_shape(
            mask.shape()[..] == expected,
            "attention",
            || format!("a key mask of {expected:?}"),
            || mask.shape().to_string(),
        )?;
        spec.key_mask = Some(mask.clone());
    }
    if let Some(blocks) = &attention.allowed.blocks {
        let (batch, heads) = blocks.planes();
        let fits = blocks.lengths() == (spec.queries, spec.keys)
            && [1, spec.batch].contains(&batch)
            && [1, spec.heads].contains(&heads);
        ensure_shape(
            fits,
            "attention",
            || format!("a pattern for {} queries and {} keys", spec.queries, spec.keys),
            || format!("{:?} in {batch}×{heads} planes", blocks.lengths()),
        )?;
        spec.blocks = Some(blocks.clone());
    }
    spec.bias = specify_bias(&spec, &attention.bias)?;
    if let Some(sink) = &attention.sink {
        let fits = sink.shape()[..] == [spec.heads];
        ensure_shape(fits, "attention", || format!("{} sinks", spec.heads), || sink.shape().to_string())?;
        spec.sink = Some(sink.array.clone());
    }
    if let Some(dropout) = &attention.dropout {
        spec.dropout = dropout.draws("attention", spec.heads * spec.queries * spec.keys)?;
    }
    Ok(spec)
}

fn specify_bias(spec: &Spec, bias: &Bias) -> Result<BiasSpec> {
    let Spec { batch, heads, queries, keys, .. } = *spec;
    Ok(match bias {
        Bias::None => BiasSpec::None,
        Bias::Dense(tensor) => {
            let shape = tensor.shape();
            let fits = shape.rank() == 4
                && [1, batch].contains(&shape[0])
                && [1, heads].contains(&shape[1])
                && shape[2..] == [queries, keys];
            ensure_shape(
                fits,
                "attention",
                || format!("a bias of [1 or {batch}×1 or {heads}×{queries}×{keys}]"),
                || shape.to_string(),
            )?;
            let plane = queries * keys;
            BiasSpec::Dense {
                values: tensor.array.clone(),
                batch: if shape[0] == 1 { 0 } else { shape[1] * plane },
                head: if shape[1] == 1 { 0 } else { plane },
            }
        }
        Bias::Slopes(slopes) => {
            let fits = slopes.shape()[..] == [heads];
            ensure_shape(fits, "attention", || format!("{heads} slopes"), || slopes.shape().to_string())?;
            BiasSpec::Distance(attention::slopes_to_distances(&slopes.array, queries, keys)?)
        }
        Bias::Buckets { table, buckets } => {
            let fits = table.shape().rank() == 2 && table.shape()[1] == heads;
            ensure_shape(
                fits,
                "attention",
                || format!("a table of (buckets, {heads})"),
                || table.shape().to_string(),
            )?;
            let span = queries + keys - 1;
            let fits = buckets.count() == span;
            ensure_shape(fits, "attention", || format!("{span} buckets"), || buckets.shape().to_string())?;
            buckets.ensure_below(("attention", "id"), table.shape()[0])?;
            BiasSpec::Distance(attention::buckets_to_distances(&table.array, heads, buckets)?)
        }
    })
}

fn separate(query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Spec> {
    let (q, k, v) = (query.shape(), key.shape(), value.shape());
    let fits = q.rank() == 4
        && k.rank() == 4
        && v.rank() == 4
        && q[0] == k[0]
        && k[..3] == v[..3]
        && q[3] == k[3]
        && k[2] > 0
        && q[2] % k[2] == 0;
    ensure_shape(
        fits,
        "attention",
        || "query (B, Tq, H, D), key (B, Tk, G, D) and value (B, Tk, G, Dv) with H divisible by G".into(),
        || format!("{q}, {k} and {v}"),
    )?;
    let place = |tensor: &Tensor| {
        let shape = tensor.shape();
        let row = shape[2] * shape[3];
        let strides = Strides { start: 0, batch: shape[1] * row, head: shape[3], row };
        Place { array: tensor.array.clone(), strides }
    };
    Ok(blank([q[0], q[2], k[2], q[1], k[1], q[3], v[3]], [place(query), place(key), place(value)]))
}

fn fused(packed: &Tensor, heads: usize, kv_heads: usize) -> Result<Spec> {
    let shape = packed.shape();
    let parts = heads.saturating_add(kv_heads.saturating_mul(2));
    let fits =
        shape.rank() == 3 && kv_heads > 0 && heads.is_multiple_of(kv_heads) && shape[2].is_multiple_of(parts);
    ensure_shape(
        fits,
        "attention",
        || format!("(batch, time, width) with width divisible by {parts} heads ({heads} + 2·{kv_heads})"),
        || shape.to_string(),
    )?;
    let (batch, time, row) = (shape[0], shape[1], shape[2]);
    let width = row / parts;
    let place = |first: usize| Place {
        array: packed.array.clone(),
        strides: Strides { start: first * width, batch: time * row, head: width, row },
    };
    let places = [place(0), place(heads), place(heads + kv_heads)];
    Ok(blank([batch, heads, kv_heads, time, time, width, width], places))
}

/// A specification with its sizes and places, and no rules yet.
fn blank(sizes: [usize; 7], [query, key, value]: [Place; 3]) -> Spec {
    let [batch, heads, kv_heads, queries, keys, width, value_width] = sizes;
    Spec {
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        width,
        value_width,
        scale: 1.0,
        soft_cap: None,
        causal: false,
        query,
        key,
        value,
        key_mask: None,
        blocks: None,
        bias: BiasSpec::None,
        sink: None,
        dropout: None,
    }
}
