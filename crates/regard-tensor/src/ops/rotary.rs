//! Rotary positions (Su et al., *RoFormer*, 2021): pairs of features turn by an angle that grows with position, so that
//! a dot product of two rotated vectors depends only on the distance between them.

use crate::error::{Result, ensure_shape};
use crate::ids::Ids;
use crate::kernels::rotary::{self, Pairing, Rotation};
use crate::tape::Inputs;
use crate::tensor::{Tensor, ensure_same_device};

impl Tensor {
    /// Rotates the first `2 · cos.width` features of each head of (batch, time, heads, width).
    ///
    /// `cos` and `sin` are (positions, pairs); `positions` is (batch, time). The gradient rotates back.
    pub fn rotary(&self, cos: &Tensor, sin: &Tensor, positions: &Ids, pairing: Pairing) -> Result<Tensor> {
        let shape = self.shape();
        ensure_shape(
            shape.rank() == 4,
            "rotary",
            || "(batch, time, heads, width)".into(),
            || shape.to_string(),
        )?;
        let (width, rotated) = (shape[3], 2 * cos.shape().last());
        ensure_shape(
            cos.shape().rank() == 2 && cos.shape() == sin.shape() && rotated <= width,
            "rotary",
            || format!("cosines and sines of (positions, at most {})", width / 2),
            || format!("{} and {}", cos.shape(), sin.shape()),
        )?;
        ensure_shape(
            positions.shape()[..] == shape[..2],
            "rotary",
            || format!("positions of [{}×{}]", shape[0], shape[1]),
            || positions.shape().to_string(),
        )?;
        positions.ensure_below(("rotary", "id"), cos.shape()[0])?;
        let rotation = Rotation { pairing, heads: shape[2], width, rotated, direction: 1.0 };
        ensure_same_device("rotary", [self, cos, sin])?;
        let value = rotary::rotate(&self.array, &cos.array, &sin.array, positions, rotation)?;
        let (cos, sin, positions) = (cos.detach(), sin.detach(), positions.clone());
        Ok(Tensor::from_array(value, shape).with_rule(&[self], || {
            move |g: Tensor, inputs: &mut Inputs| {
                let back = Rotation { direction: -1.0, ..rotation };
                let gradient = rotary::rotate(&g.array, &cos.array, &sin.array, &positions, back)?;
                inputs.send(0, Tensor::from_array(gradient, g.shape()))
            }
        }))
    }
}
