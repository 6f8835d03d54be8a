//! Linear attention (Katharopoulos et al., *Transformers are RNNs*, 2020): time and memory grow with length, not with its
//! square.
//!
//! ```text
//! output_i = φ(q_i)·Σ_j φ(k_j)ᵀ·v_j / φ(q_i)·Σ_j φ(k_j),       φ(x) = elu(x) + 1
//! ```
//!
//! Where everyone sees everyone, the two sums are the same for all queries. The causal form takes blocks in order: within
//! a block it is quadratic, and what came before is carried in the sums.

use crate::error::Result;
use regard_tensor::ops::concatenate;
use regard_tensor::{Device, Mask, Tensor};

/// Queries in a block of the causal form.
const BLOCK: usize = 64;

/// Linear attention of queries (batch·heads, queries, width), keys (batch·heads, keys, width) and values
/// (batch·heads, keys, value width) after the feature map φ. `causal` needs as many queries as keys.
pub(super) fn attend(query: &Tensor, key: &Tensor, value: &Tensor, causal: bool) -> Result<Tensor> {
    // A column of ones beside the values makes the denominator one more value.
    let value = with_ones(value)?;
    let sums = if causal {
        let rows = query.shape()[1];
        let mut state: Option<Tensor> = None; // Σ φ(k)ᵀ·[v 1] so far: (B·H, D, Dv + 1)
        let mut outputs = Vec::new();
        for start in (0..rows).step_by(BLOCK) {
            let length = BLOCK.min(rows - start);
            let part = |x: &Tensor| x.slice(1, start, length);
            let (q, k, v) = (part(query)?, part(key)?, part(&value)?);
            let within = q
                .matmul_transposed(&k, false, true)?
                .multiply(&lower_triangle(length, q.device())?)?
                .matmul(&v)?;
            outputs.push(match &state {
                Some(state) => within.add(&q.matmul(state)?)?,
                None => within,
            });
            let change = k.matmul_transposed(&v, true, false)?;
            state = Some(match state {
                Some(state) => state.add(&change)?,
                None => change,
            });
        }
        concatenate(&outputs.iter().collect::<Vec<_>>(), 1)?
    } else {
        query.matmul(&key.matmul_transposed(&value, true, false)?)?
    };
    let width = sums.shape().last() - 1;
    let total = sums.slice(-1, width, 1)?;
    // A query that may attend to nothing has 0 over 0: its output is 0.
    let total = total.add(&nothing(&total)?)?;
    Ok(sums.slice(-1, 0, width)?.divide(&total)?)
}

/// The feature map; keys that are padding (batch, keys) become 0, so that nobody sees them.
pub(super) fn features(x: &Tensor, present: Option<&Mask>) -> Result<Tensor> {
    let features = x.elu_plus_one()?; // (B, T, H, D)
    match present {
        None => Ok(features),
        Some(present) => {
            let shape = [present.shape()[0], present.shape()[1], 1, 1];
            let values = |mask: &[bool]| mask.iter().map(|&here| f32::from(here)).collect();
            let present = present.derive_values(x.device(), shape, values)?;
            Ok(features.multiply(&present)?)
        }
    }
}

fn with_ones(value: &Tensor) -> Result<Tensor> {
    let shape = value.shape();
    Ok(concatenate(&[value, &Tensor::full_on(value.device(), [shape[0], shape[1], 1], 1.0)?], -1)?)
}

fn lower_triangle(length: usize, device: Device) -> Result<Tensor> {
    let values: Vec<f32> = (0..length * length).map(|i| f32::from(i % length <= i / length)).collect();
    Ok(Tensor::new(&values, [length, length])?.to(device)?)
}

/// 1 where a total is exactly 0, else 0.
fn nothing(total: &Tensor) -> Result<Tensor> {
    let values: Vec<f32> = total.values().iter().map(|&total| f32::from(total == 0.0)).collect();
    Ok(Tensor::new(&values, total.shape())?.to(total.device())?)
}
