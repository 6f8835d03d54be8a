//! Attention's backward pass: one task a key-value head (or a stretch of queries of one, if heads are few).

use super::bias_gradient::{BiasSums, BiasTile};
use super::{Close, Group, Heads, Problem, Rows, TileAt, pack, soft_cap, write_rows};
use crate::array::Array;
use crate::blocks::BLOCK;
use crate::cpu::broadcast::AddInto;
use crate::cpu::simd::{dispatch, exp2_to_one};
use crate::cpu::threads::{self, Shared};
use crate::cpu::tile::{self, Operand, Start, load, store};
use crate::kernels::attention::{BiasGradient, Strides};
use crate::pool::Buffer;
use pulp::{Simd, WithSimd};
use std::f32::consts::LOG2_E;

/// Arrays the gradients go to: query, key and value may share one (a fused projection), each in its own places.
pub(super) struct GradientPlaces<'a> {
    pub query: (&'a Shared<f32>, Strides),
    pub key: (&'a Shared<f32>, Strides),
    pub value: (&'a Shared<f32>, Strides),
}

/// What the forward pass left.
#[derive(Clone, Copy)]
pub(super) struct Saved<'a> {
    pub output: &'a [f32],
    pub lse: &'a [f32],
    pub upstream: &'a [f32],
}

/// Few heads are cut into stretches of queries until there are this many tasks.
const TASKS: usize = 8;

/// Writes the gradients of query, key and value; returns those of the bias and of the sinks.
pub(super) fn backward(
    problem: &Problem,
    (query, key, value): (Heads, Heads, Heads),
    (output, lse, upstream): (&[f32], &[f32], &[f32]),
    places: &GradientPlaces,
) -> (BiasGradient, Option<Array>) {
    let saved = Saved { output, lse, upstream };
    let Problem { batch, kv_heads, keys, width, value_width, .. } = *problem;
    let planes = batch * kv_heads;
    let stretches = TASKS.div_ceil(planes.max(1)).min(problem.query_tiles()).max(1);
    let tiles_each = problem.query_tiles().div_ceil(stretches);
    // Key and value gradients of each stretch, to be summed in order, where there are several.
    let per_plane = keys * (width + value_width);
    let mut partial = Buffer::dirty(if stretches > 1 { planes * stretches * per_plane } else { 0 });
    let partials = Shared::new(partial.as_mut_slice());
    let bias_sums = BiasSums::new(problem, planes * stretches);
    threads::run_with(
        planes * stretches,
        || (Close::default(), Work::new(problem)),
        |(close, work), task| {
            let (plane, stretch) = (task / stretches, task % stretches);
            let (example, kv_head) = (plane / kv_heads, plane % kv_heads);
            work.key_gradient.as_mut_slice().fill(0.0);
            work.value_gradient.as_mut_slice().fill(0.0);
            let first = stretch * tiles_each;
            let (keys_of, values_of) = close.get(problem, (key, value), (example, kv_head));
            for head in kv_head * problem.group()..(kv_head + 1) * problem.group() {
                for tile in first..(first + tiles_each).min(problem.query_tiles()) {
                    dispatch(QueryTile {
                        problem,
                        query,
                        keys: keys_of,
                        values: values_of,
                        saved,
                        example,
                        head,
                        tile,
                        work,
                    });
                    let at = (example, head, tile * BLOCK);
                    let n = BLOCK.min(problem.queries - tile * BLOCK);
                    // SAFETY: each query tile of each head belongs to one task.
                    unsafe {
                        write_rows(
                            places.query.0,
                            places.query.1,
                            at,
                            (work.rows.as_slice(), width),
                            (n, width),
                        );
                    };
                    bias_sums.add(problem, task, (example, head, tile), &work.bias);
                }
            }
            work.scale_keys(problem);
            let (dk, dv) = (work.key_gradient.as_slice(), work.value_gradient.as_slice());
            let (dk_row, dv_row) = (work.key_row, work.value_row);
            if stretches == 1 {
                let at = (example, kv_head, 0);
                // SAFETY: each key-value head belongs to one task.
                unsafe {
                    write_rows(places.key.0, places.key.1, at, (dk, dk_row), (keys, width));
                    write_rows(places.value.0, places.value.1, at, (dv, dv_row), (keys, value_width));
                }
            } else {
                // SAFETY: each task has its own part.
                let part = unsafe { partials.range(task * per_plane, per_plane) };
                let (dk_part, dv_part) = part.split_at_mut(keys * width);
                pack((dk, dk_row), keys, width, (dk_part, width), keys);
                pack((dv, dv_row), keys, value_width, (dv_part, value_width), keys);
            }
        },
    );
    if stretches > 1 {
        threads::run(planes, |plane| {
            // SAFETY: each plane has its own parts, and their tasks have ended.
            let parts = unsafe { partials.range(plane * stretches * per_plane, stretches * per_plane) };
            let (total, rest) = parts.split_at_mut(per_plane);
            for part in rest.chunks(per_plane.max(1)) {
                dispatch(AddInto { total, x: part });
            }
            let (dk, dv) = total.split_at(keys * width);
            let at = (plane / kv_heads, plane % kv_heads, 0);
            // SAFETY: each key-value head belongs to one plane.
            unsafe {
                write_rows(places.key.0, places.key.1, at, (dk, width), (keys, width));
                write_rows(places.value.0, places.value.1, at, (dv, value_width), (keys, value_width));
            }
        });
    }
    (bias_sums.finish(problem), problem.sink.map(|sink| sink_gradient(problem, sink, saved)))
}

/// dsink = −Σ P_sink·delta over the queries: the sink's value is zero.
fn sink_gradient(problem: &Problem, sink: &[f32], saved: Saved) -> Array {
    let Problem { batch, heads, queries, value_width, .. } = *problem;
    let row = heads * value_width;
    Array::build(heads, |out| {
        for (head, out) in out.iter_mut().enumerate() {
            let mut total = 0.0_f64;
            for example in 0..batch {
                for query in 0..queries {
                    let at = (example * queries + query) * row + head * value_width;
                    let lse = saved.lse[(example * heads + head) * queries + query];
                    let delta =
                        dot(&saved.output[at..at + value_width], &saved.upstream[at..at + value_width]);
                    // A sink of −∞ takes nothing, even where nothing else may be attended to.
                    let share = if sink[head] == f32::NEG_INFINITY { 0.0 } else { (sink[head] - lse).exp() };
                    total -= f64::from(share * delta);
                }
            }
            *out = total as f32;
        }
    })
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Working memory of one task.
struct Work {
    /// Qᵀ scaled (width, 64), Q (64, padded width); dOᵀ, dO likewise.
    query_lanes: Buffer,
    query_rows: Buffer,
    upstream_lanes: Buffer,
    upstream_rows: Buffer,
    /// dQᵀ (width, 64) and the finished dQ (64, width).
    query_gradient: Buffer,
    rows: Buffer,
    /// Pᵀ and dSᵀ of a tile, and its dropout factors.
    weights: Buffer,
    slopes: Buffer,
    factors: Buffer,
    /// The derivatives of a soft cap.
    derivatives: Buffer,
    /// dK and dV of the whole head, rows padded to whole registers.
    key_gradient: Buffer,
    value_gradient: Buffer,
    key_row: usize,
    value_row: usize,
    /// −log₂-sum-exp and −delta of each query.
    minus_lse: [f32; BLOCK],
    minus_delta: [f32; BLOCK],
    /// Sums of dS by distance or pair, for the bias: kept by the tile that made them.
    bias: BiasTile,
}

/// The widest register there is.
const WIDEST: usize = 16;

impl Work {
    fn new(problem: &Problem) -> Self {
        let Problem { keys, width, value_width, .. } = *problem;
        let (key_row, value_row) = (width.next_multiple_of(WIDEST), value_width.next_multiple_of(WIDEST));
        Self {
            query_lanes: Buffer::dirty(width * BLOCK),
            query_rows: Buffer::dirty(BLOCK * key_row),
            upstream_lanes: Buffer::dirty(value_width * BLOCK),
            upstream_rows: Buffer::dirty(BLOCK * value_row),
            query_gradient: Buffer::dirty(width * BLOCK),
            rows: Buffer::dirty(BLOCK * width),
            weights: Buffer::dirty(BLOCK * BLOCK),
            slopes: Buffer::dirty(BLOCK * BLOCK),
            factors: Buffer::dirty(if problem.dropout.is_some() { BLOCK * BLOCK } else { 0 }),
            derivatives: Buffer::dirty(if problem.cap.is_some() { BLOCK * BLOCK } else { 0 }),
            key_gradient: Buffer::dirty(keys * key_row),
            value_gradient: Buffer::dirty(keys * value_row),
            key_row,
            value_row,
            minus_lse: [0.0; BLOCK],
            minus_delta: [0.0; BLOCK],
            bias: BiasTile::new(problem),
        }
    }

    /// The scale that was folded into Q belongs to dK too.
    fn scale_keys(&mut self, problem: &Problem) {
        self.key_gradient.as_mut_slice().iter_mut().for_each(|x| *x *= problem.scale);
    }

    /// Lays out a tile of queries: in lanes and in rows, zeros where the tile is not full.
    fn load(&mut self, tile: &QueryTileSource) {
        let QueryTileSource { problem, query, saved, example, head, query_start, n_queries } = *tile;
        let Problem { heads, queries, width, value_width, .. } = *problem;
        let from = (query.from(example, head, query_start), query.strides.row);
        if n_queries < BLOCK {
            self.query_lanes.as_mut_slice().fill(0.0);
            self.upstream_lanes.as_mut_slice().fill(0.0);
        }
        let lanes = (self.query_lanes.as_mut_slice(), BLOCK);
        tile::transpose((n_queries, width), from, lanes, problem.scale * LOG2_E);
        pack(from, n_queries, width, (self.query_rows.as_mut_slice(), self.key_row), BLOCK);
        let row = heads * value_width;
        let start = (example * queries + query_start) * row + head * value_width;
        let from = (&saved.upstream[start..], row);
        tile::transpose((n_queries, value_width), from, (self.upstream_lanes.as_mut_slice(), BLOCK), 1.0);
        pack(from, n_queries, value_width, (self.upstream_rows.as_mut_slice(), self.value_row), BLOCK);
        self.minus_lse.fill(0.0);
        self.minus_delta.fill(0.0);
        for query in 0..n_queries {
            let lse = saved.lse[(example * heads + head) * queries + query_start + query];
            // A row that may attend to nothing has no weights: its scores stay −∞ whatever is subtracted.
            self.minus_lse[query] = if lse == f32::NEG_INFINITY { 0.0 } else { -lse * LOG2_E };
            let at = start + query * row;
            self.minus_delta[query] =
                -dot(&saved.upstream[at..at + value_width], &saved.output[at..at + value_width]);
        }
        self.query_gradient.as_mut_slice().fill(0.0);
        self.bias.clear();
    }
}

#[derive(Clone, Copy)]
struct QueryTileSource<'a> {
    problem: &'a Problem<'a>,
    query: Heads<'a>,
    saved: Saved<'a>,
    example: usize,
    head: usize,
    query_start: usize,
    n_queries: usize,
}

struct QueryTile<'a> {
    problem: &'a Problem<'a>,
    query: Heads<'a>,
    keys: Rows<'a>,
    values: Rows<'a>,
    saved: Saved<'a>,
    example: usize,
    head: usize,
    tile: usize,
    work: &'a mut Work,
}

