//! Attention's backward pass: one task a tile of queries, those of a key-value head one behind the other.

use super::bias_gradient::{BiasSums, BiasTile};
use super::close::{Close, PerHead};
use super::{Group, Heads, Problem, Rows, TileAt, pack, soft_cap, write_rows};
use crate::array::Array;
use crate::blocks::BLOCK;
use crate::cpu::simd::{self, dispatch, exp2_to_one};
use crate::cpu::threads::{self, Shared, wait_until};
use crate::cpu::tile::{self, Operand, Start, load, store};
use crate::cpu::transpose::transpose;
use crate::kernels::attention::{BiasGradient, Strides};
use crate::pool::Buffer;
use pulp::{Simd, WithSimd};
use std::f32::consts::LOG2_E;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// A head that threads work at: its keys and values, the gradients of both, and how far each step is.
struct Head {
    close: Close,
    key: Gradient,
    value: Gradient,
    /// For each step, how many tiles of keys have its part of the gradients; `ALL` at its end.
    progress: Vec<AtomicUsize>,
}

const ALL: usize = usize::MAX;

/// The gradient of all keys or values of a head, rows padded to whole registers.
struct Gradient {
    place: Shared<f32>,
    row: usize,
    /// Keeps the memory behind `place`.
    _memory: Buffer,
}

impl Gradient {
    fn new(keys: usize, width: usize) -> Self {
        let row = width.next_multiple_of(WIDEST);
        let mut memory = Buffer::zeros(keys * row);
        Self { place: Shared::new(memory.as_mut_slice()), row, _memory: memory }
    }
}

/// The steps of one head follow each other through the tiles of keys: a step adds to a tile only after the step before
/// has. Several threads can thus work at a head, sums are taken in the order of the queries, and there is one gradient to add
/// to, not one for each thread.
struct Order<'a> {
    progress: &'a [AtomicUsize],
    step: usize,
}

impl<'a> Order<'a> {
    fn new(progress: &'a [AtomicUsize], step: usize) -> Self {
        Self { progress, step }
    }

    /// Waits until the step before has passed a tile of keys.
    fn wait(&self, tiles: usize) {
        if let Some(before) = self.step.checked_sub(1) {
            wait_until(|| self.progress[before].load(Ordering::Acquire) >= tiles);
        }
    }

    fn pass(&self, tiles: usize) {
        self.progress[self.step].store(tiles, Ordering::Release);
    }
}

/// Even if the thread panics: others wait for this step.
impl Drop for Order<'_> {
    fn drop(&mut self) {
        self.pass(ALL);
    }
}

