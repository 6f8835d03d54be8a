//! Biases by distance: from slopes or buckets to a value for each distance, and back.

use crate::array::Array;

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
