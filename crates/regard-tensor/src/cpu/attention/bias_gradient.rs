//! The gradient of what was added to the scores: sums of dS, by pair or by distance.

use super::{Bias, Group, Problem, TileAt};
use crate::array::Array;
use crate::blocks::BLOCK;
use crate::cpu::broadcast::AddInto;
use crate::cpu::simd::dispatch;
use crate::cpu::threads::Shared;
use crate::kernels::attention::BiasGradient;
use crate::pool::Buffer;

/// The bias gradient a query tile collects.
pub(super) enum BiasTile {
    None,
    /// By distance, at query lane − key + keys − 1.
    Distance(Vec<f32>),
    /// (64 queries, keys).
    Dense(Vec<f32>),
}

impl BiasTile {
    pub fn new(problem: &Problem) -> Self {
        match problem.bias {
            Bias::None => Self::None,
            Bias::Distance(_) => Self::Distance(vec![0.0; problem.keys + BLOCK]),
            Bias::Dense { .. } => Self::Dense(vec![0.0; BLOCK * problem.keys]),
        }
    }

    /// Ready for another tile of queries.
    pub fn clear(&mut self) {
        match self {
            Self::None => {}
            Self::Distance(sums) | Self::Dense(sums) => sums.fill(0.0),
        }
    }

    /// Adds the gradients of a group of keys.
    pub fn collect(&mut self, problem: &Problem, slopes: &[f32], at: TileAt, group: Group) {
        if matches!(self, Self::None) {
            return;
        }
        for key in group.start..group.start + group.len {
            let slopes = &slopes[key * BLOCK + group.first..key * BLOCK + at.n_queries.max(group.first)];
            let key = at.tile.start + key;
            match self {
                Self::None => {}
                Self::Distance(sums) => {
                    let sums = &mut sums[group.first + problem.keys - 1 - key..];
                    sums.iter_mut().zip(slopes).for_each(|(sum, slope)| *sum += slope);
                }
                Self::Dense(sums) => {
                    for (lane, slope) in slopes.iter().enumerate() {
                        sums[(group.first + lane) * problem.keys + key] = *slope;
                    }
                }
            }
        }
    }
}

/// Sums of dS in the form of the bias, apart for each task until the end.
pub(super) struct BiasSums {
    sums: Buffer,
    shared: Shared<f32>,
    /// Values of each task (by distance) or of each plane (dense).
    per_part: usize,
}

impl BiasSums {
    pub fn new(problem: &Problem, tasks: usize) -> Self {
        let Problem { batch, heads, queries, keys, .. } = *problem;
        let (per_part, parts) = match problem.bias {
            Bias::None => (0, 0),
            // A task sees the heads of one group.
            Bias::Distance(_) => (problem.group() * (queries + keys - 1), tasks),
            Bias::Dense { .. } => (queries * keys, batch * heads),
        };
        let mut sums = Buffer::zeros(per_part * parts);
        let shared = Shared::new(sums.as_mut_slice());
        Self { sums, shared, per_part }
    }

    /// Takes over what one query tile collected.
    pub fn add(
        &self,
        problem: &Problem,
        task: usize,
        (example, head, tile): (usize, usize, usize),
        collected: &BiasTile,
    ) {
        let Problem { heads, queries, keys, .. } = *problem;
        let n = BLOCK.min(queries - tile * BLOCK);
        match collected {
            BiasTile::None => {}
            BiasTile::Distance(sums) => {
                let span = queries + keys - 1;
                let start = task * self.per_part + head % problem.group() * span + tile * BLOCK;
                // SAFETY: each task has its own part.
                let total = unsafe { self.shared.range(start, keys + n - 1) };
                dispatch(AddInto { total, x: sums });
            }
            BiasTile::Dense(sums) => {
                let start = (example * heads + head) * self.per_part + tile * BLOCK * keys;
                // SAFETY: each query tile of each head belongs to one task.
                unsafe { self.shared.range(start, n * keys) }.copy_from_slice(&sums[..n * keys]);
            }
        }
    }

    pub fn finish(self, problem: &Problem) -> BiasGradient {
        let Problem { batch, heads, queries, keys, .. } = *problem;
        let sums = self.sums.as_slice();
        match problem.bias {
            Bias::None => BiasGradient::None,
            Bias::Distance(_) => {
                let span = queries + keys - 1;
                let mut total = Array::zeros(heads * span);
                // Parts are ordered by example, key-value head, stretch; within a part by the heads of the group.
                let parts = sums.len() / self.per_part.max(1);
                let stretches = parts / (batch * problem.kv_heads).max(1);
                for (part, sums) in sums.chunks(self.per_part.max(1)).enumerate() {
                    let first = part / stretches.max(1) % problem.kv_heads * problem.group();
                    let total = &mut total.slice_mut()[first * span..(first + problem.group()) * span];
                    dispatch(AddInto { total, x: sums });
                }
                BiasGradient::Distance(total)
            }
            Bias::Dense { batch: batch_stride, head: head_stride, .. } => {
                let (own_batch, own_heads) =
                    (if batch_stride == 0 { 1 } else { batch }, if head_stride == 0 { 1 } else { heads });
                let mut total = Array::zeros(own_batch * own_heads * self.per_part);
                for (plane, sums) in sums.chunks(self.per_part.max(1)).enumerate() {
                    let (example, head) = (plane / heads % own_batch, plane % heads % own_heads);
                    let start = (example * own_heads + head) * self.per_part;
                    let total = &mut total.slice_mut()[start..start + self.per_part];
                    dispatch(AddInto { total, x: sums });
                }
                BiasGradient::Dense(total)
            }
        }
    }
}
