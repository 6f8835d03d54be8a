//! Norms of vectors.

use crate::context::Context;
use crate::error::Result;
use crate::parameter::{Draw, Initial, Parameter, module};
use regard_tensor::{Shape, Tensor};
use serde::{Deserialize, Serialize};

/// How vectors are brought to a common size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormKind {
    /// (x − mean) / deviation · weight + bias (Ba et al., 2016).
    Layer,
    /// The same without the bias (MPT, Cohere).
    LayerWithoutBias,
    /// The same with nothing learned (OLMo).
    LayerPlain,
    /// x / √mean(x²) · weight (Zhang & Sennrich, 2019).
    RootMeanSquare,
    /// x / √mean(x²) · (1 + weight), so that weights near 0 leave the scale alone (Gemma).
    RootMeanSquareAroundOne,
}

impl NormKind {
    /// Whether the mean is subtracted.
    fn is_centred(self) -> bool {
        matches!(self, Self::Layer | Self::LayerWithoutBias | Self::LayerPlain)
    }
}

/// A norm, described.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormConfig {
    /// Which one.
    pub kind: NormKind,
    /// Keeps it from dividing by 0.
    pub epsilon: f32,
}

impl NormConfig {
    /// A layer norm.
    pub fn layer(epsilon: f32) -> Self {
        Self { kind: NormKind::Layer, epsilon }
    }

    /// A root-mean-square norm.
    pub fn rms(epsilon: f32) -> Self {
        Self { kind: NormKind::RootMeanSquare, epsilon }
    }
}

/// A norm of any kind.
#[derive(Debug, Clone)]
pub struct Norm {
    weight: Option<Parameter>,
    bias: Option<Parameter>,
    kind: NormKind,
    epsilon: f32,
}

module!(Norm { weight, bias });

impl Norm {
    /// A norm that scales by 1 and shifts by 0 at first. Its weights are (width), or (heads, width) if each head has its
    /// own.
    pub fn new(
        initial: &Initial,
        NormConfig { kind, epsilon }: NormConfig,
        shape: impl Into<Shape>,
    ) -> Result<Self> {
        let shape = shape.into();
        let parameter =
            |name: &str, value: f32| initial.parameter(name, shape.clone(), Draw::Constant(value)).map(Some);
        let weight = match kind {
            NormKind::LayerPlain => None,
            NormKind::RootMeanSquareAroundOne => parameter("weight", 0.0)?,
            _ => parameter("weight", 1.0)?,
        };
        let bias = if kind == NormKind::Layer { parameter("bias", 0.0)? } else { None };
        Ok(Self { weight, bias, kind, epsilon })
    }

    /// What normed vectors are multiplied with.
    fn factor(&self, context: &Context) -> Result<Option<Tensor>> {
        let Some(weight) = self.weight.as_ref().map(|weight| context.parameter(weight)) else {
            return Ok(None);
        };
        match self.kind {
            NormKind::RootMeanSquareAroundOne => Ok(Some(weight.shift(1.0)?)),
            _ => Ok(Some(weight)),
        }
    }

    /// The norm of each vector.
    pub fn forward(&self, context: &Context, x: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(|bias| context.parameter(bias));
        let factor = self.factor(context)?;
        let by_head = factor.as_ref().is_some_and(|factor| factor.shape().rank() > 1);
        let (inside, after) = if by_head { (None, factor) } else { (factor, None) };
        let inside = match inside {
            Some(factor) => factor,
            None => Tensor::full_on(x.device(), [x.shape().last()], 1.0)?,
        };
        let (within, added) = if by_head { (None, bias) } else { (bias, None) };
        let mut normed = match self.kind.is_centred() {
            true => x.layer_norm(&inside, within.as_ref(), self.epsilon)?,
            false => x.rms_norm(&inside, self.epsilon)?,
        };
        if let Some(factor) = after {
            normed = normed.multiply(&factor)?;
        }
        match added {
            Some(bias) => Ok(normed.add(&bias)?),
            None => Ok(normed),
        }
    }

    /// The sum of two batches of vectors, and the norm of each vector of it, in one pass where the device can.
    pub fn forward_sum(&self, context: &Context, x: &Tensor, y: &Tensor) -> Result<(Tensor, Tensor)> {
        match (self.kind, self.factor(context)?) {
            (NormKind::Layer | NormKind::LayerWithoutBias, Some(factor)) if factor.shape().rank() == 1 => {
                let bias = self.bias.as_ref().map(|bias| context.parameter(bias));
                Ok(x.add_layer_norm(y, &factor, bias.as_ref(), self.epsilon)?)
            }
            (NormKind::RootMeanSquare | NormKind::RootMeanSquareAroundOne, Some(factor))
                if factor.shape().rank() == 1 =>
            {
                Ok(x.add_rms_norm(y, &factor, self.epsilon)?)
            }
            _ => {
                let sum = x.add(y)?;
                let normed = self.forward(context, &sum)?;
                Ok((sum, normed))
            }
        }
    }

    /// The norm as the linear map it is where vectors have the size of `at`: what each of several vectors that sum to `at`
    /// contributes to its norm, the bias left out.
    pub fn linear_at(&self, context: &Context, at: &Tensor, x: &Tensor) -> Result<Tensor> {
        let centred = |x: &Tensor| -> Result<Tensor> {
            let mut shape = x.shape().to_vec();
            if let Some(last) = shape.last_mut() {
                *last = 1;
            }
            match self.kind.is_centred() {
                true => Ok(x.subtract(&x.mean(-1)?.reshape(shape)?)?),
                false => Ok(x.clone()),
            }
        };
        let at = centred(at)?;
        let mut shape = at.shape().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = 1;
        }
        let size = at.multiply(&at)?.mean(-1)?.shift(self.epsilon)?.sqrt()?.reshape(shape)?;
        let normed = centred(x)?.divide(&size)?;
        match self.factor(context)? {
            Some(factor) => Ok(normed.multiply(&factor)?),
            None => Ok(normed),
        }
    }

    /// What is added, if anything is.
    pub fn bias(&self) -> Option<&Parameter> {
        self.bias.as_ref()
    }
}
