//! Square patches of images, as a vision transformer reads them (Dosovitskiy et al., 2020).

use crate::cpu::layout::{self, Patches};
use crate::error::{Result, ensure_shape};
use crate::tape::Gradient;
use crate::tensor::Tensor;

impl Tensor {
    /// Images (batch, channels, height, width) to (batch, patches, channels·size·size), patches row by row.
    ///
    /// A linear layer on the result is a convolution with kernel and stride `size`.
    pub fn patches(&self, size: usize) -> Result<Tensor> {
        let shape = self.shape();
        ensure_shape(
            shape.rank() == 4 && size > 0 && shape[2].is_multiple_of(size) && shape[3].is_multiple_of(size),
            "patches",
            || format!("(batch, channels, height, width) with sides divisible by {size}"),
            || shape.to_string(),
        )?;
        let patches =
            Patches { batch: shape[0], channels: shape[1], height: shape[2], width: shape[3], size };
        let value = layout::unfold(&self.array, patches);
        let full = shape.clone();
        Ok(Tensor::from_array(value, [patches.batch, patches.count(), patches.values()]).with_rule(
            &[self],
            || {
                move |g: Tensor, _: &[bool]| {
                    let gradient = layout::fold(&g.array, patches);
                    Ok(vec![Some(Gradient::Dense(Tensor::from_array(gradient, &full)))])
                }
            },
        ))
    }
}
