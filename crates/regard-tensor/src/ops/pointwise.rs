//! Functions of one value: exp, ln, √, tanh, sigmoid, ReLU, GELU (both forms), SiLU.

use crate::error::Result;
use crate::kernels::pointwise::{self, Function};
use crate::tape::Inputs;
use crate::tensor::Tensor;

impl Tensor {
    /// f(x) for each value; its gradient is f′(x)·g.
    pub fn apply(&self, function: Function) -> Result<Tensor> {
        let value = pointwise::forward(function, &self.array)?;
        let saved = if function.saves_output() { value.clone() } else { self.array.clone() };
        Ok(Tensor::from_array(value, self.shape()).with_rule(&[self], || {
            move |g: Tensor, inputs: &mut Inputs| {
                let gradient = pointwise::backward(function, &saved, &g.array)?;
                inputs.send(0, Tensor::from_array(gradient, g.shape()))
            }
        }))
    }

    /// e^x.
    pub fn exp(&self) -> Result<Tensor> {
        self.apply(Function::Exp)
    }

    /// The natural logarithm.
    pub fn ln(&self) -> Result<Tensor> {
        self.apply(Function::Ln)
    }

    /// The square root.
    pub fn sqrt(&self) -> Result<Tensor> {
        self.apply(Function::Sqrt)
    }

    /// The hyperbolic tangent.
    pub fn tanh(&self) -> Result<Tensor> {
        self.apply(Function::Tanh)
    }

    /// 1 / (1 + e^−x).
    pub fn sigmoid(&self) -> Result<Tensor> {
        self.apply(Function::Sigmoid)
    }

    /// max(x, 0).
    pub fn relu(&self) -> Result<Tensor> {
        self.apply(Function::Relu)
    }

    /// x·Φ(x) (Hendrycks & Gimpel, 2016).
    pub fn gelu(&self) -> Result<Tensor> {
        self.apply(Function::Gelu)
    }

    /// GELU by a hyperbolic tangent, ½x(1 + tanh(√(2/π)(x + 0.044715x³))), as GPT-2 has it.
    pub fn gelu_tanh(&self) -> Result<Tensor> {
        self.apply(Function::GeluTanh)
    }

    /// x·sigmoid(x).
    pub fn silu(&self) -> Result<Tensor> {
        self.apply(Function::Silu)
    }

    /// elu(x) + 1, the feature map of linear attention (Katharopoulos et al., 2020).
    pub fn elu_plus_one(&self) -> Result<Tensor> {
        self.apply(Function::EluPlusOne)
    }
}
