//! Attention of one new token a text over a cache with room: the step of a generation.

use super::memory::convert;
use super::{on_cpu, on_cpu_in_place};
use crate::array::Array;
use crate::error::Result;
use crate::ids::Ids;
use crate::storage::{DataType, Kernels};
use crate::{cpu, cuda};

/// The sizes: a query (batch, heads, width), caches (batch, room, key-value heads, width).
#[derive(Debug, Clone, Copy)]
pub struct Decode {
    /// The number of texts.
    pub batch: usize,
    /// Query heads.
    pub heads: usize,
    /// Key-value heads, which divide that of query heads.
    pub kv_heads: usize,
    /// The most keys that a cache can hold.
    pub room: usize,
    /// The width of a head.
    pub width: usize,
    /// What the scores are multiplied with.
    pub scale: f32,
    /// Scaled products s become cap·tanh(s / cap).
    pub soft_cap: Option<f32>,
}

/// Writes the new key and value of each text to place `at` of its caches, and attends to all places up to it.
pub(crate) fn decode(
    [query, key, value]: [&Array; 3],
    [keys, values]: [&mut Array; 2],
    at: &Ids,
    sink: Option<&Array>,
    sizes: Decode,
) -> Result<Array> {
    if let Kernels::Cuda = keys.kernels() {
        let data_type = keys.data_type();
        let [query, key, value] = [query, key, value].map(|x| convert(x, data_type));
        let (query, key, value) = (query?, key?, value?);
        let sink = sink.map(|sink| convert(sink, DataType::F32)).transpose()?;
        let at = at.cuda(keys.device())?;
        let new = [query.cuda()?, key.cuda()?, value.cuda()?];
        let sink = sink.as_ref().map(Array::cuda).transpose()?;
        let caches = [keys.cuda_mut()?, values.cuda_mut()?];
        return Ok(cuda::decode::decode(new, caches, at.view()?, sink, sizes)?.into());
    }
    for (cache, new) in [(&mut *keys, key), (&mut *values, value)] {
        on_cpu_in_place("decode", cache, (new, at), |cache, (new, at)| {
            cpu::decode::append(cache, new, at.slice(), sizes);
        })?;
    }
    on_cpu("decode", (query, &*keys, &*values, (at, sink)), |(query, keys, values, (at, sink))| {
        cpu::decode::attend([query, keys, values], at.slice(), sink, sizes)
    })
}