impl WithSimd for QueryTile<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let Self { problem, query, keys, values, saved, example, head, tile, work } = self;
        let Problem { width, value_width, .. } = *problem;
        let query_start = tile * BLOCK;
        let n_queries = BLOCK.min(problem.queries - query_start);
        let lanes = n_queries.next_multiple_of(S::F32_LANES);
        work.load(&QueryTileSource { problem, query, saved, example, head, query_start, n_queries });
        if query_start + 2 * BLOCK <= problem.queries {
            let next = query_start + BLOCK;
            tile::ask_for((query.from(example, head, next), query.strides.row), BLOCK, width);
            let row = problem.heads * value_width;
            let start = (example * problem.queries + next) * row + head * value_width;
            for rows in [saved.upstream, saved.output] {
                tile::ask_for((&rows[start..], row), BLOCK, value_width);
            }
        }
        for key_tile in problem.key_tiles(example, head, tile) {
            let at = TileAt { example, head, query_start, n_queries, tile: key_tile };
            let (keys, key_row) = (keys.from(key_tile.start), keys.row);
            let (values, value_row) = (values.from(key_tile.start), values.row);
            let groups = problem.groups(query_start, key_tile, S::F32_LANES, lanes);
            let weights = work.weights.as_mut_slice();
            let slopes = work.slopes.as_mut_slice();
            for &Group { start, len, first } in groups.get() {
                let a = Operand { start: keys[start * key_row..].as_ptr(), row: key_row, column: 1 };
                let b = (work.query_lanes.as_slice()[first..].as_ptr(), BLOCK);
                let c = (weights[start * BLOCK + first..].as_mut_ptr(), BLOCK);
                // A cap comes before anything is added.
                let from = match problem.cap {
                    None => Start::Row(work.minus_lse[first..].as_ptr()),
                    Some(_) => Start::Zero,
                };
                // SAFETY: keys of this group, lanes `first..lanes`, and whole (padded) rows of features.
                unsafe { tile::product(s, (len, lanes - first, width), a, b, c, from) };
                if let Some(cap) = problem.cap {
                    let (derivatives, group) = (work.derivatives.as_mut_slice(), Group { start, len, first });
                    cap.apply_with_derivatives(s, weights, derivatives, &work.minus_lse, (group, lanes));
                }
            }
            problem.add_bias(weights, at);
            problem.exclude(weights, at);
            let factors = problem.dropout.map(|draws| {
                problem.draw_dropout(draws, work.factors.as_mut_slice(), at);
                work.factors.as_slice()
            });
            for &group in groups.get() {
                let Group { start, len, first } = group;
                weigh(s, weights, group, lanes);
                let a = Operand { start: values[start * value_row..].as_ptr(), row: value_row, column: 1 };
                let b = (work.upstream_lanes.as_slice()[first..].as_ptr(), BLOCK);
                let c = (slopes[start * BLOCK + first..].as_mut_ptr(), BLOCK);
                let minus_delta = &work.minus_delta[first..lanes];
                // Under dropout, dP is multiplied with its factors before delta is subtracted.
                let from = if factors.is_some() { Start::Zero } else { Start::Row(minus_delta.as_ptr()) };
                // SAFETY: keys of this group, lanes `first..lanes`, and whole (padded) rows of features.
                unsafe { tile::product(s, (len, lanes - first, value_width), a, b, c, from) };
                for key in start..start + len {
                    let range = key * BLOCK + first..key * BLOCK + lanes;
                    let (weights, slopes) = (&mut weights[range.clone()], &mut slopes[range.clone()]);
                    match factors {
                        None => slope_row(weights, slopes),
                        Some(factors) => dropped_slope_row(weights, slopes, &factors[range], minus_delta),
                    }
                }
            }
            let (dk, dv) = (work.key_gradient.as_mut_slice(), work.value_gradient.as_mut_slice());
            let (dk_row, dv_row) = (work.key_row, work.value_row);
            for &Group { start, len, first } in groups.get() {
                work.bias.collect(problem, slopes, at, Group { start, len, first });
                if problem.cap.is_some() {
                    let derivatives = work.derivatives.as_slice();
                    soft_cap::multiply(s, slopes, derivatives, Group { start, len, first }, lanes);
                }
                let a = Operand { start: weights[start * BLOCK + first..].as_ptr(), row: BLOCK, column: 1 };
                let b = (work.upstream_rows.as_slice()[first * dv_row..].as_ptr(), dv_row);
                let c = (dv[(key_tile.start + start) * dv_row..].as_mut_ptr(), dv_row);
                // SAFETY: keys of this group, lanes `first..lanes`, and whole (padded) rows of features.
                unsafe { tile::product(s, (len, dv_row, lanes - first), a, b, c, Start::Output) };
                let a = Operand { start: slopes[start * BLOCK + first..].as_ptr(), row: BLOCK, column: 1 };
                let b = (work.query_rows.as_slice()[first * dk_row..].as_ptr(), dk_row);
                let c = (dk[(key_tile.start + start) * dk_row..].as_mut_ptr(), dk_row);
                // SAFETY: keys of this group, lanes `first..lanes`, and whole (padded) rows of features.
                unsafe { tile::product(s, (len, dk_row, lanes - first), a, b, c, Start::Output) };
                let a = Operand { start: keys[start * key_row..].as_ptr(), row: 1, column: key_row };
                let b = (slopes[start * BLOCK + first..].as_ptr(), BLOCK);
                let c = (work.query_gradient.as_mut_slice()[first..].as_mut_ptr(), BLOCK);
                // SAFETY: keys of this group, lanes `first..lanes`, and whole (padded) rows of features.
                unsafe { tile::product(s, (width, lanes - first, len), a, b, c, Start::Output) };
            }
        }
        let from = (work.query_gradient.as_slice(), BLOCK);
        tile::transpose((width, n_queries), from, (work.rows.as_mut_slice(), width), problem.scale);
    }
}

