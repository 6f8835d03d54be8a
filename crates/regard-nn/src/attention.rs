//! Scaled dot-product attention, as the paper writes it, and the forms of it that run fast.
//!
//! ```text
//! Attention(Q, K, V) = softmax(Q·Kᵀ / √d) · V            (Vaswani et al., 2017, equation 1)
//! ```
//!
//! ```
//! use regard_nn::attention::{Scale, scaled_dot_product};
//! use regard_nn::tensor::Tensor;
//!
//! let query = Tensor::new(&[0.0, 0.0], [1, 2])?;
//! let key = Tensor::new(&[1.0, 0.0, 0.0, 1.0], [2, 2])?;
//! let value = Tensor::new(&[10.0, 20.0], [2, 1])?;
//! let (output, weights) = scaled_dot_product(&query, &key, &value, None, Scale::InverseRoot)?;
//! assert_eq!(weights.to_vec(), [0.5, 0.5]); // a query that prefers nobody looks at everyone
//! assert_eq!(output.to_vec(), [15.0]);
//! # Ok::<(), regard_nn::Error>(())
//! ```

mod additive;
mod cache;
mod dense;
mod disentangled;
mod heads;
mod linear;
mod pattern;
mod rules;
mod weights;

pub use additive::Additive;
pub use cache::Cache;
pub use disentangled::{DisentangledConfig, RelativeVectors};
pub use heads::{AttentionConfig, AttentionKind, Biases, MultiHead, QueryKeyNorm};
pub use pattern::Pattern;
pub use rules::{How, Rules, Score, Weigh, attend};
pub use weights::Weights;

use crate::error::Result;
use regard_tensor::{Mask, Tensor};
use serde::{Deserialize, Serialize};

/// What the scores are multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// 1/√d: keeps the variance of the scores at 1 when queries and keys have variance 1.
    #[default]
    InverseRoot,
    /// Nothing: the scores are plain dot products.
    None,
    /// Some other factor.
    Factor(f32),
}

impl Scale {
    /// The factor for queries and keys of a given width.
    pub fn factor(self, width: usize) -> f32 {
        match self {
            Self::InverseRoot => 1.0 / (width as f32).sqrt(),
            Self::None => 1.0,
            Self::Factor(factor) => factor,
        }
    }
}

/// The output and the weights of attention, step by step.
///
/// Queries are (…, queries, d), keys (…, keys, d), values (…, keys, dv); `mask` (broadcast to (…, queries, keys)) is
/// true where a query may look at a key. Every other kind of attention in this library is tested against this one.
pub fn scaled_dot_product(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    mask: Option<&Mask>,
    scale: Scale,
) -> Result<(Tensor, Tensor)> {
    // Q·Kᵀ: how well each query fits each key (…, queries, keys).
    let scores = query.matmul_transposed(key, false, true)?;
    // Divided by √d, so that the scores of long vectors are no larger than those of short ones.
    let scores = scores.scale(scale.factor(query.shape().last()))?;
    // In each row, weights that sum to 1 over the keys that may be seen.
    let weights = match mask {
        Some(mask) => scores.softmax_masked(mask)?,
        None => scores.softmax()?,
    };
    // The values, weighted (…, queries, dv).
    let output = weights.matmul(value)?;
    Ok((output, weights))
}
