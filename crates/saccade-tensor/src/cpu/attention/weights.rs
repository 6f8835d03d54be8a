//! Any block of attention weights, computed on demand from Q, K and the log-sum-exp.

use super::{Heads, KeyTile, Problem, TileAt};
use crate::array::Array;
use crate::blocks::BLOCK;
use crate::cpu::threads;
use std::f32::consts::LOG2_E;
use std::ops::Range;

/// The weights of one head for a range of queries and keys: (queries, keys). Dropout is left out.
///
/// Written for clarity: it serves people who look at a few thousand weights, not the training loop.
pub(super) fn weights(
    problem: &Problem,
    (query, key, lse): (Heads, Heads, &[f32]),
    (example, head): (usize, usize),
    queries: Range<usize>,
    keys: Range<usize>,
) -> Array {
    let columns = keys.len();
    let lse = &lse[(example * problem.heads + head) * problem.queries..][..problem.queries];
    Array::build(queries.len() * columns, |out| {
        threads::chunks(out, (BLOCK * columns).max(1), |index, out| {
            let query_start = queries.start + index * BLOCK;
            let n_queries = out.len() / columns.max(1);
            let mut scores = vec![0.0; BLOCK * BLOCK];
            for start in keys.clone().step_by(BLOCK) {
                let len = BLOCK.min(keys.end - start);
                let at = TileAt {
                    example,
                    head,
                    query_start,
                    n_queries,
                    tile: KeyTile { start, len, bits: None },
                };
                for k in 0..len {
                    let k_row = &key.from(example, head / problem.group(), start + k)[..problem.width];
                    for q in 0..n_queries {
                        let q_row = &query.from(example, head, query_start + q)[..problem.width];
                        let dot: f32 = q_row.iter().zip(k_row).map(|(q, k)| q * k).sum();
                        scores[k * BLOCK + q] = dot * problem.scale * LOG2_E;
                    }
                }
                problem.add_bias(&mut scores, at);
                problem.exclude(&mut scores, at);
                for q in 0..n_queries {
                    let lse = lse[query_start + q] * LOG2_E;
                    for k in 0..len {
                        let allowed = problem
                            .blocks
                            .is_none_or(|blocks| blocks.allows((example, head), query_start + q, start + k));
                        let weight = (scores[k * BLOCK + q] - lse).exp2();
                        let place = q * columns + start - keys.start + k;
                        // In a row that may attend to nothing both are −∞.
                        out[place] = if allowed && !weight.is_nan() { weight } else { 0.0 };
                    }
                }
            }
        });
    })
}
