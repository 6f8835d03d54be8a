//! NaN and denormal values: a NaN must not disappear.

use crate::device;
use crate::gradcheck::Draw;
use crate::pointwise::FUNCTIONS;
use regard_tensor::ops::{Attention, CrossEntropy, LstmWeights, Projections, attend, lstm};
use regard_tensor::{Ids, Tensor};

/// A tensor with one NaN. Tests put it inside a SIMD register and in the remainder of a row.
fn with_nan(shape: &[usize], index: usize) -> Tensor {
    let x = Draw(1).tensor(shape);
    let mut values = x.to_vec();
    values[index] = f32::NAN;
    device::new(&values, shape).unwrap()
}

fn has_nan(x: &Tensor) -> bool {
    x.values().iter().any(|x| x.is_nan())
}

#[test]
fn every_function_keeps_nan() {
    for function in FUNCTIONS {
        for index in [3, 18] {
            let y = with_nan(&[19], index).apply(function).unwrap();
            assert!(y.values()[index].is_nan(), "{function:?} of NaN is {}", y.values()[index]);
        }
    }
}

#[test]
fn softmax_keeps_nan() {
    for index in [3, 18] {
        assert!(has_nan(&with_nan(&[1, 19], index).softmax().unwrap()), "softmax");
        assert!(has_nan(&with_nan(&[1, 19], index).log_softmax().unwrap()), "log-softmax");
    }
}

#[test]
fn losses_keep_nan() {
    for index in [3, 18] {
        let targets = Ids::new(&[0], [1]).unwrap();
        let loss = with_nan(&[1, 19], index).cross_entropy(&targets, CrossEntropy::default()).unwrap();
        assert!(has_nan(&loss), "the cross-entropy with a NaN among the logits is {loss:?}");
        let loss = with_nan(&[19], index).binary_cross_entropy(&device::zeros([19])).unwrap();
        assert!(has_nan(&loss), "the binary cross-entropy with a NaN among the logits is {loss:?}");
    }
}

#[test]
fn norms_keep_nan() {
    for index in [3, 18] {
        let weight = device::full([19], 1.0);
        assert!(has_nan(&with_nan(&[1, 19], index).layer_norm(&weight, None, 1e-5).unwrap()));
        assert!(has_nan(&with_nan(&[1, 19], index).rms_norm(&weight, 1e-5).unwrap()));
    }
}

#[test]
fn attention_keeps_nan() {
    let clean = Draw(2).tensor([1, 19, 1, 4]);
    for which in 0..3 {
        let mut x = [clean.clone(), clean.clone(), clean.clone()];
        x[which] = with_nan(&[1, 19, 1, 4], 18 * 4);
        let projections = Projections::Separate { query: &x[0], key: &x[1], value: &x[2] };
        let attended = attend(projections, &Attention::scaled(0.5)).unwrap();
        assert!(has_nan(&attended.output), "a NaN in projection {which} was lost");
    }
}

#[test]
fn the_lstm_keeps_nan() {
    let weights = LstmWeights {
        input: Draw(3).tensor([12, 2]),
        hidden: Draw(4).tensor([12, 3]),
        bias: Draw(5).tensor([12]),
    };
    assert!(has_nan(&lstm(&with_nan(&[1, 4, 2], 1), &[weights], None).unwrap()));
}

#[test]
fn denormal_values_are_treated_alike_everywhere() {
    // Denormal numbers are treated as zero, wherever they are in a vector.
    let x = device::full([19], 1e-39);
    let y = x.exp().unwrap().to_vec();
    assert!(y.iter().all(|&y| y == 1.0));
    let z = (&x * &device::full([19], 1.0)).unwrap().to_vec();
    assert!(z.iter().all(|&x| x == z[0]), "{z:?}");
}
