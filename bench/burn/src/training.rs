//! What the models share: their first weights and the training step.

use crate::Step;
use burn::module::{Module, ModuleMapper, Param};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Distribution, Tensor};

const LEARNING_RATE: f64 = 1e-3;
const STANDARD_DEVIATION: f64 = 0.02;

/// Forward, loss, backward and the optimiser's update; its value is the loss before the update.
pub fn step<M: Module + 'static>(
    model: M,
    mut optimiser: ModuleOptimizer,
    loss: impl Fn(&M) -> Tensor<1> + 'static,
) -> Step {
    let mut model = Some(initialise(model));
    Box::new(move || {
        // The model moves through the optimiser and is not cloned: shared tensors cannot be updated in place.
        let before = model.take().expect("every step puts it back");
        let loss = loss(&before);
        let gradients = GradientsParams::from_grads(loss.backward(), &before);
        model = Some(optimiser.step(LEARNING_RATE, before, gradients));
        loss.into_scalar()
    })
}

/// Matrices from a normal distribution, biases 0; the scales and shifts of norms stay 1 and 0.
pub fn initialise<M: Module>(model: M) -> M {
    model.map(&mut FirstWeights { path: Vec::new() })
}

struct FirstWeights {
    path: Vec<String>,
}

impl ModuleMapper for FirstWeights {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let bias = self.path.last().is_some_and(|name| name == "bias");
        // A new value is a new leaf, which has to ask for its gradient again.
        parameter.map(|value| match D {
            2.. => value.random_like(Distribution::Normal(0.0, STANDARD_DEVIATION)).require_grad(),
            _ if bias => value.zeros_like().require_grad(),
            _ => value,
        })
    }
}
