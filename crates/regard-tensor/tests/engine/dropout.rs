//! Dropout: how many values are dropped, which ones, and that draws are reproducible.

use crate::device;
use crate::gradcheck::{Draw, cases, check};
use crate::reference::Array;
use proptest::prelude::*;
use proptest::sample::select;
use regard_tensor::ops::Dropout;
use regard_tensor::random::Key;

fn dropout(probability: f32, seed: u64) -> Dropout {
    Dropout { probability, key: Key::new(seed).step(3).site("here"), first_example: 7 }
}

/// The documented draw: word `i % 4` of block `i / 4` of the example decides about element `i`.
fn factor(dropout: &Dropout, example: usize, element: usize) -> f64 {
    let word = dropout.key.words(dropout.first_example + example as u64, element as u64 / 4)[element % 4];
    let p = f64::from(dropout.probability);
    if f64::from(word) < p * 4294967296.0 { 0.0 } else { 1.0 / (1.0 - p) }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn values_and_gradients_follow_the_documented_draw(
        shape in prop::collection::vec(select(&[0_usize, 1, 2, 3, 5, 17, 65][..]), 0..3),
        probability in select(&[0.0_f32, 0.01, 0.1, 0.5, 0.9][..]),
        seed: u64,
    ) {
        let dropout = dropout(probability, seed);
        let examples = shape.first().copied().unwrap_or(1).max(1);
        check(&[Draw(seed).tensor(&shape[..])], |x| x[0].dropout(&dropout), |x| {
            let each = x[0].values.len() / examples;
            let kept = x[0].values.iter().enumerate();
            Array::new(kept.map(|(i, x)| x * factor(&dropout, i / each, i % each)).collect(), &shape)
        });
    }
}

#[test]
fn the_dropped_fraction_matches_the_probability() {
    let count = 200_000;
    for (i, probability) in [0.05_f32, 0.1, 0.5, 0.9].into_iter().enumerate() {
        let y = device::full([4, count / 4], 2.0).dropout(&dropout(probability, i as u64)).unwrap();
        let dropped = y.values().iter().filter(|&&y| y == 0.0).count() as f64;
        let p = f64::from(probability);
        let (mean, deviation) = (p * count as f64, (p * (1.0 - p) * count as f64).sqrt());
        assert!((dropped - mean).abs() < 5.0 * deviation, "{dropped} of {count} at {probability}");
        let kept = 2.0 * (1.0 / (1.0 - probability));
        assert!(y.values().iter().all(|&y| y == 0.0 || y == kept));
    }
}

#[test]
fn examples_elements_sites_and_steps_have_independent_draws() {
    let x = device::full([2, 1000], 1.0);
    let base = dropout(0.5, 1);
    let y = x.dropout(&base).unwrap().to_vec();
    assert_ne!(y[..1000], y[1000..]);
    for other in [
        Key::new(2).step(3).site("here"),
        Key::new(1).step(4).site("here"),
        Key::new(1).step(3).site("there"),
    ] {
        let other = x.dropout(&Dropout { key: other, ..base }).unwrap().to_vec();
        let same = y.iter().zip(&other).filter(|(a, b)| a == b).count();
        // Half of 2000 agree by chance, with a deviation of 22.
        assert!((888..1112).contains(&same), "{same}");
    }
}

#[test]
fn a_split_batch_has_the_same_draws() {
    let x = Draw(2).tensor([5, 3, 7]);
    let whole = x.dropout(&dropout(0.4, 3)).unwrap().to_vec();
    let part = |start: usize, length: usize| {
        let dropout = Dropout { first_example: 7 + start as u64, ..dropout(0.4, 3) };
        x.slice(0, start, length).unwrap().dropout(&dropout).unwrap().to_vec()
    };
    assert_eq!(whole, [part(0, 2), part(2, 3)].concat());
}

#[test]
fn examples_longer_than_a_task_match_the_definition() {
    let dropout = dropout(0.3, 4);
    let y = device::full([2, 40_003], 1.0).dropout(&dropout).unwrap();
    for (i, &y) in y.values().iter().enumerate() {
        assert_eq!(y == 0.0, factor(&dropout, i / 40_003, i % 40_003) == 0.0, "element {i}");
    }
}

#[test]
fn probabilities_outside_the_range_are_rejected() {
    let x = device::full([3], 1.0);
    for probability in [-0.1, 1.0, 1.5, f32::NAN, f32::INFINITY] {
        let message = x.dropout(&dropout(probability, 1)).unwrap_err().to_string();
        assert!(message.contains("probability") && message.contains(&probability.to_string()), "{message}");
    }
    assert_eq!(x.dropout(&dropout(0.0, 1)).unwrap().to_vec(), x.to_vec());
}

#[test]
fn the_largest_example_index_does_not_panic() {
    let dropout = Dropout { first_example: u64::MAX, ..dropout(0.5, 5) };
    assert_eq!(device::full([2, 9], 1.0).dropout(&dropout).unwrap().count(), 18);
}
