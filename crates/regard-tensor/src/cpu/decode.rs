//! Attention of one new token over a cache, plainly: devices that record a generation's step have kernels for it, and
//! this is what they are tested against. (On the CPU, generation uses the tiled kernel.)

use crate::array::Array;
use crate::kernels::decode::Decode;

/// Writes each text's new row (key-value heads, width) to place `at` of its cache.
pub(crate) fn append(cache: &mut Array, new: &Array, at: &[u32], sizes: Decode) {
    let row = sizes.kv_heads * sizes.width;
    let (cache, new) = (cache.slice_mut(), new.slice());
    for (text, &at) in at.iter().enumerate() {
        let start = (text * sizes.room + at as usize) * row;
        cache[start..start + row].copy_from_slice(&new[text * row..(text + 1) * row]);
    }
}

/// softmax(scale·q·Kᵀ)·V over places 0..=at of each text: (batch, heads, width).
pub(crate) fn attend(
    [query, keys, values]: [&Array; 3],
    at: &[u32],
    sink: Option<&Array>,
    sizes: Decode,
) -> Array {
    let Decode { batch, heads, kv_heads, room, width, scale, soft_cap } = sizes;
    let (query, keys, values) = (query.slice(), keys.slice(), values.slice());
    Array::build(batch * heads * width, |out| {
        for (index, out) in out.chunks_mut(width).enumerate() {
            let (text, head) = (index / heads, index % heads);
            let group = head / (heads / kv_heads);
            let row = |cache: usize| ((text * room + cache) * kv_heads + group) * width;
            let query = &query[index * width..(index + 1) * width];
            let score = |place: usize| {
                let key = &keys[row(place)..row(place) + width];
                let score = scale * query.iter().zip(key).map(|(q, k)| q * k).sum::<f32>();
                soft_cap.map_or(score, |cap| cap * (score / cap).tanh())
            };
            let scores: Vec<f32> = (0..=at[text] as usize).map(score).collect();
            let sink = sink.map_or(f32::NEG_INFINITY, |sink| sink.slice()[head]);
            let most = scores.iter().copied().fold(sink, f32::max);
            let total = scores.iter().map(|score| (score - most).exp()).sum::<f32>() + (sink - most).exp();
            out.fill(0.0);
            for (place, score) in scores.iter().enumerate() {
                let weight = (score - most).exp() / total;
                let value = &values[row(place)..row(place) + width];
                out.iter_mut().zip(value).for_each(|(out, value)| *out += weight * value);
            }
        }
    })
}
