//! Attention in tiles: softmax(scale·Q·Kᵀ + bias)·V without the matrix of weights.

use super::dropout::Draws;
use super::{Moves, Operand, moves, on_cpu};
use crate::array::Array;
use crate::blocks::BlockMask;
use crate::error::Result;
use crate::ids::{Ids, Mask};
use crate::storage::{Device, Kernels};
use crate::{cpu, cuda};
use std::ops::Range;
use std::sync::Arc;

/// Where heads lie in an array: value (example, head, time, feature) is at
/// `start + example·batch + head·head + time·row + feature`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strides {
    pub start: usize,
    pub batch: usize,
    pub head: usize,
    pub row: usize,
}

impl Strides {
    pub fn at(self, example: usize, head: usize, time: usize) -> usize {
        self.start + example * self.batch + head * self.head + time * self.row
    }

    /// The last place any of these heads touches, plus one.
    pub fn end(self, [batch, heads, times, width]: [usize; 4]) -> usize {
        if batch * heads * times * width == 0 { 0 } else { self.at(batch - 1, heads - 1, times - 1) + width }
    }
}

/// An array and where heads lie in it.
#[derive(Clone)]
pub(crate) struct Place {
    pub array: Array,
    pub strides: Strides,
}

/// What is added to the scores.
#[derive(Clone)]
pub(crate) enum BiasSpec {
    None,
    /// A value for each pair; strides of 0 share it between examples or heads.
    Dense {
        values: Array,
        batch: usize,
        head: usize,
    },
    /// A value for each head and distance: (heads, queries + keys − 1), at query − key + keys − 1.
    Distance(Array),
}

/// The whole of an attention: arrays, sizes and rules in one value that outlives the forward pass.
#[derive(Clone)]
pub(crate) struct Spec {
    pub batch: usize,
    pub heads: usize,
    /// Key and value heads; each serves `heads / kv_heads` query heads.
    pub kv_heads: usize,
    pub queries: usize,
    pub keys: usize,
    pub width: usize,
    pub value_width: usize,
    pub scale: f32,
    /// Scaled products s become cap·tanh(s / cap), before the bias is added.
    pub soft_cap: Option<f32>,
    pub causal: bool,
    pub query: Place,
    pub key: Place,
    pub value: Place,
    /// (batch, keys): false for padding.
    pub key_mask: Option<Mask>,
    pub blocks: Option<Arc<BlockMask>>,
    pub bias: BiasSpec,
    /// A logit a head that takes weight but has no value.
    pub sink: Option<Array>,
    pub dropout: Option<Draws>,
}

impl Operand for Spec {
    fn device(&self) -> Device {
        self.query.array.device()
    }

    fn is_ready(&self) -> bool {
        let bias = match &self.bias {
            BiasSpec::None => None,
            BiasSpec::Dense { values, .. } | BiasSpec::Distance(values) => Some(values),
        };
        let places = [&self.query.array, &self.key.array, &self.value.array];
        places.into_iter().chain(bias).chain(&self.sink).all(Array::is_ready)
            && self.key_mask.as_ref().is_none_or(Mask::is_ready)
    }

    fn to_host(&self) -> Self {
        let query = self.query.array.to_host();
        let place = |place: &Place| {
            // Parts of a fused projection stay one array.
            let fused = place.array.is_same(&self.query.array);
            let array = if fused { query.clone() } else { place.array.to_host() };
            Place { array, strides: place.strides }
        };
        let bias = match &self.bias {
            BiasSpec::None => BiasSpec::None,
            &BiasSpec::Dense { ref values, batch, head } => {
                BiasSpec::Dense { values: values.to_host(), batch, head }
            }
            BiasSpec::Distance(values) => BiasSpec::Distance(values.to_host()),
        };
        Self {
            query: place(&self.query),
            key: place(&self.key),
            value: place(&self.value),
            key_mask: self.key_mask.as_ref().map(Mask::to_host),
            bias,
            sink: self.sink.as_ref().map(Array::to_host),
            ..self.clone()
        }
    }
}

/// Gradients of the scores themselves, in the form of the bias.
pub(crate) enum BiasGradient {
    None,
    /// For each (example, head) whose values were not shared, else for the planes of the bias.
    Dense(Array),
    /// (heads, queries + keys − 1).
    Distance(Array),
}

