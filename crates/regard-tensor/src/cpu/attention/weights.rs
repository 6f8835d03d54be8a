//! Any block of attention weights, computed on demand from Q, K and the log-sum-exp.

use super::{Group, Heads, KeyTile, Problem, TileAt};
use crate::array::Array;
use crate::blocks::BLOCK;
use crate::cpu::simd::{dispatch, exp2_to_one};
use crate::cpu::threads::{self, Shared};
use crate::cpu::tile::{self, Operand, Start, load, store};
use crate::cpu::transpose::transpose;
use crate::pool::Buffer;
use pulp::{Simd, WithSimd};
use std::f32::consts::LOG2_E;
use std::ops::Range;

/// The weights of some heads for a range of queries and keys: (heads named, queries, keys). Dropout is left out.
pub(super) fn weights(
    problem: &Problem,
    (query, key, lse): (Heads, Heads, &[f32]),
    heads: &[(usize, usize)],
    queries: Range<usize>,
    keys: Range<usize>,
) -> Array {
    let (rows, columns) = (queries.len(), keys.len());
    let tiles = rows.div_ceil(BLOCK);
    Array::build(heads.len() * rows * columns, |out| {
        if out.is_empty() {
            return;
        }
        let shared = Shared::new(out);
        threads::run(heads.len() * tiles, |task| {
            let ((example, head), tile) = (heads[task / tiles], task % tiles);
            let query_start = queries.start + tile * BLOCK;
            let n_queries = BLOCK.min(queries.end - query_start);
            let lse = &lse[(example * problem.heads + head) * problem.queries + query_start..][..n_queries];
            let place = (task / tiles * rows + tile * BLOCK) * columns;
            // SAFETY: each task has its own rows.
            let out = unsafe { shared.range(place, n_queries * columns) };
            let keys = keys.clone();
            dispatch(QueryTile { problem, query, key, lse, example, head, query_start, keys, out });
        });
    })
}

/// The rows of up to 64 queries.
struct QueryTile<'a> {
    problem: &'a Problem<'a>,
    query: Heads<'a>,
    key: Heads<'a>,
    lse: &'a [f32],
    example: usize,
    head: usize,
    query_start: usize,
    keys: Range<usize>,
    out: &'a mut [f32],
}

impl WithSimd for QueryTile<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let Self { problem, query, key, lse, example, head, query_start, keys, out } = self;
        let (width, n_queries, columns) = (problem.width, lse.len(), keys.len());
        let lanes = n_queries.next_multiple_of(S::F32_LANES);
        let mut turned = Buffer::zeros(width * BLOCK);
        let mut scores = Buffer::dirty(BLOCK * BLOCK);
        let from = (query.from(example, head, query_start), query.strides.row);
        let to = (turned.as_mut_slice(), BLOCK);
        transpose(s, (n_queries, width), from, to, problem.scale * LOG2_E);
        let mut shift = [0.0; BLOCK];
        for (shift, lse) in shift.iter_mut().zip(lse) {
            *shift = lse * LOG2_E;
        }
        for start in keys.clone().step_by(BLOCK) {
            let len = BLOCK.min(keys.end - start);
            let at =
                TileAt { example, head, query_start, n_queries, tile: KeyTile { start, len, bits: None } };
            let rows = key.from(example, head / problem.group(), start);
            let a = Operand { start: rows.as_ptr(), row: key.strides.row, column: 1 };
            let scores = scores.as_mut_slice();
            let (b, c) = ((turned.as_slice().as_ptr(), BLOCK), (scores.as_mut_ptr(), BLOCK));
            // SAFETY: `len` keys of the tile, `lanes` (at most 64) lanes of the query tile and of the scores.
            unsafe { tile::product(s, (len, lanes, width), a, b, c, Start::Zero) };
            if let Some(cap) = problem.cap {
                cap.apply(s, scores, Group { start: 0, len, first: 0 }, lanes);
            }
            problem.add_bias(scores, at);
            problem.exclude(scores, at);
            for row in scores.chunks_mut(BLOCK).take(len) {
                for lane in (0..lanes).step_by(S::F32_LANES) {
                    // SAFETY: lanes below 64.
                    unsafe {
                        let place = row[lane..].as_mut_ptr();
                        let score = s.sub_f32s(load(s, place), load(s, shift[lane..].as_ptr()));
                        store(s, place, exp2_to_one(s, score));
                    }
                }
            }
            for (q, out) in out.chunks_mut(columns).enumerate() {
                let out = &mut out[start - keys.start..][..len];
                for (k, out) in out.iter_mut().enumerate() {
                    let allowed = problem
                        .blocks
                        .is_none_or(|blocks| blocks.allows((example, head), query_start + q, start + k));
                    let weight = scores[k * BLOCK + q];
                    // In a row that may attend to nothing the log-sum-exp is −∞, and so is every score.
                    *out = if allowed && lse[q] > f32::NEG_INFINITY { weight } else { 0.0 };
                }
            }
        }
    }
}
