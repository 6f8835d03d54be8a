//! Matrix products, single and batched, any side transposed.

use crate::error::{Error, Result, ensure_shape};
use crate::kernels::matmul::{self, Side};
use crate::shape::Shape;
use crate::tape::Inputs;
use crate::tensor::{Tensor, ensure_same_device};

/// A side of a product: its last two axes, possibly exchanged, and how many matrices there are.
#[derive(Clone, Copy)]
struct Axes {
    rows: usize,
    columns: usize,
    matrices: usize,
    transposed: bool,
}

impl Axes {
    fn of(x: &Tensor, transposed: bool) -> Result<Self> {
        let shape = x.shape();
        ensure_shape(shape.rank() >= 2, "matmul", || "two axes or more".into(), || shape.to_string())?;
        let (mut rows, mut columns) = (shape.nth_last(1), shape.nth_last(0));
        if transposed {
            std::mem::swap(&mut rows, &mut columns);
        }
        Ok(Self { rows, columns, matrices: shape[..shape.rank() - 2].iter().product(), transposed })
    }

    fn side(self, x: &Tensor) -> Side<'_> {
        let stride = if self.matrices == 1 { 0 } else { self.rows * self.columns };
        Side { array: &x.array, transposed: self.transposed, stride }
    }
}

impl Tensor {
    /// a·b over the last two axes. Axes before them must agree, or be missing on one side.
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        self.matmul_transposed(other, false, false)
    }

    /// op(a)·op(b), where op exchanges the last two axes if asked to, without copying.
    ///
    /// With C = A·B, the gradients are dA = dC·Bᵀ and dB = Aᵀ·dC.
    pub fn matmul_transposed(&self, other: &Tensor, transpose_a: bool, transpose_b: bool) -> Result<Tensor> {
        let (a, b) = (Axes::of(self, transpose_a)?, Axes::of(other, transpose_b)?);
        let mismatch =
            || Error::shape("matmul", "sides that fit", format!("{} and {}", self.shape(), other.shape()));
        let outer = |x: &Tensor| x.shape()[..x.shape().rank() - 2].to_vec();
        let (outer_a, outer_b) = (outer(self), outer(other));
        let mut shape = match (outer_a == outer_b, outer_a.is_empty(), outer_b.is_empty()) {
            (true, _, _) | (_, _, true) => outer_a,
            (_, true, _) => outer_b,
            _ => return Err(mismatch()),
        };
        if a.columns != b.rows {
            return Err(mismatch());
        }
        let batch: usize = shape.iter().product();
        shape.extend([a.rows, b.columns]);
        let sizes = (a.rows, b.columns, a.columns);
        ensure_same_device("matmul", [self, other])?;
        let value = matmul::batched(batch, sizes, a.side(self), b.side(other))?;
        let (x, y) = (self.detach(), other.detach());
        Ok(Tensor::from_array(value, shape).with_rule(&[self, other], || {
            move |g: Tensor, inputs: &mut Inputs| {
                if inputs.wants(0) {
                    let full = if transpose_a {
                        y.matmul_transposed(&g, transpose_b, true)?
                    } else {
                        g.matmul_transposed(&y, false, !transpose_b)?
                    };
                    inputs.send(0, sum_outer(&full, x.shape())?)?;
                }
                if inputs.wants(1) {
                    let full = if transpose_b {
                        g.matmul_transposed(&x, true, transpose_a)?
                    } else {
                        x.matmul_transposed(&g, !transpose_a, false)?
                    };
                    inputs.send(1, sum_outer(&full, y.shape())?)?;
                }
                Ok(())
            }
        }))
    }
}

/// Sums over the matrices of a batch if one matrix was shared by all.
fn sum_outer(x: &Tensor, shape: &Shape) -> Result<Tensor> {
    if x.shape() == shape {
        return Ok(x.clone());
    }
    x.reshape([x.count() / shape.count().max(1), shape.count()])?.sum(0)?.reshape(shape)
}
