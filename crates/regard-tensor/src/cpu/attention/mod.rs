//! Attention in tiles, without ever holding the matrix of weights (Dao et al., *FlashAttention*, 2022).
//!
//! 64 queries lie in vector lanes. For a tile of 64 keys, the transposed scores Sᵀ = K·Qᵀ come out with a query in each
//! lane, so that maximum, sum, rescaling and log-sum-exp are vertical operations without a single shuffle. The
//! backward pass recomputes the weights from the log-sum-exp; its five products have the same form:
//!
//! ```text
//! Pᵀ = 2^(K·Qᵀ − lse)     dPᵀ = V·dOᵀ − delta     dSᵀ = Pᵀ ∘ dPᵀ        lanes are queries
//! dV += Pᵀ·dO             dK += dSᵀ·Q                                   lanes are features
//! dQᵀ += Kᵀ·dSᵀ                                                          lanes are queries
//! ```
//!
//! Scores are kept in units of log₂ (scale·log₂e is folded into Q), so that a weight is one `exp2`.

mod backward;
mod bias_gradient;
mod close;
mod distances;
mod forward;
mod soft_cap;
mod spec;
mod weights;

pub(crate) use distances::{
    buckets_to_distances, distances_to_buckets, distances_to_slopes, slopes_to_distances,
};
pub(crate) use spec::{backward, forward, weights};

use super::dropout::{WIDE, philox_wide};
use super::threads::Shared;
use crate::blocks::{BLOCK, BlockMask};
use crate::kernels::attention::Strides;
use crate::kernels::dropout::Draws;
use soft_cap::SoftCap;
use std::f32::consts::LOG2_E;

/// Values with heads in them.
#[derive(Clone, Copy)]
struct Heads<'a> {
    values: &'a [f32],
    strides: Strides,
}

/// The rows of one head.
#[derive(Clone, Copy)]
struct Rows<'a> {
    values: &'a [f32],
    row: usize,
}

impl<'a> Rows<'a> {
    fn from(self, time: usize) -> &'a [f32] {
        &self.values[time * self.row..]
    }
}

impl<'a> Heads<'a> {
    /// Features of one head from a given time on.
    fn from(self, example: usize, head: usize, time: usize) -> &'a [f32] {
        &self.values[self.strides.at(example, head, time)..]
    }
}

/// What is added to the scores.
#[derive(Clone, Copy)]
enum Bias<'a> {
    None,
    /// A value for each pair; strides of 0 share it between examples or heads.
    Dense {
        values: &'a [f32],
        batch: usize,
        head: usize,
    },
    /// A value for each head and distance: (heads, queries + keys − 1), at query − key + keys − 1.
    Distance(&'a [f32]),
}

/// The sizes and rules of an attention.
#[derive(Clone, Copy)]
struct Problem<'a> {
    batch: usize,
    heads: usize,
    /// Key and value heads; each serves `heads / kv_heads` query heads.
    kv_heads: usize,
    queries: usize,
    keys: usize,
    width: usize,
    value_width: usize,
    scale: f32,
    cap: Option<SoftCap>,
    causal: bool,
    /// (batch, keys): false for padding.
    key_mask: Option<&'a [bool]>,
    blocks: Option<&'a BlockMask>,
    bias: Bias<'a>,
    /// A logit a head that takes weight but has no value.
    sink: Option<&'a [f32]>,
    dropout: Option<Draws>,
}

/// A tile of keys that some query of a tile may attend to.
#[derive(Clone, Copy)]
struct KeyTile<'a> {
    start: usize,
    len: usize,
    bits: Option<&'a [u64; BLOCK]>,
}

/// Keys on the diagonal of causal attention are taken in groups of this many, to skip what lies in the future.
const GROUP: usize = 16;

/// Some keys of a tile, and the first query lane that may see any of them.
#[derive(Clone, Copy, Default)]
struct Group {
    start: usize,
    len: usize,
    first: usize,
}

