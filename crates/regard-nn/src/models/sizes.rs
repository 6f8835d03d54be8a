//! What every model demands of its configuration.

use crate::error::{Error, Result};

/// No size is larger: the product of two of them, even four times, can still be counted.
const LARGEST: usize = 1 << 30;

/// Fails unless each of these sizes is at least 1 and not absurd.
pub(super) fn ensure_sizes(model: &'static str, sizes: &[(&str, usize)]) -> Result<()> {
    for &(name, size) in sizes {
        if size == 0 || size > LARGEST {
            let problem = format!("{name} must be from 1 to {LARGEST}, got {size}");
            return Err(Error::configuration(model, problem));
        }
    }
    Ok(())
}

/// Fails unless dropout leaves something.
pub(super) fn ensure_dropout(model: &'static str, dropout: f32) -> Result<()> {
    if (0.0..1.0).contains(&dropout) {
        return Ok(());
    }
    Err(Error::configuration(model, format!("dropout must be at least 0 and below 1, got {dropout}")))
}

/// Fails unless ε is a number of at least 0.
pub(super) fn ensure_epsilon(model: &'static str, epsilon: f32) -> Result<()> {
    if epsilon >= 0.0 && epsilon.is_finite() {
        return Ok(());
    }
    Err(Error::configuration(model, format!("norm_epsilon must be a number of at least 0, got {epsilon}")))
}
