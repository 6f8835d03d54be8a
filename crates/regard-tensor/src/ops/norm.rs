//! Layer norm (Ba et al., 2016) and RMS norm (Zhang & Sennrich, 2019) over the last axis.

use crate::cpu::norm::{self, Kind};
use crate::error::{Result, ensure_shape};
use crate::tape::Gradient;
use crate::tensor::Tensor;

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
        let bias_array = bias.map(|bias| &bias.array);
        let (value, moments) = norm::forward(kind, &self.array, &weight.array, bias_array, width, epsilon);
        let (x, w) = (self.detach(), weight.detach());
        let parents: Vec<&Tensor> = [self, weight].into_iter().chain(bias).collect();
        Ok(Tensor::from_array(value, self.shape()).with_rule(&parents, || {
            move |g: Tensor, wanted: &[bool]| {
                let gradients = norm::backward(kind, &x.array, &w.array, &moments, &g.array);
                let dense = |array, shape| Some(Gradient::Dense(Tensor::from_array(array, shape)));
                let mut all = vec![dense(gradients.x, x.shape()), dense(gradients.weight, w.shape())];
                if wanted.len() == 3 {
                    all.push(dense(gradients.bias, w.shape()));
                }
                Ok(all)
            }
        }))
    }
}
