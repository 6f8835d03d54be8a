//! Dropout: which values to keep, drawn by place.

use super::simd::dispatch;
use super::threads::{self, ELEMENTS_PER_TASK};
use crate::array::Array;
use crate::kernels::dropout::Draws;
use crate::random::{PHILOX_MULTIPLIERS, PHILOX_WEYL};
use pulp::{Simd, WithSimd};

/// Multiplies each value with 0 or `scale`, by its draw. The backward pass is the same, applied to the gradient.
pub(crate) fn apply(x: &Array, draws: Draws) -> Array {
    let x = x.slice();
    // Tasks of whole Philox blocks of four inside each example.
    let per = draws.per_example.max(1);
    Array::build(x.len(), |out| {
        let pieces = per.div_ceil(ELEMENTS_PER_TASK);
        let shared = threads::Shared::new(out);
        threads::run(x.len() / per * pieces, |task| {
            let (example, piece) = (task / pieces, task % pieces);
            let start = piece * ELEMENTS_PER_TASK;
            let len = ELEMENTS_PER_TASK.min(per - start);
            // SAFETY: each (example, piece) is its own range.
            let out = unsafe { shared.range(example * per + start, len) };
            dispatch(Apply {
                draws,
                example: draws.first_example.wrapping_add(example as u64),
                first_block: start as u64 / 4,
                x: &x[example * per + start..][..len],
                out,
            });
        });
    })
}

struct Apply<'a> {
    draws: Draws,
    example: u64,
    first_block: u64,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Apply<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { draws, example, first_block, x, out } = self;
        for (group, (x, out)) in x.chunks(4 * WIDE).zip(out.chunks_mut(4 * WIDE)).enumerate() {
            let first = first_block + (group * WIDE) as u64;
            let blocks: [u64; WIDE] = std::array::from_fn(|lane| first + lane as u64);
            let words = philox_wide(draws.key.halves(), example, blocks);
            for (i, (x, out)) in x.iter().zip(out).enumerate() {
                *out = if words[i % 4][i / 4] >= draws.threshold { x * draws.scale } else { 0.0 };
            }
        }
    }
}

/// How many Philox blocks run side by side.
pub(crate) const WIDE: usize = 16;

/// [`Key::words`] for 16 blocks of one example at once: word `w` of block `b` is at `[w][b]`.
///
/// Written over arrays so that the compiler turns each line into vector instructions where it is inlined.
#[inline(always)]
pub(crate) fn philox_wide(key: [u32; 2], example: u64, blocks: [u64; WIDE]) -> [[u32; WIDE]; 4] {
    let mut c0: [u32; WIDE] = blocks.map(|block| block as u32);
    let mut c1: [u32; WIDE] = blocks.map(|block| (block >> 32) as u32);
    let mut c2 = [example as u32; WIDE];
    let mut c3 = [(example >> 32) as u32; WIDE];
    let mut key = key;
    for _ in 0..10 {
        for lane in 0..WIDE {
            let a = u64::from(PHILOX_MULTIPLIERS[0]) * u64::from(c0[lane]);
            let b = u64::from(PHILOX_MULTIPLIERS[1]) * u64::from(c2[lane]);
            c0[lane] = (b >> 32) as u32 ^ c1[lane] ^ key[0];
            c1[lane] = b as u32;
            c2[lane] = (a >> 32) as u32 ^ c3[lane] ^ key[1];
            c3[lane] = a as u32;
        }
        key = [key[0].wrapping_add(PHILOX_WEYL[0]), key[1].wrapping_add(PHILOX_WEYL[1])];
    }
    [c0, c1, c2, c3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Key;

    #[test]
    fn wide_draws_equal_single_ones() {
        let key = Key::new(5).site("x");
        let blocks = std::array::from_fn(|i| (1 << 33) + 3 * i as u64);
        let words = philox_wide(key.halves(), 77, blocks);
        for (lane, &block) in blocks.iter().enumerate() {
            let single = key.words(77, block);
            assert_eq!(single, std::array::from_fn(|w| words[w][lane]));
        }
    }
}
