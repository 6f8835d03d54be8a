//! Attention's forward pass: one task a tile of queries.

use super::close::{Close, PerHead};
use super::{Group, Heads, Problem, Rows, TileAt, write_rows};
use crate::array::Array;
use crate::blocks::BLOCK;
use crate::cpu::simd::{dispatch, exp2};
use crate::cpu::threads::{self, Shared};
use crate::cpu::tile::{self, Operand, Start, load, store};
use crate::cpu::transpose::transpose;
use crate::kernels::attention::Strides;
use crate::pool::Buffer;
use pulp::{Simd, WithSimd};
use std::f32::consts::{LN_2, LOG2_E};

/// The output (batch, queries, heads, value width) and the log-sum-exp of each row (batch, heads, queries).
pub(super) fn forward<'a>(
    problem: &Problem<'a>,
    query: Heads<'a>,
    key: Heads<'a>,
    value: Heads<'a>,
) -> (Array, Array) {
    let Problem { batch, heads, queries, value_width, .. } = *problem;
    let tiles = problem.query_tiles();
    let mut output = Buffer::dirty(batch * queries * heads * value_width);
    let mut lse = Buffer::dirty(batch * heads * queries);
    let strides = Strides {
        start: 0,
        batch: queries * heads * value_width,
        head: value_width,
        row: heads * value_width,
    };
    let (outputs, lses) = (Shared::new(output.as_mut_slice()), Shared::new(lse.as_mut_slice()));
    let steps = problem.group() * tiles;
    let close = PerHead::new(batch * problem.kv_heads, steps);
    threads::run_lanes(
        close.len(),
        steps,
        || Scratch::new(problem),
        |scratch, kv_plane, step| {
            // The last tiles of causal attention have the most keys: they go first, so that no thread ends alone.
            let (member, tile) = (step / tiles, tiles - 1 - step % tiles);
            let (example, kv_head) = (kv_plane / problem.kv_heads, kv_plane % problem.kv_heads);
            let head = kv_head * problem.group() + member;
            let plane = example * heads + head;
            let query_start = tile * BLOCK;
            let n_queries = BLOCK.min(queries - query_start);
            // SAFETY: each task has its own queries.
            let lse = unsafe { lses.range(plane * queries + query_start, n_queries) };
            scratch.clear(n_queries);
            let close = close.get(kv_plane, || Close::new(problem, (key, value)));
            let (keys, values) = close.rows(problem, (key, value), (example, kv_head));
            dispatch(QueryTile { problem, query, keys, values, example, head, tile, lse, scratch });
            // SAFETY: as above.
            unsafe {
                let rows = (scratch.rows.as_slice(), value_width);
                write_rows(&outputs, strides, (example, head, query_start), rows, (n_queries, value_width));
            }
        },
    );
    (Array::from_buffer(output), Array::from_buffer(lse))
}

/// Working memory of one task.
struct Scratch {
    /// Qᵀ, scaled: (width, 64).
    query: Buffer,
    factors: Buffer,
    online: Online,
    /// The finished output: (64, value width).
    rows: Buffer,
}

/// The state of the online softmax over a tile of queries.
struct Online {
    /// Sᵀ, then Pᵀ: (64 keys, 64 queries).
    scores: Buffer,
    /// Oᵀ so far: (value width, 64).
    output: Buffer,
    /// Running maximum (up to `SLACK`) and sum of each query, and what its output so far must be multiplied with.
    max: [f32; BLOCK],
    sum: [f32; BLOCK],
    rescale: [f32; BLOCK],
}

impl Scratch {
    fn new(problem: &Problem) -> Self {
        let Problem { width, value_width, .. } = *problem;
        Self {
            query: Buffer::scratch(width * BLOCK),
            factors: Buffer::scratch(if problem.dropout.is_some() { BLOCK * BLOCK } else { 0 }),
            online: Online {
                scores: Buffer::scratch(BLOCK * BLOCK),
                output: Buffer::scratch(value_width * BLOCK),
                max: [f32::NEG_INFINITY; BLOCK],
                sum: [0.0; BLOCK],
                rescale: [1.0; BLOCK],
            },
            rows: Buffer::scratch(BLOCK * value_width),
        }
    }

    /// Ready for another tile of queries.
    fn clear(&mut self, n_queries: usize) {
        if n_queries < BLOCK {
            self.query.as_mut_slice().fill(0.0);
        }
        self.online.output.as_mut_slice().fill(0.0);
        self.online.max.fill(f32::NEG_INFINITY);
        self.online.sum.fill(0.0);
    }
}

