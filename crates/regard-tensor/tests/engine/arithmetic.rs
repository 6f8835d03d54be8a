//! Element-wise arithmetic with broadcasting.

use crate::gradcheck::{Draw, LENGTHS, cases, check};
use crate::reference::{Array, broadcast};
use proptest::prelude::*;
use proptest::sample::select;
use regard_tensor::{Result, Tensor};

type Operation = (fn(&Tensor, &Tensor) -> Result<Tensor>, fn(f64, f64) -> f64);

const OPERATIONS: [Operation; 4] = [
    (Tensor::add, |a, b| a + b),
    (Tensor::subtract, |a, b| a - b),
    (Tensor::multiply, |a, b| a * b),
    (Tensor::divide, |a, b| a / b),
];

fn check_all(seed: u64, a: &[usize], b: &[usize]) {
    for (engine, reference) in OPERATIONS {
        let mut draw = Draw(seed);
        // Divisors stay away from 0, where a quotient's gradient has no bound.
        let inputs = [draw.tensor(a), draw.between(0.5, 2.0, b)];
        check(&inputs, |x| engine(&x[0], &x[1]), |x| broadcast(&x[0], &x[1], reference));
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn any_axis_may_be_broadcast_on_either_side(
        shape in prop::collection::vec(select(&[1_usize, 2, 3, 4, 7, 9, 17][..]), 0..4),
        kept in prop::collection::vec(any::<(bool, bool)>(), 4),
        (drop_a, drop_b) in (0_usize..3, 0_usize..3),
        seed: u64,
    ) {
        let side = |pick: fn(&(bool, bool)) -> bool, drop: usize| -> Vec<usize> {
            let full = shape.iter().zip(&kept).map(|(&n, kept)| if pick(kept) { n } else { 1 });
            full.skip(drop.min(shape.len())).collect()
        };
        check_all(seed, &side(|kept| kept.0, drop_a), &side(|kept| kept.1, drop_b));
    }

    #[test]
    fn long_rows_of_every_width(width in select(&LENGTHS[..]), rows in 1_usize..4, seed: u64) {
        check_all(seed, &[rows, width], &[rows, width]);
        check_all(seed, &[rows, width], &[width]);
        check_all(seed, &[rows, width], &[rows, 1]);
    }

    #[test]
    fn scale_shift_and_affine(count in select(&LENGTHS[..]), scale in -3.0_f32..3.0, shift in -3.0_f32..3.0, seed: u64) {
        let x = [Draw(seed).tensor([count])];
        let (s, t) = (f64::from(scale), f64::from(shift));
        check(&x, |x| x[0].affine(scale, shift), |x| x[0].map(|x| x * s + t));
        check(&x, |x| x[0].scale(scale), |x| x[0].map(|x| x * s));
        check(&x, |x| x[0].shift(shift), |x| x[0].map(|x| x + t));
    }
}

#[test]
fn arrays_larger_than_one_task() {
    // A task takes 16 384 values.
    check_all(1, &[40_001], &[40_001]);
    check_all(2, &[3, 20_000], &[20_000]);
    check_all(3, &[20_001, 2], &[20_001, 1]);
}

#[test]
fn empty_sides_give_empty_results_and_zero_gradients() {
    for (a, b) in
        [(vec![0], vec![1]), (vec![0, 3], vec![1, 3]), (vec![3, 0], vec![3, 1]), (vec![2, 0, 4], vec![4])]
    {
        check_all(4, &a, &b);
        check_all(5, &b, &a);
    }
}

#[test]
fn operators_are_the_methods() {
    let (a, b) = (Draw(6).tensor([5]), Draw(7).between(0.5, 2.0, [5]));
    assert_eq!((&a + &b).unwrap().to_vec(), a.add(&b).unwrap().to_vec());
    assert_eq!((&a - &b).unwrap().to_vec(), a.subtract(&b).unwrap().to_vec());
    assert_eq!((&a * &b).unwrap().to_vec(), a.multiply(&b).unwrap().to_vec());
    assert_eq!((&a / &b).unwrap().to_vec(), a.divide(&b).unwrap().to_vec());
}

#[test]
fn a_tensor_combined_with_itself_gets_both_gradients() {
    check(
        &[Draw(8).between(0.5, 2.0, [17])],
        |x| (&x[0] * &x[0])?.divide(&x[0].shift(1.0)?),
        |x: &[Array]| x[0].map(|x| x * x / (x + 1.0)),
    );
}
