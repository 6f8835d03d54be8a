//! Dropout (Srivastava et al., 2014): some values become 0, the others grow to keep the mean.

use crate::error::{Error, Result};
use crate::kernels::dropout::{self, Draws};
use crate::random::Key;
use crate::tape::Inputs;
use crate::tensor::Tensor;

/// Which values to drop: a share of them, drawn by place (see [`crate::random`]).
#[derive(Debug, Clone, Copy)]
pub struct Dropout {
    /// The share of values that become 0.
    pub probability: f32,
    /// The source of the draws; name the step and the site in it.
    pub key: Key,
    /// The index in the data of the first example of the batch.
    pub first_example: u64,
}

impl Dropout {
    /// `None` where nothing is to be dropped.
    pub(crate) fn draws(&self, operation: &'static str, per_example: usize) -> Result<Option<Draws>> {
        let p = self.probability;
        if !(0.0..1.0).contains(&p) {
            return Err(Error::setting(operation, "probability", "at least 0 and below 1", p));
        }
        Ok((p > 0.0).then(|| Draws {
            key: self.key,
            first_example: self.first_example,
            per_example,
            threshold: (f64::from(p) * 4294967296.0) as u32,
            scale: 1.0 / (1.0 - p),
        }))
    }
}

impl Tensor {
    /// Each value, with the given probability, becomes 0, else x / (1 − p). The leading axis counts examples.
    ///
    /// The gradient is dropped in the same places: they are drawn again, not stored.
    pub fn dropout(&self, dropout: &Dropout) -> Result<Tensor> {
        let examples = self.shape().first().copied().unwrap_or(1).max(1);
        let Some(draws) = dropout.draws("dropout", self.count() / examples)? else {
            return Ok(self.clone());
        };
        let value = dropout::apply(&self.array, draws)?;
        Ok(Tensor::from_array(value, self.shape()).with_rule(&[self], || {
            move |g: Tensor, inputs: &mut Inputs| {
                inputs.send(0, Tensor::from_array(dropout::apply(&g.array, draws)?, g.shape()))
            }
        }))
    }
}