/// Scores minus log-sum-exp become weights.
#[inline(always)]
fn weigh<S: Simd>(s: S, scores: &mut [f32], group: Group, lanes: usize) {
    for key in group.start..group.start + group.len {
        for lane in (group.first..lanes).step_by(S::F32_LANES) {
            let place = scores[key * BLOCK + lane..key * BLOCK + lane + S::F32_LANES].as_mut_ptr();
            // SAFETY: one register's worth, checked by the slice above.
            unsafe { store(s, place, exp2_to_one(s, load(s, place))) };
        }
    }
}

/// dS = P ∘ (dP − delta), where the slopes hold dP − delta.
#[inline(always)]
fn slope_row(weights: &[f32], slopes: &mut [f32]) {
    for (slope, weight) in slopes.iter_mut().zip(weights) {
        *slope *= weight;
    }
}

/// The same under dropout with factors M: dS = P ∘ (M ∘ dP − delta), and the weights become M ∘ P for dV.
#[inline(always)]
fn dropped_slope_row(weights: &mut [f32], slopes: &mut [f32], factors: &[f32], minus_delta: &[f32]) {
    for (((slope, weight), factor), delta) in slopes.iter_mut().zip(weights).zip(factors).zip(minus_delta) {
        *slope = *weight * (*slope * factor + delta);
        *weight *= factor;
    }
}