struct QueryTile<'a> {
    problem: &'a Problem<'a>,
    query: Heads<'a>,
    keys: Rows<'a>,
    values: Rows<'a>,
    example: usize,
    head: usize,
    tile: usize,
    lse: &'a mut [f32],
    scratch: &'a mut Scratch,
}

impl WithSimd for QueryTile<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let Self { problem, query, keys, values, example, head, tile, lse, scratch } = self;
        let Problem { width, value_width, .. } = *problem;
        let query_start = tile * BLOCK;
        let n_queries = lse.len();
        // Lanes in use, in whole registers.
        let lanes = n_queries.next_multiple_of(S::F32_LANES);
        transpose(
            s,
            (n_queries, width),
            (query.from(example, head, query_start), query.strides.row),
            (scratch.query.as_mut_slice(), BLOCK),
            problem.scale * LOG2_E,
        );
        if let Some(next) = query_start.checked_sub(BLOCK) {
            // The tile before this one comes next.
            tile::ask_for((query.from(example, head, next), query.strides.row), BLOCK, width);
        }
        for key_tile in problem.key_tiles(example, head, tile) {
            let (keys, key_row) = (keys.from(key_tile.start), keys.row);
            let (values, value_row) = (values.from(key_tile.start), values.row);
            let at = TileAt { example, head, query_start, n_queries, tile: key_tile };
            let online = &mut scratch.online;
            let (queries, scores) = (scratch.query.as_slice(), online.scores.as_mut_slice());
            let groups = problem.groups(query_start, key_tile, S::F32_LANES, lanes);
            for &Group { start, len, first } in groups.get() {
                let a = Operand { start: keys[start * key_row..].as_ptr(), row: key_row, column: 1 };
                let b = (queries[first..].as_ptr(), BLOCK);
                let c = (scores[start * BLOCK + first..].as_mut_ptr(), BLOCK);
                // SAFETY: keys of the tile, lanes `first..lanes` of the query tile and of the scores.
                unsafe { tile::product(s, (len, lanes - first, width), a, b, c, Start::Zero) };
                if let Some(cap) = problem.cap {
                    cap.apply(s, scores, Group { start, len, first }, lanes);
                }
            }
            problem.add_bias(scores, at);
            problem.exclude(scores, at);
            online.weigh(s, key_tile.len, lanes);
            if let Some(draws) = problem.dropout {
                problem.draw_dropout(draws, scratch.factors.as_mut_slice(), at);
                let factors = &scratch.factors.as_slice()[..key_tile.len * BLOCK];
                for (weight, factor) in online.scores.as_mut_slice().iter_mut().zip(factors) {
                    *weight *= factor;
                }
            }
            let (weights, output) = (online.scores.as_slice(), online.output.as_mut_slice());
            for &Group { start, len, first } in groups.get() {
                let a = Operand { start: values[start * value_row..].as_ptr(), row: 1, column: value_row };
                let b = (weights[start * BLOCK + first..].as_ptr(), BLOCK);
                let c = (output[first..].as_mut_ptr(), BLOCK);
                // SAFETY: as above, with the output's features as rows.
                unsafe { tile::product(s, (value_width, lanes - first, len), a, b, c, Start::Output) };
            }
        }
        let online = &mut scratch.online;
        online.finish(s, lanes, problem.sink.map(|sink| sink[head] * LOG2_E));
        for (query, lse) in lse.iter_mut().enumerate() {
            *lse = (online.max[query] + online.sum[query].log2()) * LN_2;
            if online.sum[query] == 0.0 {
                *lse = f32::NEG_INFINITY;
            }
        }
        transpose(
            s,
            (value_width, n_queries),
            (online.output.as_slice(), BLOCK),
            (scratch.rows.as_mut_slice(), value_width),
            1.0,
        );
    }
}

/// A maximum may be this much (in log₂) behind before all that was summed under it is rescaled: weights of up to 2⁸ harm
/// nothing, and most tiles raise the maximum of some query a little.
const SLACK: f32 = 8.0;

/// A maximum of −∞ (nothing allowed yet) is replaced by this in differences, which then stay −∞ instead of NaN.
const LOWEST: f32 = -1e30;

