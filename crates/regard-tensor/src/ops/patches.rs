//! Square patches of images, as a vision transformer reads them (Dosovitskiy et al., 2020).

use crate::error::{Result, ensure_shape};
use crate::kernels::layout::{self, Patches};
use crate::tape::Inputs;
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
        let value = layout::unfold(&self.array, patches)?;
        let unfolded = [patches.batch, patches.count(), patches.values()];
        let full = shape.clone();
        Ok(Tensor::from_array(value, unfolded).with_rule(&[self], || {
            move |g: Tensor, inputs: &mut Inputs| {
                inputs.send(0, Tensor::from_array(layout::fold(&g.array, patches)?, &full))
            }
        }))
    }
}
