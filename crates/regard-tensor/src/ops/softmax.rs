//! Softmax and log-softmax over the last axis, with or without a mask.

use crate::error::{Error, Result};
use crate::ids::Mask;
use crate::kernels::softmax;
use crate::tape::Inputs;
use crate::tensor::Tensor;

impl Tensor {
    /// eˣ / Σ eˣ over the last axis, shifted by each row's maximum so that nothing overflows.
    ///
    /// With weights w: dx = w·(g − Σ g·w).
    pub fn softmax(&self) -> Result<Tensor> {
        self.weigh(None, false)
    }

    /// Softmax over the places that `mask` (broadcast to this shape) allows. The others weigh exactly 0; a row
    /// with nothing allowed is all 0.
    pub fn softmax_masked(&self, mask: &Mask) -> Result<Tensor> {
        self.weigh(Some(mask), false)
    }

    /// ln softmax(x), exact where softmax would round to 0. With y the result: dx = g − e^y·Σ g.
    pub fn log_softmax(&self) -> Result<Tensor> {
        self.weigh(None, true)
    }

    /// Log-softmax over the places that `mask` allows; the others are −∞.
    pub fn log_softmax_masked(&self, mask: &Mask) -> Result<Tensor> {
        self.weigh(Some(mask), true)
    }

    fn weigh(&self, mask: Option<&Mask>, log: bool) -> Result<Tensor> {
        let width = self.shape().last();
        if let Some(mask) = mask
            && (mask.shape().broadcast(self.shape(), "softmax")? != *self.shape())
        {
            return Err(Error::shape("softmax", format!("a mask for {}", self.shape()), mask.shape()));
        }
        let value = softmax::forward(&self.array, self.shape(), mask, log)?;
        let saved = value.clone();
        Ok(Tensor::from_array(value, self.shape()).with_rule(&[self], || {
            move |g: Tensor, inputs: &mut Inputs| {
                let gradient = softmax::backward(&saved, &g.array, width, log)?;
                inputs.send(0, Tensor::from_array(gradient, g.shape()))
            }
        }))
    }
}