impl Online {
    /// Online softmax (Milakov & Gimelshein, 2018): scores become weights relative to the maximum so far, and what
    /// was summed under a smaller maximum is rescaled.
    #[inline(always)]
    fn weigh<S: Simd>(&mut self, s: S, n_keys: usize, lanes: usize) {
        let mut changed = false;
        let mut lane = 0;
        while lane < lanes {
            // Registers side by side: their maxima and sums do not wait for one another.
            if S::REGISTER_COUNT >= 32 && lanes - lane >= 4 * S::F32_LANES {
                changed |= self.weigh_lanes::<S, 4>(s, n_keys, lane);
                lane += 4 * S::F32_LANES;
            } else {
                changed |= self.weigh_lanes::<S, 1>(s, n_keys, lane);
                lane += S::F32_LANES;
            }
        }
        if changed {
            self.scale_output(s, lanes);
        }
    }

    /// The same for `N` registers of lanes; whether any of their outputs must be rescaled.
    #[inline(always)]
    fn weigh_lanes<S: Simd, const N: usize>(&mut self, s: S, n_keys: usize, lane: usize) -> bool {
        assert!(lane + N * S::F32_LANES <= BLOCK);
        let scores = self.scores.as_mut_slice()[..n_keys * BLOCK].as_mut_ptr();
        let state = |values: &mut [f32; BLOCK]| values.as_mut_ptr().wrapping_add(lane);
        let (max, sum, rescale) = (state(&mut self.max), state(&mut self.sum), state(&mut self.rescale));
        // SAFETY: `N` registers from `lane` on, of `n_keys` rows of 64 scores and of each query's state.
        unsafe {
            let old: [S::f32s; N] = std::array::from_fn(|j| load(s, max.add(j * S::F32_LANES)));
            let mut most = old;
            for key in 0..n_keys {
                for (j, most) in most.iter_mut().enumerate() {
                    *most = s.max_f32s(*most, load(s, scores.add(key * BLOCK + lane + j * S::F32_LANES)));
                }
            }
            let mut shift = old.map(|old| s.max_f32s(old, s.splat_f32s(LOWEST)));
            let growth = (0..N).map(|j| s.reduce_max_f32s(s.sub_f32s(most[j], shift[j])));
            let grown = growth.fold(f32::NEG_INFINITY, f32::max) > SLACK;
            if grown {
                shift = most.map(|most| s.max_f32s(most, s.splat_f32s(LOWEST)));
            }
            let mut sums = [s.splat_f32s(0.0); N];
            for key in 0..n_keys {
                for (j, sum) in sums.iter_mut().enumerate() {
                    let place = scores.add(key * BLOCK + lane + j * S::F32_LANES);
                    let weight = exp2(s, s.sub_f32s(load(s, place), shift[j]));
                    store(s, place, weight);
                    *sum = s.add_f32s(*sum, weight);
                }
            }
            for j in 0..N {
                let at = j * S::F32_LANES;
                let factor = if grown { exp2(s, s.sub_f32s(old[j], shift[j])) } else { s.splat_f32s(1.0) };
                if grown {
                    store(s, max.add(at), most[j]);
                }
                store(s, sum.add(at), s.mul_add_e_f32s(load(s, sum.add(at)), factor, sums[j]));
                store(s, rescale.add(at), factor);
            }
            grown
        }
    }

    /// Multiplies the output so far with `rescale`, lane by lane.
    #[inline(always)]
    fn scale_output<S: Simd>(&mut self, s: S, lanes: usize) {
        for row in self.output.as_mut_slice().chunks_mut(BLOCK) {
            for lane in (0..lanes).step_by(S::F32_LANES) {
                // SAFETY: lanes below 64.
                unsafe {
                    let factor = load(s, self.rescale[lane..].as_ptr());
                    let place = row[lane..].as_mut_ptr();
                    store(s, place, s.mul_f32s(load(s, place), factor));
                }
            }
        }
    }

    /// Lets the sink take its share and divides by the sums.
    #[inline(always)]
    fn finish<S: Simd>(&mut self, s: S, lanes: usize, sink: Option<f32>) {
        for lane in 0..lanes {
            let mut rescale = 1.0;
            if let Some(sink) = sink {
                let max = self.max[lane].max(sink);
                if max > f32::NEG_INFINITY {
                    rescale = (self.max[lane] - max).exp2();
                    self.sum[lane] = self.sum[lane] * rescale + (sink - max).exp2();
                    self.max[lane] = max;
                }
            }
            self.rescale[lane] = if self.sum[lane] > 0.0 { rescale / self.sum[lane] } else { 0.0 };
        }
        self.scale_output(s, lanes);
    }
}