impl Moves for BiasGradient {
    fn moved(self, device: Device) -> Result<Self> {
        Ok(match self {
            Self::None => Self::None,
            Self::Dense(array) => Self::Dense(array.moved(device)?),
            Self::Distance(array) => Self::Distance(array.moved(device)?),
        })
    }
}

/// Gradients of everything an attention was computed from.
pub(crate) struct AttentionGradients {
    /// Of query, key and value, or of the one array that holds all three.
    pub projections: Vec<Array>,
    pub bias: BiasGradient,
    pub sink: Option<Array>,
}

moves!(AttentionGradients { projections, bias, sink });

/// The output (batch, queries, heads, value width) and each row's log-sum-exp (batch, heads, queries).
pub(crate) fn forward(spec: &Spec) -> Result<(Array, Array)> {
    match spec.query.array.kernels() {
        Kernels::Cuda if cuda::attention::takes(spec) => cuda::attention::forward(spec),
        Kernels::Cpu | Kernels::Cuda => on_cpu("attention", spec, cpu::attention::forward),
    }
}

/// All gradients; `fused` if query, key and value are parts of one array.
pub(crate) fn backward(
    spec: &Spec,
    output: &Array,
    lse: &Array,
    upstream: &Array,
    fused: bool,
) -> Result<AttentionGradients> {
    match spec.query.array.kernels() {
        Kernels::Cuda if cuda::attention::takes(spec) => {
            cuda::attention::backward(spec, output, lse, upstream, fused)
        }
        Kernels::Cpu | Kernels::Cuda => {
            let operands = (spec, output, lse, upstream);
            on_cpu("attention_gradient", operands, |(spec, output, lse, upstream)| {
                cpu::attention::backward(spec, output, lse, upstream, fused)
            })
        }
    }
}

/// A block of the weights of some heads, (example, head) each: (heads named, queries, keys).
pub(crate) fn weights(
    spec: &Spec,
    lse: &Array,
    heads: &[(usize, usize)],
    queries: Range<usize>,
    keys: Range<usize>,
) -> Result<Array> {
    match spec.query.array.kernels() {
        Kernels::Cuda if cuda::attention::takes(spec) => {
            cuda::attention::weights(spec, lse, heads, queries, keys)
        }
        Kernels::Cpu | Kernels::Cuda => on_cpu("attention_weights", (spec, lse), |(spec, lse)| {
            cpu::attention::weights(spec, lse, heads, queries, keys)
        }),
    }
}

/// One value for each distance from one slope a head: −slope·|distance| (ALiBi).
pub(crate) fn slopes_to_distances(slopes: &Array, queries: usize, keys: usize) -> Result<Array> {
    match slopes.kernels() {
        Kernels::Cuda => cuda::distances::from_slopes(slopes, queries, keys),
        Kernels::Cpu => on_cpu("slopes_to_distances", slopes, |slopes| {
            cpu::attention::slopes_to_distances(slopes, queries, keys)
        }),
    }
}

/// The gradient of [`slopes_to_distances`].
pub(crate) fn distances_to_slopes(gradient: &Array, heads: usize, queries: usize) -> Result<Array> {
    match gradient.kernels() {
        Kernels::Cuda => cuda::distances::to_slopes(gradient, heads, queries),
        Kernels::Cpu => on_cpu("distances_to_slopes", gradient, |gradient| {
            cpu::attention::distances_to_slopes(gradient, heads, queries)
        }),
    }
}

/// One value for each distance from a table (buckets, heads) and each distance's bucket (T5).
pub(crate) fn buckets_to_distances(table: &Array, heads: usize, buckets: &Ids) -> Result<Array> {
    match table.kernels() {
        Kernels::Cuda => cuda::distances::from_buckets(table, heads, buckets),
        Kernels::Cpu => on_cpu("buckets_to_distances", (table, buckets), |(table, buckets)| {
            cpu::attention::buckets_to_distances(table, heads, buckets.slice())
        }),
    }
}

/// The gradient of [`buckets_to_distances`], summed in the order of the distances.
pub(crate) fn distances_to_buckets(
    gradient: &Array,
    heads: usize,
    buckets: &Ids,
    rows: usize,
) -> Result<Array> {
    match gradient.kernels() {
        Kernels::Cuda => cuda::distances::to_buckets(gradient, heads, buckets, rows),
        Kernels::Cpu => on_cpu("distances_to_buckets", (gradient, buckets), |(gradient, buckets)| {
            cpu::attention::distances_to_buckets(gradient, heads, buckets.slice(), rows)
        }),
    }
}
