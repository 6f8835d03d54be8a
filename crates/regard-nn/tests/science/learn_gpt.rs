//! The golden curve: ten losses of a small GPT in training, from the same weights as PyTorch's.

use crate::golden::Golden;
use regard_nn::models::{GptConfig, Inputs, Model, Transformer};
use regard_nn::tensor::Ids;
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::optimiser::{Method, Optimiser};
use regard_nn::{Context, Module, checkpoint, train};

#[test]
fn ten_losses() {
    // The engine's own file, which it trains with a GPT written out by hand.
    let golden = Golden::open("../../../regard-tensor/tests/golden/gpt");
    let sizes = GptConfig {
        vocabulary: 13,
        context: 10,
        n_layers: 2,
        n_heads: 3,
        d_model: 24,
        ..GptConfig::default()
    };
    let mut gpt = Transformer::new(sizes.form(), 0).unwrap();
    let names = checkpoint::names(&gpt).unwrap();
    for ((path, parameter), (ours, theirs)) in gpt.parameters_mut().into_iter().zip(&names) {
        assert_eq!(path, *ours);
        let values = golden.tensor(theirs);
        assert_eq!(values.shape(), parameter.tensor().shape(), "{theirs}");
        parameter.tensor_mut().set_values(&values.values()).unwrap();
    }
    assert_eq!(names.len(), golden.below("transformer.").len(), "every weight of theirs is one of ours");
    let method = Method::Adam { betas: (0.9, 0.95), epsilon: 1e-8, decoupled: true };
    let mut optimiser = Optimiser::new(method, 0.1);
    let (ids, losses) = (golden.ids("ids"), golden.tensor("losses"));
    let [steps, batch, row] = ids.shape()[..] else { panic!() };
    assert_eq!((steps, losses.count()), (10, 10));
    for (step, (texts, want)) in ids.values().chunks(batch * row).zip(losses.to_vec()).enumerate() {
        let cut = |from: usize| {
            let values: Vec<u32> =
                texts.chunks(row).flat_map(|text| text[from..from + row - 1].to_vec()).collect();
            Ids::new(&values, [batch, row - 1]).unwrap()
        };
        let (context, inputs) = (Context::differentiated(), Inputs::ids(&cut(0)));
        let loss = gpt.loss_of(&context, &inputs, &cut(1), CrossEntropy::default()).unwrap();
        let got = loss.item().unwrap();
        assert!((got - want).abs() < 1e-4, "step {step}: {got}, expected {want}");
        train::update(&mut gpt, &loss, &mut optimiser, 3e-3, Some(1.0)).unwrap();
    }
}
