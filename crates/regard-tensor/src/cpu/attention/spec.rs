//! Attention as the operations ask for it: arrays, sizes and rules in one value that outlives the forward pass.

use super::backward::{self, GradientPlaces};
use super::{Bias, BiasGradient, Heads, Problem, Strides, forward, weights};
use crate::array::Array;
use crate::blocks::BlockMask;
use crate::cpu::dropout::Draws;
use crate::cpu::threads::Shared;
use crate::ids::Mask;
use crate::pool::Buffer;
use std::ops::Range;
use std::sync::Arc;

/// An array and where heads lie in it.
#[derive(Clone)]
pub(crate) struct Place {
    pub array: Array,
    pub strides: Strides,
}

impl Place {
    fn heads(&self) -> Heads<'_> {
        Heads { values: self.array.slice(), strides: self.strides }
    }
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
    /// (heads, queries + keys − 1): see [`Bias::Distance`].
    Distance(Array),
}

/// The whole of an attention.
#[derive(Clone)]
pub(crate) struct Spec {
    pub batch: usize,
    pub heads: usize,
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
    pub key_mask: Option<Mask>,
    pub blocks: Option<Arc<BlockMask>>,
    pub bias: BiasSpec,
    pub sink: Option<Array>,
    pub dropout: Option<Draws>,
}

/// Gradients of everything an attention was computed from.
pub(crate) struct AttentionGradients {
    /// Of query, key and value, or of the one array that holds all three.
    pub projections: Vec<Array>,
    pub bias: BiasGradient,
    pub sink: Option<Array>,
}

impl Spec {
    fn problem(&self) -> Problem<'_> {
        Problem {
            batch: self.batch,
            heads: self.heads,
            kv_heads: self.kv_heads,
            queries: self.queries,
            keys: self.keys,
            width: self.width,
            value_width: self.value_width,
            scale: self.scale,
            causal: self.causal,
            key_mask: self.key_mask.as_ref().map(Mask::values),
            blocks: self.blocks.as_deref(),
            bias: match &self.bias {
                BiasSpec::None => Bias::None,
                BiasSpec::Dense { values, batch, head } => {
                    Bias::Dense { values: values.slice(), batch: *batch, head: *head }
                }
                BiasSpec::Distance(values) => Bias::Distance(values.slice()),
            },
            sink: self.sink.as_ref().map(Array::slice),
            dropout: self.dropout,
        }
    }

    /// Panics unless all heads lie inside their arrays: the promise the kernels' pointers rest on.
    fn check(&self) {
        let Self { batch, heads, kv_heads, queries, keys, width, value_width, .. } = *self;
        let fits = |place: &Place, sizes| place.strides.end(sizes) <= place.array.len();
        assert!(kv_heads > 0 && heads % kv_heads == 0 && keys > 0 && queries > 0);
        assert!(fits(&self.query, [batch, heads, queries, width]));
        assert!(fits(&self.key, [batch, kv_heads, keys, width]));
        assert!(fits(&self.value, [batch, kv_heads, keys, value_width]));
    }

    /// The output (batch, queries, heads, value width) and each row's log-sum-exp (batch, heads, queries).
    pub fn forward(&self) -> (Array, Array) {
        self.check();
        forward::forward(&self.problem(), self.query.heads(), self.key.heads(), self.value.heads())
    }

    /// All gradients; `fused` if query, key and value are parts of one array.
    pub fn backward(&self, output: &Array, lse: &Array, upstream: &Array, fused: bool) -> AttentionGradients {
        let heads = (self.query.heads(), self.key.heads(), self.value.heads());
        let saved = (output.slice(), lse.slice(), upstream.slice());
        let places = [&self.query, &self.key, &self.value];
        // Every place of a fused array belongs to a query, key or value, so none needs to be zeroed first; an array
        // with room for more keys than there are does.
        let keys = [self.queries, self.keys, self.keys];
        let room = |(place, rows): (&&Place, usize)| {
            let full = place.array.len() == self.batch * rows * place.strides.row;
            if full { Buffer::dirty(place.array.len()) } else { Buffer::zeros(place.array.len()) }
        };
        let mut buffers: Vec<Buffer> = if fused {
            vec![Buffer::dirty(self.query.array.len())]
        } else {
            places.iter().zip(keys).map(room).collect()
        };
        let shared: Vec<Shared<f32>> =
            buffers.iter_mut().map(|buffer| Shared::new(buffer.as_mut_slice())).collect();
        let place = |i: usize| (&shared[if fused { 0 } else { i }], places[i].strides);
        let targets = GradientPlaces { query: place(0), key: place(1), value: place(2) };
        let (bias, sink) = backward::backward(&self.problem(), heads, saved, &targets);
        AttentionGradients { projections: buffers.into_iter().map(Array::from_buffer).collect(), bias, sink }
    }

    /// A block of the weights of some heads, (example, head) each: (heads named, queries, keys).
    pub fn weights(
        &self,
        lse: &Array,
        heads: &[(usize, usize)],
        queries: Range<usize>,
        keys: Range<usize>,
    ) -> Array {
        let sources = (self.query.heads(), self.key.heads(), lse.slice());
        weights::weights(&self.problem(), sources, heads, queries, keys)
    }
}

/// One value for each distance from one slope a head: −slope·|distance| (ALiBi).
pub(crate) fn slopes_to_distances(slopes: &Array, queries: usize, keys: usize) -> Array {
    let span = queries + keys - 1;
    Array::build(slopes.len() * span, |out| {
        for (out, slope) in out.chunks_mut(span).zip(slopes.slice()) {
            for (i, out) in out.iter_mut().enumerate() {
                *out = -slope * (i + 1).abs_diff(queries) as f32;
            }
        }
    })
}

/// The gradient of [`slopes_to_distances`].
pub(crate) fn distances_to_slopes(gradient: &Array, heads: usize, queries: usize) -> Array {
    let span = gradient.len() / heads.max(1);
    Array::build(heads, |out| {
        for (out, gradient) in out.iter_mut().zip(gradient.slice().chunks(span.max(1))) {
            let terms =
                gradient.iter().enumerate().map(|(i, g)| f64::from(-g) * (i + 1).abs_diff(queries) as f64);
            *out = terms.sum::<f64>() as f32;
        }
    })
}

/// One value for each distance from a table (buckets, heads) and each distance's bucket (T5).
pub(crate) fn buckets_to_distances(table: &Array, heads: usize, buckets: &[u32]) -> Array {
    let table = table.slice();
    Array::build(heads * buckets.len(), |out| {
        for (head, out) in out.chunks_mut(buckets.len().max(1)).enumerate() {
            for (out, &bucket) in out.iter_mut().zip(buckets) {
                *out = table[bucket as usize * heads + head];
            }
        }
    })
}

/// The gradient of [`buckets_to_distances`], summed in the order of the distances.
pub(crate) fn distances_to_buckets(gradient: &Array, heads: usize, buckets: &[u32], rows: usize) -> Array {
    let mut table = Array::zeros(rows * heads);
    let out = table.slice_mut();
    for (head, gradient) in gradient.slice().chunks(buckets.len().max(1)).enumerate() {
        for (g, &bucket) in gradient.iter().zip(buckets) {
            out[bucket as usize * heads + head] += g;
        }
    }
    table
}
