//! Layer norm and RMS norm.

use crate::device;
use crate::gradcheck::{Draw, LENGTHS, cases, check, check_within};
use crate::reference::{Array, broadcast, layers};
use proptest::prelude::*;
use proptest::sample::select;
use regard_tensor::Tensor;

const EPSILON: f32 = 1e-5;

fn check_norms(inputs: &[Tensor; 3]) {
    let [x, weight, _] = inputs.clone();
    let eps = f64::from(EPSILON);
    check(
        inputs,
        |x| x[0].layer_norm(&x[1], Some(&x[2]), EPSILON),
        |x| layers::norm(&x[0], &x[1], Some(&x[2]), eps, true),
    );
    let unbiased = [x, weight];
    check(
        &unbiased,
        |x| x[0].layer_norm(&x[1], None, EPSILON),
        |x| layers::norm(&x[0], &x[1], None, eps, true),
    );
    check(&unbiased, |x| x[0].rms_norm(&x[1], EPSILON), |x| layers::norm(&x[0], &x[1], None, eps, false));
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn rows_of_every_width(
        outer in prop::collection::vec(1_usize..5, 0..3),
        // A row of two values is normalised to ±1: its gradient is all cancellation.
        width in select(&LENGTHS[2..]),
        seed: u64,
    ) {
        let shape: Vec<usize> = outer.iter().copied().chain([width]).collect();
        let mut draw = Draw(seed);
        check_norms(&[draw.tensor(shape), draw.tensor([width]), draw.tensor([width])]);
    }
}

#[test]
fn rows_of_one_and_two_values() {
    // One value: exactly the bias, and no gradient.
    let x = Draw(1).tensor([4, 1]).tracked();
    let y = x.layer_norm(&device::full([1], 2.0), Some(&device::full([1], 3.0)), EPSILON).unwrap();
    assert_eq!(y.to_vec(), [3.0; 4]);
    assert_eq!(y.sum_all().unwrap().backward().unwrap().get(&x).unwrap().to_vec(), [0.0; 4]);
    let x = [device::new(&[1.0, 2.0, -3.0, 0.5], [2, 2]).unwrap(), device::full([2], 1.0)];
    check(
        &x,
        |x| x[0].layer_norm(&x[1], None, 0.1),
        |x| layers::norm(&x[0], &x[1], None, f64::from(0.1_f32), true),
    );
}

#[test]
fn more_rows_than_one_task() {
    let mut draw = Draw(2);
    check_norms(&[draw.tensor([401, 129]), draw.tensor([129]), draw.tensor([129])]);
    check_norms(&[draw.tensor([7001, 5]), draw.tensor([5]), draw.tensor([5])]);
}

#[test]
fn a_large_mean_does_not_hide_the_deviation() {
    // Around 100, neighbouring f32 values are 8e-6 apart. E[x²] − mean² would be off by 1e-3.
    let mut draw = Draw(3);
    let x = draw.tensor([3, 64]).shift(100.0).unwrap();
    let inputs = [x, draw.tensor([64])];
    check_within(
        (3e-5, 5e-5),
        &inputs,
        |x| x[0].layer_norm(&x[1], None, EPSILON),
        |x| layers::norm(&x[0], &x[1], None, f64::from(EPSILON), true),
    );
}

#[test]
fn rows_of_zeros_and_of_equal_values_give_the_bias() {
    for value in [0.0, 5.0] {
        let x = device::full([2, 17], value).tracked();
        let (weight, bias) = (device::full([17], 2.0), device::full([17], 3.0));
        let y = x.layer_norm(&weight, Some(&bias), EPSILON).unwrap();
        assert!(y.values().iter().all(|&y| (y - 3.0).abs() < 1e-3));
        let slopes = y.sum_all().unwrap().backward().unwrap().get(&x).unwrap();
        assert!(slopes.values().iter().all(|g| g.is_finite()));
    }
}

#[test]
fn empty_batches_and_empty_rows() {
    check_norms(&[device::zeros([0, 5]), Draw(4).tensor([5]), Draw(5).tensor([5])]);
    check_norms(&[device::zeros([3, 0]), device::zeros([0]), device::zeros([0])]);
}

/// Both results of a fused sum and norm, in one tensor. The sum is used beside the norm as well, as in a residual stream.
fn check_sum_and_norm(shape: &[usize], seed: u64) {
    let (mut draw, width) = (Draw(seed), shape[shape.len() - 1]);
    let inputs = [draw.tensor(shape), draw.tensor(shape), draw.tensor([width]), draw.tensor([width])];
    let together = |(sum, normed): (Tensor, Tensor)| sum.tanh()?.multiply(&normed);
    let expected = |x: &[Array], centred: bool| {
        let sum = broadcast(&x[0], &x[1], |a, b| a + b);
        let bias = centred.then(|| &x[3]);
        let normed = layers::norm(&sum, &x[2], bias, f64::from(EPSILON), centred);
        broadcast(&sum.map(f64::tanh), &normed, |a, b| a * b)
    };
    check(
        &inputs,
        |x| together(x[0].add_layer_norm(&x[1], &x[2], Some(&x[3]), EPSILON)?),
        |x| expected(x, true),
    );
    check(&inputs[..3], |x| together(x[0].add_rms_norm(&x[1], &x[2], EPSILON)?), |x| expected(x, false));
}

#[test]
fn a_sum_and_its_norm_in_one_pass() {
    for (seed, shape) in [&[3, 17][..], &[2, 5, 64], &[70, 384], &[1, 7]].into_iter().enumerate() {
        check_sum_and_norm(shape, 10 + seed as u64);
    }
}

#[test]
fn a_sum_and_its_norm_agree_with_their_parts() {
    let mut draw = Draw(6);
    let (x, y) = (draw.tensor([9, 33]), draw.tensor([9, 33]));
    let (weight, bias) = (draw.tensor([33]), draw.tensor([33]));
    let (sum, normed) = x.add_layer_norm(&y, &weight, Some(&bias), EPSILON).unwrap();
    let parts = x.add(&y).unwrap();
    assert_eq!(sum.to_vec(), parts.to_vec());
    let alone = parts.layer_norm(&weight, Some(&bias), EPSILON).unwrap();
    let near = normed.values().iter().zip(alone.values().iter()).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(near, "the norm of a sum is the norm of the sum");
    assert!(x.add_rms_norm(&draw.tensor([9, 32]), &weight, EPSILON).is_err());
}
