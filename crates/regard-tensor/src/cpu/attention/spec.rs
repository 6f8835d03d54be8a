//! Attention as the boundary describes it, turned into what the kernels read.

use super::backward::GradientPlaces;
use super::soft_cap::SoftCap;
use super::{Bias, Heads, Problem};
use crate::array::Array;
use crate::cpu::threads::Shared;
use crate::ids::Mask;
use crate::kernels::attention::{AttentionGradients, BiasSpec, Place, Spec};
use crate::pool::Buffer;
use std::ops::Range;

/// The heads of a place, to read.
fn heads_of(place: &Place) -> Heads<'_> {
    Heads { values: place.array.slice(), strides: place.strides }
}

/// Sizes and rules as the kernels read them.
fn problem(spec: &Spec) -> Problem<'_> {
    Problem {
        batch: spec.batch,
        heads: spec.heads,
        kv_heads: spec.kv_heads,
        queries: spec.queries,
        keys: spec.keys,
        width: spec.width,
        value_width: spec.value_width,
        scale: spec.scale,
        cap: spec.soft_cap.map(SoftCap::new),
        causal: spec.causal,
        key_mask: spec.key_mask.as_ref().map(Mask::values),
        blocks: spec.blocks.as_deref(),
        bias: match &spec.bias {
            BiasSpec::None => Bias::None,
            BiasSpec::Dense { values, batch, head } => {
                Bias::Dense { values: values.slice(), batch: *batch, head: *head }
            }
            BiasSpec::Distance(values) => Bias::Distance(values.slice()),
        },
        sink: spec.sink.as_ref().map(Array::slice),
        dropout: spec.dropout,
    }
}

/// Panics unless all heads lie inside their arrays: the promise the kernels' pointers rest on.
fn check(spec: &Spec) {
    let Spec { batch, heads, kv_heads, queries, keys, width, value_width, .. } = *spec;
    let fits = |place: &Place, sizes| place.strides.end(sizes) <= place.array.len();
    assert!(kv_heads > 0 && heads % kv_heads == 0 && keys > 0 && queries > 0);
    assert!(fits(&spec.query, [batch, heads, queries, width]));
    assert!(fits(&spec.key, [batch, kv_heads, keys, width]));
    assert!(fits(&spec.value, [batch, kv_heads, keys, value_width]));
}

/// The output (batch, queries, heads, value width) and each row's log-sum-exp (batch, heads, queries).
pub(crate) fn forward(spec: &Spec) -> (Array, Array) {
    check(spec);
    super::forward::forward(&problem(spec), heads_of(&spec.query), heads_of(&spec.key), heads_of(&spec.value))
}

/// All gradients; `fused` if query, key and value are parts of one array.
pub(crate) fn backward(
    spec: &Spec,
    output: &Array,
    lse: &Array,
    upstream: &Array,
    fused: bool,
) -> AttentionGradients {
    let heads = (heads_of(&spec.query), heads_of(&spec.key), heads_of(&spec.value));
    let saved = (output.slice(), lse.slice(), upstream.slice());
    let places = [&spec.query, &spec.key, &spec.value];
    // Every place of a fused array belongs to a query, key or value, so none needs to be zeroed first; an array
    // with room for more keys than there are does, and so does every array if there is nothing to attend.
    let keys = [spec.queries, spec.keys, spec.keys];
    let room = |(place, rows): (&&Place, usize)| {
        let full =
            spec.queries * spec.heads > 0 && place.array.len() == spec.batch * rows * place.strides.row;
        if full { Buffer::dirty(place.array.len()) } else { Buffer::zeros(place.array.len()) }
    };
    let mut buffers: Vec<Buffer> = if fused {
        vec![Buffer::dirty(spec.query.array.len())]
    } else {
        places.iter().zip(keys).map(room).collect()
    };
    let shared: Vec<Shared<f32>> =
        buffers.iter_mut().map(|buffer| Shared::new(buffer.as_mut_slice())).collect();
    let place = |i: usize| (&shared[if fused { 0 } else { i }], places[i].strides);
    let targets = GradientPlaces { query: place(0), key: place(1), value: place(2) };
    let (bias, sink) = super::backward::backward(&problem(spec), heads, saved, &targets);
    AttentionGradients { projections: buffers.into_iter().map(Array::from_buffer).collect(), bias, sink }
}

/// A block of the weights of some heads, (example, head) each: (heads named, queries, keys).
pub(crate) fn weights(
    spec: &Spec,
    lse: &Array,
    heads: &[(usize, usize)],
    queries: Range<usize>,
    keys: Range<usize>,
) -> Array {
    let sources = (heads_of(&spec.query), heads_of(&spec.key), lse.slice());
    super::weights::weights(&problem(spec), sources, heads, queries, keys)
}
