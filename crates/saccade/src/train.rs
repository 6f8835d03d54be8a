//! Training: forward, loss, backward, update.

use crate::error::Result;
use crate::parameter::Module;
use saccade_tensor::Tensor;
use saccade_tensor::optimiser::{Optimiser, clip_scale, global_norm};

/// One update of a model from a loss: gradients, clipping at a global norm if asked for, optimiser. Returns the norm of
/// the gradients if it was needed.
pub fn update(
    model: &mut impl Module,
    loss: &Tensor,
    optimiser: &mut Optimiser,
    learning_rate: f32,
    clip: Option<f32>,
) -> Result<Option<f32>> {
    let gradients = loss.backward()?;
    let mut updates = model.updates(&gradients);
    let norm = clip.map(|_| global_norm(updates.iter().filter_map(|update| update.gradient)));
    let scale = clip.zip(norm).map_or(1.0, |(limit, norm)| clip_scale(norm, limit));
    optimiser.step(&mut updates, learning_rate, scale)?;
    Ok(norm)
}