struct Groups {
    all: [Group; BLOCK / GROUP],
    count: usize,
}

impl Groups {
    fn get(&self) -> &[Group] {
        &self.all[..self.count]
    }
}

impl<'a> Problem<'a> {
    /// Query `i` and key `i + offset` stand at the same position.
    fn offset(&self) -> isize {
        self.keys as isize - self.queries as isize
    }

    fn query_tiles(&self) -> usize {
        self.queries.div_ceil(BLOCK)
    }

    fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// The key tiles that a query tile looks at, empty and future ones left out.
    fn key_tiles(&self, example: usize, head: usize, query_tile: usize) -> Vec<KeyTile<'a>> {
        let last_query = ((query_tile + 1) * BLOCK).min(self.queries) as isize - 1;
        let end = if self.causal {
            (last_query + self.offset() + 1).clamp(0, self.keys as isize) as usize
        } else {
            self.keys
        };
        let tile = |key_block: usize, bits| {
            let start = key_block * BLOCK;
            KeyTile { start, len: BLOCK.min(end - start), bits }
        };
        let mut tiles: Vec<KeyTile> = match self.blocks {
            None => (0..end.div_ceil(BLOCK)).map(|key_block| tile(key_block, None)).collect(),
            Some(blocks) => blocks
                .row(example, head, query_tile)
                .iter()
                .filter(|block| (block.key_block as usize) * BLOCK < end)
                .map(|&block| tile(block.key_block as usize, blocks.bits(block)))
                .collect(),
        };
        if let Some(mask) = self.key_mask {
            let mask = &mask[example * self.keys..(example + 1) * self.keys];
            tiles.retain(|tile| mask[tile.start..tile.start + tile.len].contains(&true));
        }
        tiles
    }

    /// Cuts a tile of keys into groups, each with the first query lane (a multiple of `step`) that any of its keys is
    /// visible to; groups visible to none of the first `lanes` are left out. Tiles wholly in the past are one group.
    fn groups(&self, query_start: usize, tile: KeyTile, step: usize, lanes: usize) -> Groups {
        let mut groups = Groups { all: [Group::default(); BLOCK / GROUP], count: 0 };
        let size =
            if self.first_visible(query_start, tile.start + tile.len - 1) == 0 { BLOCK } else { GROUP };
        for start in (0..tile.len).step_by(size) {
            let first = self.first_visible(query_start, tile.start + start) / step * step;
            if first < lanes {
                groups.all[groups.count] = Group { start, len: size.min(tile.len - start), first };
                groups.count += 1;
            }
        }
        groups
    }

    /// The first lane of a query tile that may look back at a key; 0 without causality.
    fn first_visible(&self, query_start: usize, key: usize) -> usize {
        if self.causal { (key as isize - self.offset() - query_start as isize).max(0) as usize } else { 0 }
    }

    /// Adds the bias to a tile of transposed scores (rows of 64 queries), in units of log₂.
    fn add_bias(&self, scores: &mut [f32], at: TileAt) {
        let TileAt { example, head, query_start, n_queries, tile } = at;
        match self.bias {
            Bias::None => {}
            Bias::Distance(values) => {
                let span = self.queries + self.keys - 1;
                let values = &values[head * span..(head + 1) * span];
                for (i, row) in scores.chunks_mut(BLOCK).take(tile.len).enumerate() {
                    let first = query_start + self.keys - 1 - (tile.start + i);
                    for (score, bias) in row[..n_queries].iter_mut().zip(&values[first..]) {
                        *score += bias * LOG2_E;
                    }
                }
            }
            Bias::Dense { values, batch, head: head_stride } => {
                let plane = &values[example * batch + head * head_stride..];
                for query in 0..n_queries {
                    let row = &plane[(query_start + query) * self.keys + tile.start..][..tile.len];
                    for (key, bias) in row.iter().enumerate() {
                        scores[key * BLOCK + query] += bias * LOG2_E;
                    }
                }
            }
        }
    }

    /// Sets the scores of pairs that may not attend to −∞.
    fn exclude(&self, scores: &mut [f32], at: TileAt) {
        let TileAt { example, query_start, tile, .. } = at;
        let key_mask = self.key_mask.map(|mask| &mask[example * self.keys + tile.start..][..tile.len]);
        let all_visible = self.first_visible(query_start, tile.start + tile.len - 1) == 0;
        if all_visible && key_mask.is_none() && tile.bits.is_none() {
            return;
        }
        for (i, row) in scores.chunks_mut(BLOCK).take(tile.len).enumerate() {
            let hidden = self.first_visible(query_start, tile.start + i).min(BLOCK);
            row[..hidden].fill(f32::NEG_INFINITY);
            if key_mask.is_some_and(|mask| !mask[i]) {
                row.fill(f32::NEG_INFINITY);
            } else if let Some(bits) = tile.bits {
                for (lane, score) in row.iter_mut().enumerate() {
                    *score = if bits[i] >> lane & 1 == 1 { *score } else { f32::NEG_INFINITY };
                }
            }
        }
    }

    /// Fills a tile with 0 or the dropout's scale, by each pair's draw.
    fn draw_dropout(&self, draws: Draws, factors: &mut [f32], at: TileAt) {
        let TileAt { example, head, query_start, tile, .. } = at;
        let blocks_a_row = self.keys.div_ceil(4) as u64;
        let example = draws.first_example.wrapping_add(example as u64);
        // A Philox block holds four neighbouring keys of one query; sixteen queries are drawn side by side.
        for first_key in (tile.start / 4 * 4..tile.start + tile.len).step_by(4) {
            for first_query in (0..BLOCK).step_by(WIDE) {
                let blocks = std::array::from_fn(|lane| {
                    let row = (head * self.queries + query_start + first_query + lane) as u64;
                    row * blocks_a_row + first_key as u64 / 4
                });
                let words = philox_wide(draws.key.halves(), example, blocks);
                for (word, words) in words.iter().enumerate() {
                    let key = first_key + word;
                    if key < tile.start || key >= tile.start + tile.len {
                        continue;
                    }
                    let out = &mut factors[(key - tile.start) * BLOCK + first_query..][..WIDE];
                    for (out, &word) in out.iter_mut().zip(words) {
                        *out = if word >= draws.threshold { draws.scale } else { 0.0 };
                    }
                }
            }
        }
    }
}

