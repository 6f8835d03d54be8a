//! Element-wise arithmetic with broadcasting, by NumPy's rules.

use crate::error::Result;
use crate::kernels::broadcast::{self, Arithmetic};
use crate::shape::Shape;
use crate::tape::Inputs;
use crate::tensor::{Tensor, ensure_same_device};

/// a ∘ b, and the two gradients summed over the axes along which a or b was broadcast.
fn combine(kind: Arithmetic, name: &'static str, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let shape = a.shape().broadcast(b.shape(), name)?;
    ensure_same_device(name, [a, b])?;
    let value = broadcast::arithmetic(kind, (&a.array, a.shape()), (&b.array, b.shape()), &shape)?;
    let (x, y) = (a.detach(), b.detach());
    Ok(Tensor::from_array(value, shape).with_rule(&[a, b], || {
        move |g: Tensor, inputs: &mut Inputs| {
            if inputs.wants(0) {
                let to_a = match kind {
                    Arithmetic::Add | Arithmetic::Subtract => g.clone(),
                    Arithmetic::Multiply => g.multiply(&y)?,
                    Arithmetic::Divide => g.divide(&y)?,
                };
                inputs.send(0, reduce_to(&to_a, x.shape())?)?;
            }
            if inputs.wants(1) {
                let to_b = match kind {
                    Arithmetic::Add => g.clone(),
                    Arithmetic::Subtract => g.scale(-1.0)?,
                    Arithmetic::Multiply => g.multiply(&x)?,
                    // −g·a/b²
                    Arithmetic::Divide => g.multiply(&x)?.divide(&y.multiply(&y)?)?.scale(-1.0)?,
                };
                inputs.send(1, reduce_to(&to_b, y.shape())?)?;
            }
            Ok(())
        }
    }))
}

fn reduce_to(x: &Tensor, shape: &Shape) -> Result<Tensor> {
    Ok(Tensor::from_array(broadcast::reduce_to(&x.array, x.shape(), shape)?, shape))
}

/// Adds a gradient to another, in place if that is not shared.
pub(crate) fn accumulate(mut total: Tensor, x: &Tensor) -> Result<Tensor> {
    debug_assert_eq!(total.shape(), x.shape());
    if total.array.is_unique() {
        ensure_same_device("add", [&total, x])?;
        broadcast::accumulate(&mut total.array, &x.array)?;
        Ok(total)
    } else {
        total.add(x)
    }
}

impl Tensor {
    /// a + b.
    pub fn add(&self, other: &Tensor) -> Result<Tensor> {
        combine(Arithmetic::Add, "add", self, other)
    }

    /// a − b.
    pub fn subtract(&self, other: &Tensor) -> Result<Tensor> {
        combine(Arithmetic::Subtract, "subtract", self, other)
    }

    /// a · b, element by element.
    pub fn multiply(&self, other: &Tensor) -> Result<Tensor> {
        combine(Arithmetic::Multiply, "multiply", self, other)
    }

    /// a / b.
    pub fn divide(&self, other: &Tensor) -> Result<Tensor> {
        combine(Arithmetic::Divide, "divide", self, other)
    }

    /// x · factor.
    pub fn scale(&self, factor: f32) -> Result<Tensor> {
        self.affine(factor, 0.0)
    }

    /// x + shift.
    pub fn shift(&self, shift: f32) -> Result<Tensor> {
        self.affine(1.0, shift)
    }

    /// x · scale + shift.
    pub fn affine(&self, scale: f32, shift: f32) -> Result<Tensor> {
        let value = broadcast::affine(&self.array, scale, shift)?;
        Ok(Tensor::from_array(value, self.shape())
            .with_rule(&[self], || move |g: Tensor, inputs: &mut Inputs| inputs.send(0, g.scale(scale)?)))
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $call:ident) => {
        impl std::ops::$trait for &Tensor {
            type Output = Result<Tensor>;
            fn $method(self, other: &Tensor) -> Result<Tensor> {
                self.$call(other)
            }
        }
    };
}

operator!(Add, add, add);
operator!(Sub, sub, subtract);
operator!(Mul, mul, multiply);
operator!(Div, div, divide);
