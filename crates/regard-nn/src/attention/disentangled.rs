//! Disentangled attention (He et al., 2020): contents and relative positions have vectors of their own.
//!
//! ```text
//! score(q, k) = Q[q]·K[k] + Q[q]·Kʳ[q − k] + K[k]·Qʳ[q − k]          all scaled alike
//!               content     content to        position to
//!                           position          content
//! ```

use super::heads::AttentionConfig;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Linear, LinearConfig};
use crate::parameter::{Draw, Initial, module};
use regard_tensor::ops::concatenate;
use regard_tensor::{Device, Ids, Tensor};
use serde::{Deserialize, Serialize};

/// Which scores positions have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisentangledConfig {
    /// Whether queries are compared with relative positions.
    pub content_to_position: bool,
    /// Whether keys are compared with relative positions.
    pub position_to_content: bool,
    /// Whether positions are projected as contents are, rather than by layers of their own.
    pub shared: bool,
}

/// The vectors of relative positions that all layers share, and which of them each distance has.
#[derive(Debug, Clone)]
pub struct RelativeVectors {
    /// (rows, width of the model).
    pub table: Tensor,
    /// The rows of the distances from query to key, from `time − 1` down to `1 − time`: (2·time − 1).
    pub rows: Ids,
}

impl RelativeVectors {
    pub(super) fn on(self, device: Device) -> Result<Self> {
        Ok(Self { table: self.table.to(device)?, rows: self.rows })
    }
}

/// The projections of relative positions, where they are not those of contents.
#[derive(Debug, Clone)]
pub(super) struct Disentangled {
    key: Option<Linear>,
    query: Option<Linear>,
}

module!(Disentangled { key, query });

impl Disentangled {
    pub fn new(
        initial: &Initial,
        config: &AttentionConfig,
        form: DisentangledConfig,
        draw: Draw,
    ) -> Result<Self> {
        let linear = |name: &str, wanted: bool, bias: bool| {
            let outputs = config.n_heads * config.d_head;
            let linear = LinearConfig { bias, ..LinearConfig::new(config.d_model, outputs) };
            (wanted && !form.shared).then(|| Linear::new(&initial.part(name), linear, draw)).transpose()
        };
        Ok(Self {
            key: linear("key", form.content_to_position, config.bias.key)?,
            query: linear("query", form.position_to_content, config.bias.query)?,
        })
    }

    /// What positions add to the scores (batch, heads, time, time) of queries and keys (batch, time, heads, width), each
    /// part shown to the probe. `shared` are the projections of contents, queries first.
    pub fn scores(
        &self,
        context: &Context,
        (form, scale): (DisentangledConfig, f32),
        (vectors, shared): (&RelativeVectors, (&Linear, &Linear)),
        (query, key): (&Tensor, &Tensor),
    ) -> Result<Option<Tensor>> {
        let time = query.shape().get(1).copied().unwrap_or(0);
        if query.shape() != key.shape() || vectors.rows.values().len() + 1 != 2 * time {
            let problem = "relative positions are those of a text that attends to itself";
            return Err(Error::input("disentangled attention", problem));
        }
        let mut sum: Option<Tensor> = None;
        if form.content_to_position {
            let rows = self.key.as_ref().unwrap_or(shared.1).forward(context, &vectors.table)?;
            let scores = by_distance(query, &rows.embedding(&vectors.rows)?)?.scale(scale)?;
            sum = Some(context.see("content_to_position", scores)?);
        }
        if form.position_to_content {
            let rows = self.query.as_ref().unwrap_or(shared.0).forward(context, &vectors.table)?;
            // Seen from the keys, distances have the other sign.
            let turned: Vec<u32> = vectors.rows.values().iter().rev().copied().collect();
            let turned = rows.embedding(&Ids::new(&turned, vectors.rows.shape())?)?;
            let scores = by_distance(key, &turned)?.transpose(2, 3)?.scale(scale)?;
            let scores = context.see("position_to_content", scores)?;
            sum = Some(match sum {
                Some(sum) => sum.add(&scores)?,
                None => scores,
            });
        }
        Ok(sum)
    }
}

/// Dot products (batch, heads, time, time) of vectors (batch, time, heads, width) with those of distances
/// (2·time − 1, heads·width): entry (i, j) takes row j − i + time − 1.
fn by_distance(x: &Tensor, distances: &Tensor) -> Result<Tensor> {
    let [batch, time, heads, width] = x.shape()[..] else {
        return Err(Error::input("disentangled attention", format!("vectors of {}", x.shape())));
    };
    let span = 2 * time - 1;
    let distances = distances.reshape([span, heads, width])?.permute(&[1, 0, 2])?; // (H, 2T − 1, D)
    let x = x.permute(&[2, 0, 1, 3])?.reshape([heads, batch * time, width])?;
    let all = x.matmul_transposed(&distances, false, true)?; // (H, B·T, 2T − 1)
    let all = all.reshape([heads * batch, time, span])?;
    // With one more column, entry (i, j − i + time − 1) lies at i·(2T − 1) + j + time − 1: rows of 2T − 1 again, which
    // begin at column 0 once the first time − 1 entries are left out.
    let column = Tensor::full_on(all.device(), [heads * batch, time, 1], 0.0)?;
    let flat = concatenate(&[&all, &column], 2)?.reshape([heads * batch, 2 * time * time])?;
    let skewed = flat.slice(1, time - 1, time * span)?.reshape([heads * batch, time, span])?;
    let scores = skewed.slice(2, 0, time)?.reshape([heads, batch, time, time])?;
    Ok(scores.permute(&[1, 0, 2, 3])?)
}
