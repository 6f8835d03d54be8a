//! Layer norm (Ba et al., 2016) and RMS norm (Zhang & Sennrich, 2019) over the last axis.

use crate::error::{Result, ensure_shape};
use crate::kernels::norm::{self, Kind};
use crate::tape::Inputs;
use crate::tensor::{Tensor, ensure_same_device};

impl Tensor {
    /// (x − mean) / √(variance + ε) · weight + bias for each row.
    pub fn layer_norm(&self, weight: &Tensor, bias: Option<&Tensor>, epsilon: f32) -> Result<Tensor> {
        self.normalise(Kind::Layer, weight, bias, epsilon)
    }

    /// x / √(mean(x²) + ε) · weight for each row.
    pub fn rms_norm(&self, weight: &Tensor, epsilon: f32) -> Result<Tensor> {
        self.normalise(Kind::Rms, weight, None, epsilon)
    }

    fn normalise(&self, kind: Kind, weight: &Tensor, bias: Option<&Tensor>, epsilon: f32) -> Result<Tensor> {
        let width = self.shape().last();
        for parameter in [weight].into_iter().chain(bias) {
            ensure_shape(
                self.shape().rank() >= 1 && parameter.shape()[..] == [width],
                "norm",
                || format!("a parameter of [{width}]"),
                || parameter.shape().to_string(),
            )?;
        }
        let parents: Vec<&Tensor> = [self, weight].into_iter().chain(bias).collect();
        ensure_same_device("norm", parents.iter().copied())?;
        let bias_array = bias.map(|bias| &bias.array);
        let (value, moments) = norm::forward(kind, &self.array, &weight.array, bias_array, width, epsilon)?;
        let (x, w, has_bias) = (self.detach(), weight.detach(), bias.is_some());
        Ok(Tensor::from_array(value, self.shape()).with_rule(&parents, || {
            move |g: Tensor, inputs: &mut Inputs| {
                let gradients = norm::backward(kind, &x.array, &w.array, &moments, &g.array)?;
                inputs.send(0, Tensor::from_array(gradients.x, x.shape()))?;
                inputs.send(1, Tensor::from_array(gradients.weight, w.shape()))?;
                if has_bias {
                    inputs.send(2, Tensor::from_array(gradients.bias, w.shape()))?;
                }
                Ok(())
            }
        }))
    }
}
