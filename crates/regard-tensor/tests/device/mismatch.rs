//! Every operation rejects operands on different devices.

use crate::{alone, draw, ids};
use regard_tensor::ops::{
    Attention, CrossEntropy, Layout, LstmWeights, Pairing, Projections, attend, concatenate, lstm,
};
use regard_tensor::optimiser::{Method, Optimiser, Update, global_norm};
use regard_tensor::{Device, Error, Gradient, Pass, Result, Tensor};

/// Panics unless the error names the operation and both devices.
fn rejected<T>(result: Result<T>, operation: &str) {
    match result.err().expect("an error") {
        Error::Device { operation: name, expected: Device::Cpu, got: Device::Apart } => {
            assert_eq!(name, operation);
        }
        other => panic!("{operation}: {other}"),
    }
}

#[test]
fn operands_on_different_devices_are_rejected() {
    let _alone = alone();
    let apart = |shape: &[usize]| Tensor::full_on(Device::Apart, shape, 1.0).unwrap();
    let x = draw("x", &[4, 6]).tracked();
    rejected(x.add(&apart(&[6])), "add");
    rejected(x.matmul(&apart(&[6, 2])), "matmul");
    rejected(x.linear(&apart(&[6, 2]), None, Layout::InOut, None), "linear");
    rejected(x.layer_norm(&apart(&[6]), None, 1e-5), "norm");
    rejected(
        x.scored_cross_entropy(&apart(&[3, 6]), None, &ids(&[0; 4]), CrossEntropy::default()),
        "scored_cross_entropy",
    );
    rejected(x.binary_cross_entropy(&apart(&[4, 6])), "binary_cross_entropy");
    rejected(concatenate(&[&x, &apart(&[1, 6])], 0), "concatenate");
    rejected(x.detach().overwrite(0, 0, &apart(&[1, 6])), "overwrite");
    let heads = draw("heads", &[1, 2, 2, 4]);
    let position = ids(&[0, 1]).reshape([1, 2]).unwrap();
    rejected(heads.rotary(&apart(&[3, 2]), &apart(&[3, 2]), &position, Pairing::Halves), "rotary");
    let sunk = Attention { sink: Some(apart(&[2])), ..Attention::scaled(1.0) };
    rejected(
        attend(Projections::Separate { query: &heads, key: &heads, value: &heads }, &sunk).map(|_| ()),
        "attention",
    );
    let weights = LstmWeights { input: draw("i", &[8, 4]), hidden: apart(&[8, 2]), bias: draw("b", &[8]) };
    rejected(lstm(&draw("s", &[1, 3, 4]), &[weights], None), "lstm");
    rejected(x.gradients(&Pass::new().from_upstream(apart(&[4, 6]))).map(|_| ()), "backward");
    let (here, there) = (Gradient::Dense(x.detach()), Gradient::Dense(apart(&[4, 6])));
    rejected(global_norm([&here, &there]), "global_norm");
    let mut parameter = x.clone();
    let mut optimiser = Optimiser::new(Method::adam(), 0.0);
    let mut updates = [Update { parameter: &mut parameter, gradient: Some(&there), decays: true }];
    rejected(optimiser.step(&mut updates, 0.1, 1.0), "optimiser");
    let mut updates = [Update { parameter: &mut parameter, gradient: Some(&here), decays: true }];
    rejected(optimiser.step(&mut updates, 0.1, &apart(&[])), "optimiser");
}