/// Writes the gradients of query, key and value; returns those of the bias and of the sinks.
pub(super) fn backward(
    problem: &Problem,
    (query, key, value): (Heads, Heads, Heads),
    (output, lse, upstream): (&[f32], &[f32], &[f32]),
    places: &GradientPlaces,
) -> (BiasGradient, Option<Array>) {
    let saved = Saved { output, lse, upstream };
    let Problem { batch, kv_heads, keys, width, value_width, .. } = *problem;
    let (tiles, steps) = (problem.query_tiles(), problem.group() * problem.query_tiles());
    let heads = PerHead::new(batch * kv_heads, steps);
    let bias_sums = BiasSums::new(problem, heads.len());
    threads::run_lanes(
        heads.len(),
        steps,
        || Work::new(problem),
        |work, plane, step| {
            let (example, kv_head) = (plane / kv_heads, plane % kv_heads);
            let (head, tile) = (kv_head * problem.group() + step / tiles, step % tiles);
            let shared = heads.get(plane, || Head {
                close: Close::new(problem, (key, value)),
                key: Gradient::new(keys, width),
                value: Gradient::new(keys, value_width),
                progress: (0..steps).map(|_| AtomicUsize::new(0)).collect(),
            });
            let order = Order::new(&shared.progress, step);
            let (keys_of, values_of) = shared.close.rows(problem, (key, value), (example, kv_head));
            let rows = (keys_of, values_of);
            dispatch(QueryTile {
                problem,
                query,
                rows,
                saved,
                example,
                head,
                tile,
                work,
                shared: &shared,
                order: &order,
            });
            let n = BLOCK.min(problem.queries - tile * BLOCK);
            // SAFETY: each query tile of each head belongs to one task.
            unsafe {
                let rows = (work.rows.as_slice(), width);
                write_rows(places.query.0, places.query.1, (example, head, tile * BLOCK), rows, (n, width));
            }
            order.wait(ALL);
            bias_sums.add(problem, plane, (example, head, tile), &work.bias);
            if step + 1 == steps {
                // SAFETY: all steps of the head have ended, and each key-value head has one last step.
                unsafe {
                    let at = (example, kv_head, 0);
                    let dk = shared.key.place.range(0, keys * shared.key.row);
                    let dv = shared.value.place.range(0, keys * shared.value.row);
                    // The scale that was folded into Q belongs to dK too.
                    for x in &mut *dk {
                        *x *= problem.scale;
                    }
                    write_rows(places.key.0, places.key.1, at, (dk, shared.key.row), (keys, width));
                    write_rows(
                        places.value.0,
                        places.value.1,
                        at,
                        (dv, shared.value.row),
                        (keys, value_width),
                    );
                }
            }
        },
    );
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
                    let (output, upstream) = (&saved.output[at..], &saved.upstream[at..]);
                    let delta = dispatch(Dot(&output[..value_width], &upstream[..value_width]));
                    // A sink of −∞ takes nothing, even where nothing else may be attended to.
                    let share = if sink[head] == f32::NEG_INFINITY { 0.0 } else { (sink[head] - lse).exp() };
                    total -= f64::from(share * delta);
                }
            }
            *out = total as f32;
        }
    })
}

/// Σ a·b, in a fixed order for a given number of lanes.
struct Dot<'a>(&'a [f32], &'a [f32]);

