//! A classifier of sequences from Burn's own modules.

use crate::work::BiLstmShape;
use crate::{Step, training};
use burn::module::Module;
use burn::nn::loss::{BinaryCrossEntropyLoss, BinaryCrossEntropyLossConfig};
use burn::nn::{BiLstm, BiLstmConfig, Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::{Device, Distribution, Int, Tensor};

/// Embedding, bidirectional LSTM, maximum over time, one logit.
#[derive(Module, Debug)]
pub struct Classifier {
    embedding: Embedding,
    lstm: BiLstm,
    classify: Linear,
    cross_entropy: BinaryCrossEntropyLoss,
}

impl Classifier {
    pub fn new(shape: &BiLstmShape, device: &Device) -> Self {
        Self {
            embedding: EmbeddingConfig::new(shape.vocabulary, shape.embedding).init(device),
            lstm: BiLstmConfig::new(shape.embedding, shape.hidden, true).init(device),
            classify: LinearConfig::new(2 * shape.hidden, 1).init(device),
            cross_entropy: BinaryCrossEntropyLossConfig::new().with_logits(true).init(device),
        }
    }

    /// One logit a sequence (B).
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<1> {
        let (states, _) = self.lstm.forward(self.embedding.forward(ids), None); // (B, T, 2·hidden)
        let pooled = states.max_dim(1).squeeze_dim::<2>(1);
        self.classify.forward(pooled).squeeze_dim(1)
    }
}

/// A training step on one fixed batch of random ids without padding and random labels.
pub fn step(shape: &BiLstmShape, device: &Device) -> Step {
    let below = |limit: usize| Distribution::Uniform(0.0, limit as f64);
    let ids = Tensor::<2, Int>::random([shape.batch, shape.time], below(shape.vocabulary), device);
    let targets = Tensor::<1, Int>::random([shape.batch], below(2), device);
    let optimiser = AdamConfig::new().with_epsilon(1e-8).init();
    training::step(Classifier::new(shape, device), optimiser, move |model| {
        model.cross_entropy.forward(model.forward(ids.clone()), targets.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: BiLstmShape = BiLstmShape { vocabulary: 50, embedding: 8, hidden: 16, time: 12, batch: 6 };

    fn device() -> Device {
        Device::flex().autodiff()
    }

    #[test]
    fn it_has_the_parameters_of_pytorchs() {
        let BiLstmShape { vocabulary, embedding, hidden, .. } = SHAPE;
        // PyTorch, too, has two biases a gate.
        let direction = 4 * hidden * (embedding + hidden + 2);
        let expected = vocabulary * embedding + 2 * direction + 2 * hidden + 1;
        assert_eq!(Classifier::new(&SHAPE, &device()).num_params(), expected);
    }

    #[test]
    fn the_loss_starts_at_that_of_a_guess_and_falls() {
        let mut step = step(&SHAPE, &device());
        let first = step();
        assert!((first - 2_f32.ln()).abs() < 0.01, "{first} is not near ln 2");
        let last = (0..100).map(|_| step()).last().unwrap();
        assert!(last < first / 2.0, "{last} after 100 steps from {first}");
    }
}
