//! What a forward pass needs to know beyond its inputs.

use crate::parameter::Parameter;
use saccade_tensor::Tensor;
use saccade_tensor::ops::Dropout;
use saccade_tensor::random::Key;

/// The circumstances of one forward pass: nothing about it is global or hidden.
#[derive(Debug, Clone)]
pub struct Context {
    gradients: bool,
    draws: Option<(Key, u64)>,
}

impl Context {
    /// A pass that only looks: no gradients, no dropout.
    pub fn inference() -> Self {
        Self { gradients: false, draws: None }
    }

    /// A training pass: gradients, and dropout drawn from `key` (name the step in it) for examples counted from
    /// `first_example`.
    pub fn training(key: Key, first_example: u64) -> Self {
        Self { gradients: true, draws: Some((key, first_example)) }
    }

    /// Gradients without dropout.
    pub fn differentiated() -> Self {
        Self { gradients: true, draws: None }
    }

    /// A parameter's values: tracked if gradients are wanted, else plain, so that nothing is recorded.
    pub fn parameter(&self, parameter: &Parameter) -> Tensor {
        if self.gradients { parameter.tensor().clone() } else { parameter.tensor().detach() }
    }

    /// Dropout at a site, in training.
    pub fn dropout(&self, site: &str, probability: f32) -> Option<Dropout> {
        match self.draws {
            Some((key, first_example)) if probability > 0.0 => {
                Some(Dropout { probability, key: key.site(site), first_example })
            }
            _ => None,
        }
    }
}
