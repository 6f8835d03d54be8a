//! Attention in tiles: softmax(scale·Q·Kᵀ + bias)·V without the matrix of weights.

use super::dropout::Draws;
use super::fallback::moves;
use super::{Moves, on_cpu};
use crate::array::Array;
use crate::blocks::BlockMask;
use crate::cpu;
use crate::error::Result;
use crate::ids::{Ids, Mask};
use crate::storage::Device;
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

impl Spec {
    /// Every array of it.
    fn arrays(&self) -> impl Iterator<Item = &Array> {
        let bias = match &self.bias {
            BiasSpec::None => None,
            BiasSpec::Dense { values, .. } | BiasSpec::Distance(values) => Some(values),
        };
        [&self.query.array, &self.key.array, &self.value.array].into_iter().chain(bias).chain(&self.sink)
    }

    /// The same with each array replaced.
    fn with_arrays(&self, mut replace: impl FnMut(&Array) -> Result<Array>) -> Result<Self> {
        let query = replace(&self.query.array)?;
        // Parts of a fused projection stay one array.
        let mut beside = |array: &Array| {
            if array.is_same(&self.query.array) { Ok(query.clone()) } else { replace(array) }
        };
        let (key, value) = (beside(&self.key.array)?, beside(&self.value.array)?);
        let bias = match &self.bias {
            BiasSpec::None => BiasSpec::None,
            &BiasSpec::Dense { ref values, batch, head } => {
                BiasSpec::Dense { values: replace(values)?, batch, head }
            }
            BiasSpec::Distance(values) => BiasSpec::Distance(replace(values)?),
        };
        Ok(Self {
            query: Place { array: query, strides: self.query.strides },
            key: Place { array: key, strides: self.key.strides },
            value: Place { array: value, strides: self.value.strides },
            bias,
            sink: self.sink.as_ref().map(replace).transpose()?,
            ..self.clone()
        })
    }
}

impl Moves for Spec {
    fn device(&self) -> Device {
        self.query.array.device()
    }

    fn is_ready(&self) -> bool {
        self.arrays().all(Array::is_ready)
    }

    fn to_host(&self) -> Self {
        self.with_arrays(|array| Ok(array.to_host())).expect("reading to the host does not fail")
    }

    fn moved(self, device: Device) -> Result<Self> {
        self.with_arrays(|array| array.to_device(device))
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

impl BiasGradient {
    fn array(&self) -> Option<&Array> {
        match self {
            Self::None => None,
            Self::Dense(array) | Self::Distance(array) => Some(array),
        }
    }
}

impl Moves for BiasGradient {
    fn device(&self) -> Device {
        self.array().map_or(Device::Cpu, Array::device)
    }

    fn is_ready(&self) -> bool {
        self.array().is_none_or(Array::is_ready)
    }

    fn to_host(&self) -> Self {
        match self {
            Self::None => Self::None,
            Self::Dense(array) => Self::Dense(array.to_host()),
            Self::Distance(array) => Self::Distance(array.to_host()),
        }
    }

    fn moved(self, device: Device) -> Result<Self> {
        Ok(match self {
            Self::None => Self::None,
            Self::Dense(array) => Self::Dense(array.to_device(device)?),
            Self::Distance(array) => Self::Distance(array.to_device(device)?),
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
    match spec.device() {
        Device::Cpu | Device::Apart => on_cpu("attention", spec, cpu::attention::forward),
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
    match spec.device() {
        Device::Cpu | Device::Apart => {
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
    match spec.device() {
        Device::Cpu | Device::Apart => on_cpu("attention_weights", (spec, lse), |(spec, lse)| {
            cpu::attention::weights(spec, lse, heads, queries, keys)
        }),
    }
}

/// One value for each distance from one slope a head: −slope·|distance| (ALiBi).
pub(crate) fn slopes_to_distances(slopes: &Array, queries: usize, keys: usize) -> Result<Array> {
    match slopes.device() {
        Device::Cpu | Device::Apart => on_cpu("slopes_to_distances", slopes, |slopes| {
            cpu::attention::slopes_to_distances(slopes, queries, keys)
        }),
    }
}

/// The gradient of [`slopes_to_distances`].
pub(crate) fn distances_to_slopes(gradient: &Array, heads: usize, queries: usize) -> Result<Array> {
    match gradient.device() {
        Device::Cpu | Device::Apart => on_cpu("distances_to_slopes", gradient, |gradient| {
            cpu::attention::distances_to_slopes(gradient, heads, queries)
        }),
    }
}

/// One value for each distance from a table (buckets, heads) and each distance's bucket (T5).
pub(crate) fn buckets_to_distances(table: &Array, heads: usize, buckets: &Ids) -> Result<Array> {
    match table.device() {
        Device::Cpu | Device::Apart => {
            on_cpu("buckets_to_distances", (table, buckets), |(table, buckets)| {
                cpu::attention::buckets_to_distances(table, heads, buckets.slice())
            })
        }
    }
}

/// The gradient of [`buckets_to_distances`], summed in the order of the distances.
pub(crate) fn distances_to_buckets(
    gradient: &Array,
    heads: usize,
    buckets: &Ids,
    rows: usize,
) -> Result<Array> {
    match gradient.device() {
        Device::Cpu | Device::Apart => {
            on_cpu("distances_to_buckets", (gradient, buckets), |(gradient, buckets)| {
                cpu::attention::distances_to_buckets(gradient, heads, buckets.slice(), rows)
            })
        }
    }
}