impl WithSimd for Dot<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) -> f32 {
        let Self(a, b) = self;
        let add = |sum, i| s.mul_add_e_f32s(simd::get(s, a, i), simd::get(s, b, i), sum);
        s.reduce_sum_f32s((0..simd::registers(s, a)).fold(s.splat_f32s(0.0), add))
    }
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
        let Problem { width, value_width, .. } = *problem;
        let (key_row, value_row) = (width.next_multiple_of(WIDEST), value_width.next_multiple_of(WIDEST));
        Self {
            query_lanes: Buffer::scratch(width * BLOCK),
            query_rows: Buffer::scratch(BLOCK * key_row),
            upstream_lanes: Buffer::scratch(value_width * BLOCK),
            upstream_rows: Buffer::scratch(BLOCK * value_row),
            query_gradient: Buffer::scratch(width * BLOCK),
            rows: Buffer::scratch(BLOCK * width),
            weights: Buffer::scratch(BLOCK * BLOCK),
            slopes: Buffer::scratch(BLOCK * BLOCK),
            factors: Buffer::scratch(if problem.dropout.is_some() { BLOCK * BLOCK } else { 0 }),
            derivatives: Buffer::scratch(if problem.cap.is_some() { BLOCK * BLOCK } else { 0 }),
            key_row,
            value_row,
            minus_lse: [0.0; BLOCK],
            minus_delta: [0.0; BLOCK],
            bias: BiasTile::new(problem),
        }
    }

    /// Lays out a tile of queries: in lanes and in rows, zeros where the tile is not full.
    #[inline(always)]
    fn load<S: Simd>(&mut self, s: S, tile: &QueryTileSource) {
        let QueryTileSource { problem, query, saved, example, head, query_start, n_queries } = *tile;
        let Problem { heads, queries, width, value_width, .. } = *problem;
        let from = (query.from(example, head, query_start), query.strides.row);
        if n_queries < BLOCK {
            self.query_lanes.as_mut_slice().fill(0.0);
            self.upstream_lanes.as_mut_slice().fill(0.0);
        }
        let lanes = (self.query_lanes.as_mut_slice(), BLOCK);
        transpose(s, (n_queries, width), from, lanes, problem.scale * LOG2_E);
        pack(from, n_queries, width, (self.query_rows.as_mut_slice(), self.key_row), BLOCK);
        let row = heads * value_width;
        let start = (example * queries + query_start) * row + head * value_width;
        let from = (&saved.upstream[start..], row);
        transpose(s, (n_queries, value_width), from, (self.upstream_lanes.as_mut_slice(), BLOCK), 1.0);
        pack(from, n_queries, value_width, (self.upstream_rows.as_mut_slice(), self.value_row), BLOCK);
        self.minus_lse.fill(0.0);
        self.minus_delta.fill(0.0);
        for query in 0..n_queries {
            let lse = saved.lse[(example * heads + head) * queries + query_start + query];
            // A row that may attend to nothing has no weights: its scores stay −∞ whatever is subtracted.
            self.minus_lse[query] = if lse == f32::NEG_INFINITY { 0.0 } else { -lse * LOG2_E };
            let at = start + query * row;
            let (upstream, output) = (&saved.upstream[at..], &saved.output[at..]);
            self.minus_delta[query] = -Dot(&upstream[..value_width], &output[..value_width]).with_simd(s);
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
    /// Keys and values.
    rows: (Rows<'a>, Rows<'a>),
    saved: Saved<'a>,
    example: usize,
    head: usize,
    tile: usize,
    work: &'a mut Work,
    shared: &'a Head,
    order: &'a Order<'a>,
}

impl WithSimd for QueryTile<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let Self { problem, query, rows: (keys, values), saved, example, head, tile, work, shared, order } =
            self;
        let Problem { width, value_width, .. } = *problem;
        let query_start = tile * BLOCK;
        let n_queries = BLOCK.min(problem.queries - query_start);
        let lanes = n_queries.next_multiple_of(S::F32_LANES);
        work.load(s, &QueryTileSource { problem, query, saved, example, head, query_start, n_queries });
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
            for &Group { start, len, first } in groups.get() {
                work.bias.collect(problem, slopes, at, Group { start, len, first });
                if problem.cap.is_some() {
                    let derivatives = work.derivatives.as_slice();
                    soft_cap::multiply(s, slopes, derivatives, Group { start, len, first }, lanes);
                }
                let a = Operand { start: keys[start * key_row..].as_ptr(), row: 1, column: key_row };
                let b = (slopes[start * BLOCK + first..].as_ptr(), BLOCK);
                let c = (work.query_gradient.as_mut_slice()[first..].as_mut_ptr(), BLOCK);
                // SAFETY: keys of this group, lanes `first..lanes`, and whole (padded) rows of features.
                unsafe { tile::product(s, (width, lanes - first, len), a, b, c, Start::Output) };
            }
            let passed = key_tile.start / BLOCK + 1;
            order.wait(passed);
            let (dk_row, dv_row) = (shared.key.row, shared.value.row);
            for &Group { start, len, first } in groups.get() {
                let a = Operand { start: weights[start * BLOCK + first..].as_ptr(), row: BLOCK, column: 1 };
                let b = (work.upstream_rows.as_slice()[first * dv_row..].as_ptr(), dv_row);
                let c = (shared.value.place.pointer((key_tile.start + start) * dv_row), dv_row);
                // SAFETY: keys of this group, lanes `first..lanes`, and whole (padded) rows of features; the step before has
                // passed these keys, and the step after waits.
                unsafe { tile::product(s, (len, dv_row, lanes - first), a, b, c, Start::Output) };
                let a = Operand { start: slopes[start * BLOCK + first..].as_ptr(), row: BLOCK, column: 1 };
                let b = (work.query_rows.as_slice()[first * dk_row..].as_ptr(), dk_row);
                let c = (shared.key.place.pointer((key_tile.start + start) * dk_row), dk_row);
                // SAFETY: as above.
                unsafe { tile::product(s, (len, dk_row, lanes - first), a, b, c, Start::Output) };
            }
            order.pass(passed);
        }
        let from = (work.query_gradient.as_slice(), BLOCK);
        transpose(s, (width, n_queries), from, (work.rows.as_mut_slice(), width), problem.scale);
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