/// A tile of queries against a tile of keys.
#[derive(Clone, Copy)]
struct TileAt<'a> {
    example: usize,
    head: usize,
    query_start: usize,
    n_queries: usize,
    tile: KeyTile<'a>,
}

/// Copies rows of `width` values into rows `to_row` apart, with zeros behind them and in the rows up to `rows`.
fn pack(
    (from, from_row): (&[f32], usize),
    n: usize,
    width: usize,
    (to, to_row): (&mut [f32], usize),
    rows: usize,
) {
    for (i, to) in to.chunks_mut(to_row.max(1)).take(rows).enumerate() {
        if i < n {
            to[..width].copy_from_slice(&from[i * from_row..][..width]);
            to[width..].fill(0.0);
        } else {
            to.fill(0.0);
        }
    }
}

/// Writes rows of `width` values into heads that other tasks may be writing next to.
///
/// # Safety
/// No other task may write the same (example, head, time).
unsafe fn write_rows(
    out: &Shared<f32>,
    strides: Strides,
    (example, head, time): (usize, usize, usize),
    (rows, row_stride): (&[f32], usize),
    (n, width): (usize, usize),
) {
    for i in 0..n {
        // SAFETY: promised by the caller; rows of one head do not overlap.
        let out = unsafe { out.range(strides.at(example, head, time + i), width) };
        out.copy_from_slice(&rows[i * row_stride..][..width]);
    }
}
