//! Attention weights that are computed when someone looks at them.

use crate::error::Result;
use regard_tensor::Tensor;
use regard_tensor::ops::Attended;
use std::fmt;
use std::ops::Range;

/// The weights of one attention: who looked at whom, and how much.
#[derive(Clone)]
pub struct Weights(Kind);

#[derive(Clone)]
enum Kind {
    /// What the tiled kernel leaves behind, from which any block can be computed.
    Tiled(Box<Attended>, [usize; 4]),
    /// (batch, heads, queries, keys).
    Dense(Tensor),
}

impl Weights {
    pub(super) fn tiled(attended: &Attended, keys: usize) -> Self {
        let rows = attended.log_sum_exp.shape();
        let sizes = [rows[0], rows[1], rows[2], keys];
        let mut attended = attended.clone();
        attended.output = attended.output.detach();
        Self(Kind::Tiled(Box::new(attended), sizes))
    }

    pub(crate) fn dense(weights: Tensor) -> Self {
        Self(Kind::Dense(weights))
    }

    /// Batch, heads, queries, keys.
    pub fn sizes(&self) -> [usize; 4] {
        match &self.0 {
            Kind::Tiled(_, sizes) => *sizes,
            Kind::Dense(weights) => {
                let shape = weights.shape();
                [shape[0], shape[1], shape[2], shape[3]]
            }
        }
    }

    /// A block of one head's weights: (queries, keys).
    pub fn block(
        &self,
        example: usize,
        head: usize,
        queries: Range<usize>,
        keys: Range<usize>,
    ) -> Result<Tensor> {
        Ok(match &self.0 {
            Kind::Tiled(attended, _) => attended.weights(example, head, queries, keys)?,
            Kind::Dense(weights) => weights
                .select(0, example)?
                .select(0, head)?
                .slice(0, queries.start, queries.len())?
                .slice(1, keys.start, keys.len())?,
        })
    }

    /// All weights of one head: (queries, keys).
    pub fn head(&self, example: usize, head: usize) -> Result<Tensor> {
        let [_, _, queries, keys] = self.sizes();
        self.block(example, head, 0..queries, 0..keys)
    }

    /// All weights: (batch, heads, queries, keys).
    pub fn all(&self) -> Tensor {
        match &self.0 {
            Kind::Tiled(attended, _) => attended.all_weights(),
            Kind::Dense(weights) => weights.clone(),
        }
    }
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [batch, heads, queries, keys] = self.sizes();
        write!(f, "Weights [{batch}×{heads}×{queries}×{keys}]")
    }
}
