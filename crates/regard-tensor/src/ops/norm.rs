//! Layer norm (Ba et al., 2016) and RMS norm (Zhang & Sennrich, 2019) over the last axis.

use crate::array::Array;
use crate::error::{Result, ensure_shape};
use crate::kernels::norm::{self, Kind, Moments, Norm};
use crate::tape::Inputs;
use crate::tensor::{Tensor, ensure_same_device};

/// The parameters of a norm.
#[derive(Clone, Copy)]
struct Settings<'a> {
    kind: Kind,
    weight: &'a Tensor,
    bias: Option<&'a Tensor>,
    epsilon: f32,
}

impl Tensor {
    /// (x − mean) / √(variance + ε) · weight + bias for each row.
    pub fn layer_norm(&self, weight: &Tensor, bias: Option<&Tensor>, epsilon: f32) -> Result<Tensor> {
        self.normalise(Settings { kind: Kind::Layer, weight, bias, epsilon })
    }

    /// x / √(mean(x²) + ε) · weight for each row.
    pub fn rms_norm(&self, weight: &Tensor, epsilon: f32) -> Result<Tensor> {
        self.normalise(Settings { kind: Kind::Rms, weight, bias: None, epsilon })
    }

    /// The sum of two tensors of one shape, and its [`layer_norm`](Self::layer_norm), in one pass where the device can: what
    /// a transformer's block does between its sublayers.
    ///
    /// ```
    /// use regard_tensor::Tensor;
    /// let (stream, output) = (Tensor::full([2, 3], 1.0), Tensor::new(&[0.0, 1.0, 2.0, 0.0, 2.0, 4.0], [2, 3])?);
    /// let (sum, normed) = stream.add_layer_norm(&output, &Tensor::full([3], 1.0), None, 1e-5)?;
    /// assert_eq!(sum.to_vec(), [1.0, 2.0, 3.0, 1.0, 3.0, 5.0]);
    /// assert!(normed.sum_all()?.item()?.abs() < 1e-5);
    /// # Ok::<(), regard_tensor::Error>(())
    /// ```
    pub fn add_layer_norm(
        &self,
        other: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        epsilon: f32,
    ) -> Result<(Tensor, Tensor)> {
        self.add_normalise(other, Settings { kind: Kind::Layer, weight, bias, epsilon })
    }

    /// The sum of two tensors of one shape, and its [`rms_norm`](Self::rms_norm).
    pub fn add_rms_norm(&self, other: &Tensor, weight: &Tensor, epsilon: f32) -> Result<(Tensor, Tensor)> {
        self.add_normalise(other, Settings { kind: Kind::Rms, weight, bias: None, epsilon })
    }

    fn normalise(&self, settings: Settings) -> Result<Tensor> {
        settings.check(self)?;
        let (value, moments) = norm::forward(&self.array, settings.kernel())?;
        Ok(settings.recorded(self, value, moments))
    }

    fn add_normalise(&self, other: &Tensor, settings: Settings) -> Result<(Tensor, Tensor)> {
        ensure_shape(
            self.shape() == other.shape(),
            "norm",
            || format!("a second term of {}", self.shape()),
            || other.shape().to_string(),
        )?;
        ensure_same_device("norm", [self, other])?;
        settings.check(self)?;
        let (sum, value, moments) =
            norm::add_forward(&self.array, &other.array, self.shape(), settings.kernel())?;
        let sum = Tensor::from_array(sum, self.shape()).with_rule(&[self, other], || {
            |g: Tensor, inputs: &mut Inputs| {
                inputs.send(0, g.clone())?;
                inputs.send(1, g)
            }
        });
        let normed = settings.recorded(&sum, value, moments);
        Ok((sum, normed))
    }
}

impl Settings<'_> {
    fn check(&self, x: &Tensor) -> Result<()> {
        let width = x.shape().last();
        for parameter in [self.weight].into_iter().chain(self.bias) {
            ensure_shape(
                x.shape().rank() >= 1 && parameter.shape()[..] == [width],
                "norm",
                || format!("a parameter of [{width}]"),
                || parameter.shape().to_string(),
            )?;
        }
        ensure_same_device("norm", [x, self.weight].into_iter().chain(self.bias))
    }

    fn kernel(&self) -> Norm<'_> {
        let Self { kind, weight, bias, epsilon } = *self;
        Norm { kind, weight: &weight.array, bias: bias.map(|bias| &bias.array), epsilon }
    }

    /// The norm of `x` with its place in the graph.
    fn recorded(&self, x: &Tensor, value: Array, moments: Moments) -> Tensor {
        let Self { kind, weight, bias, epsilon } = *self;
        let parents: Vec<&Tensor> = [x, weight].into_iter().chain(bias).collect();
        let (x, w, has_bias) = (x.detach(), weight.detach(), bias.is_some());
        Tensor::from_array(value, x.shape()).with_rule(&parents, || {
            move |g: Tensor, inputs: &mut Inputs| {
                let norm = Norm { kind, weight: &w.array, bias: None, epsilon };
                // In a residual stream, the gradient that passes by the norm is there already.
                let total = inputs.take(0);
                let gradients = norm::backward(&x.array, norm, &moments, &g.array, total)?;
                inputs.send(0, Tensor::from_array(gradients.x, x.shape()))?;
                inputs.send(1, Tensor::from_array(gradients.weight, w.shape()))?;
                if has_bias {
                    inputs.send(2, Tensor::from_array(gradients.bias, w.shape()))?;
                }
                Ok(())
            }
        })
    }
}
