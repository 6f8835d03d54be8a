//! GPT-2's architecture from Burn's own modules.

use crate::work::GptShape;
use crate::{Step, training};
use burn::module::{Module, ModuleVisitor, Param, ParamGroup, ParamId};
use burn::nn::attention::generate_autoregressive_mask;
use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig};
use burn::optim::{AdamWConfig, ModuleOptimizer};
use burn::tensor::module::linear;
use burn::tensor::{Bool, Device, Distribution, Int, Tensor};

/// Learned positions, biases, tied embeddings; no dropout.
#[derive(Module, Debug)]
pub struct Gpt {
    tokens: Embedding,
    positions: Embedding,
    blocks: TransformerEncoder,
    norm: LayerNorm,
    cross_entropy: CrossEntropyLoss,
}

impl Gpt {
    pub fn new(shape: &GptShape, device: &Device) -> Self {
        let width = shape.width;
        // The activation is the default, the exact GELU: Burn has a kernel for it and for its gradient, and the
        // approximate one of GPT-2, a chain of operations, would make the step a quarter slower.
        let blocks = TransformerEncoderConfig::new(width, 4 * width, shape.heads, shape.layers)
            .with_norm_first(true)
            .with_dropout(0.0);
        Self {
            tokens: EmbeddingConfig::new(shape.vocabulary, width).init(device),
            positions: EmbeddingConfig::new(shape.time, width).init(device),
            blocks: blocks.init(device),
            norm: LayerNormConfig::new(width).init(device),
            cross_entropy: CrossEntropyLossConfig::new().init(device),
        }
    }

    /// Logits for the next token at every position (B, T, V). `future` is true where attention is forbidden.
    pub fn forward(&self, ids: Tensor<2, Int>, future: Tensor<3, Bool>) -> Tensor<3> {
        let x = self.tokens.forward(ids) + self.positions.weight.val().unsqueeze(); // (B, T, C)
        let x = self.blocks.forward(TransformerEncoderInput::new(x).mask_attn(future));
        linear(self.norm.forward(x), self.tokens.weight.val().transpose(), None)
    }

    /// AdamW; weight decay on matrices only.
    fn optimiser(&self) -> ModuleOptimizer {
        let adam = AdamWConfig::new().with_beta_1(0.9).with_beta_2(0.95).with_epsilon(1e-8);
        let mut vectors = Vectors(Vec::new());
        self.visit(&mut vectors);
        let undecayed = adam.clone().with_weight_decay(0.0).build();
        adam.with_weight_decay(0.1).init().with_group(ParamGroup::from_ids(vectors.0), undecayed, None)
    }
}

/// Collects the parameters that are vectors: biases, and the scales and shifts of norms.
struct Vectors(Vec<ParamId>);

impl ModuleVisitor for Vectors {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        if D < 2 {
            self.0.push(parameter.id);
        }
    }
}

/// A training step on one fixed batch of random ids and random targets.
pub fn step(shape: &GptShape, device: &Device) -> Step {
    let model = Gpt::new(shape, device);
    let optimiser = model.optimiser();
    let below = Distribution::Uniform(0.0, shape.vocabulary as f64);
    let random = || Tensor::<2, Int>::random([shape.batch, shape.time], below, device);
    let (ids, targets) = (random(), random().flatten::<1>(0, 1));
    // Made once: sequences of one length need no other mask.
    let future = generate_autoregressive_mask(shape.batch, shape.time, device);
    training::step(model, optimiser, move |model| {
        let logits = model.forward(ids.clone(), future.clone());
        model.cross_entropy.forward(logits.flatten(0, 1), targets.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: GptShape = GptShape { vocabulary: 65, layers: 2, width: 32, heads: 4, time: 8, batch: 32 };

    fn device() -> Device {
        Device::flex().autodiff()
    }

    #[test]
    fn it_has_the_parameters_of_gpt_2() {
        let GptShape { vocabulary, layers, width, time, .. } = SHAPE;
        // Four projections and two layers four times as wide, with biases, and two norms.
        let block = 12 * width * width + 13 * width;
        let expected = (vocabulary + time) * width + layers * block + 2 * width;
        assert_eq!(Gpt::new(&SHAPE, &device()).num_params(), expected);
    }

    #[test]
    fn weight_decay_spares_vectors() {
        let mut vectors = Vectors(Vec::new());
        Gpt::new(&SHAPE, &device()).visit(&mut vectors);
        // A block has six biases and two norms; there is one more norm at the end.
        assert_eq!(vectors.0.len(), SHAPE.layers * (6 + 2 * 2) + 2);
    }

    #[test]
    fn the_loss_starts_at_that_of_a_guess_and_falls() {
        let mut step = step(&SHAPE, &device());
        let guess = (SHAPE.vocabulary as f32).ln();
        let first = step();
        assert!((first - guess).abs() < 0.05, "{first} is not near {guess}");
        let last = (0..30).map(|_| step()).last().unwrap();
        assert!(last < first - 0.5, "{last} after 30 steps from {first}");
    }

    #[test]
    fn the_future_does_not_change_the_past() {
        let device = device();
        let model = training::initialise(Gpt::new(&SHAPE, &device));
        let logits = |last: i32| {
            let ids = Tensor::<2, Int>::from_data([[1, 2, 3, 4, 5, 6, 7, last]], &device);
            let future = generate_autoregressive_mask(1, SHAPE.time, &device);
            model.forward(ids, future).into_data().try_to_vec::<f32>().unwrap()
        };
        let (before, after) = (logits(8), logits(9));
        let past = (SHAPE.time - 1) * SHAPE.vocabulary;
        assert_eq!(before[..past], after[..past]);
        assert_ne!(before[past..], after[past..]);
    }
}
