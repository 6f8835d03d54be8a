//! Rows of a table by their ids.

use crate::error::{Result, ensure_shape};
use crate::ids::Ids;
use crate::kernels::embedding;
use crate::rows::RowGradient;
use crate::tape::{Gradient, Inputs};
use crate::tensor::Tensor;

impl Tensor {
    /// The rows of this table (rows, width) that `ids` name: a tensor of the ids' shape with `width` behind it.
    ///
    /// The gradient touches only those rows. On the CPU it stays sparse.
    pub fn embedding(&self, ids: &Ids) -> Result<Tensor> {
        ensure_shape(
            self.shape().rank() == 2,
            "embedding",
            || "a table of (rows, width)".into(),
            || self.shape().to_string(),
        )?;
        let (rows, width) = (self.shape()[0], self.shape()[1]);
        ids.ensure_below(("embedding", "id"), rows)?;
        let value = embedding::lookup(&self.array, width, ids)?;
        let mut shape = ids.shape().to_vec();
        shape.push(width);
        let ids = ids.clone();
        Ok(Tensor::from_array(value, shape).with_rule(&[self], || {
            move |g: Tensor, inputs: &mut Inputs| {
                if embedding::gradient_is_dense(&g.array) {
                    let total = inputs.take(0);
                    let gradient = embedding::dense_gradient(&g.array, width, &ids, rows, total)?;
                    return inputs.send(0, Tensor::from_array(gradient, [rows, width]));
                }
                let g = g.with_shape([ids.count(), width]);
                inputs.send(0, Gradient::Rows(RowGradient::gather(&ids, &g, rows)?))
            }
        }))
    }
}
