//! What follows from a mask of padding. In a recorded step it is computed anew for each batch.

use crate::error::Result;
use regard_tensor::{Device, Mask, Tensor};

/// 0 where a token is, a large negative number where padding is: (batch, time, 1).
pub(super) fn penalty(present: &Mask, device: Device) -> Result<Tensor> {
    let shape = [present.shape()[0], present.shape()[1], 1];
    let penalties =
        |mask: &[bool]| mask.iter().map(|&present| if present { 0.0 } else { -1e30 }).collect::<Vec<_>>();
    Ok(present.derive_values(device, shape, penalties)?)
}

/// The share of each token in the mean of its text, 0 for padding: (batch, 1, time).
pub(super) fn shares(present: &Mask, device: Device) -> Result<Tensor> {
    let (batch, time) = (present.shape()[0], present.shape()[1]);
    let of_row = |row: &[bool]| {
        let count = row.iter().filter(|&&present| present).count().max(1);
        row.iter().map(|&present| f32::from(present) / count as f32).collect::<Vec<_>>()
    };
    let shares = move |mask: &[bool]| mask.chunks(time.max(1)).flat_map(of_row).collect();
    Ok(present.derive_values(device, [batch, 1, time], shares)?)
}
