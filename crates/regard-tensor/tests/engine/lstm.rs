//! The LSTM compared with a reference that computes one step at a time.

use crate::device;
use crate::gradcheck::{Draw, cases, check};
use crate::reference::Array;
use crate::reference::lstm::{Direction, lstm as reference};
use proptest::prelude::*;
use proptest::sample::select;
use regard_tensor::ops::{LstmWeights, lstm};
use regard_tensor::{Ids, Pass, Tensor};

fn ids(lengths: &[usize]) -> Ids {
    let lengths: Vec<u32> = lengths.iter().map(|&length| length as u32).collect();
    Ids::new(&lengths, [lengths.len()]).unwrap()
}

struct Sizes {
    batch: usize,
    time: usize,
    inputs: usize,
    hidden: usize,
    directions: usize,
}

/// x, then the three weights of each direction.
fn inputs(draw: &mut Draw, sizes: &Sizes) -> Vec<Tensor> {
    let Sizes { batch, time, inputs, hidden, directions } = *sizes;
    let mut all = vec![draw.tensor([batch, time, inputs])];
    for _ in 0..directions {
        // Weights of a realistic size, so that gates neither saturate nor forget everything.
        let scaled = |x: Tensor, fan: usize| x.scale(1.0 / (fan.max(1) as f32).sqrt()).unwrap();
        all.push(scaled(draw.tensor([4 * hidden, inputs]), inputs));
        all.push(scaled(draw.tensor([4 * hidden, hidden]), hidden));
        all.push(draw.tensor([4 * hidden]).scale(0.5).unwrap());
    }
    all
}

fn weights(tensors: &[Tensor]) -> Vec<LstmWeights> {
    let all = tensors.chunks(3);
    all.map(|w| LstmWeights { input: w[0].clone(), hidden: w[1].clone(), bias: w[2].clone() }).collect()
}

fn directions(arrays: &[Array]) -> Vec<Direction<'_>> {
    arrays.chunks(3).map(|w| Direction { input: &w[0], hidden: &w[1], bias: &w[2] }).collect()
}

fn check_lstm(seed: u64, sizes: &Sizes, padded: bool) {
    let mut draw = Draw(seed);
    let lengths: Vec<usize> = (0..sizes.batch).map(|_| draw.below(sizes.time + 1)).collect();
    let lengths = padded.then_some(&lengths[..]);
    let as_ids = lengths.map(ids);
    check(
        &inputs(&mut draw, sizes),
        |x| lstm(&x[0], &weights(&x[1..]), as_ids.as_ref()),
        |x| reference(&x[0], &directions(&x[1..]), lengths),
    );
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn any_size_direction_and_length(
        batch in select(&[1_usize, 2, 3, 4, 5, 6, 7, 9, 13][..]),
        time in 1_usize..7,
        inputs in select(&[1_usize, 2, 3, 8, 17][..]),
        hidden in select(&[1_usize, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33][..]),
        directions in 1_usize..3,
        padded: bool,
        seed: u64,
    ) {
        check_lstm(seed, &Sizes { batch, time, inputs, hidden, directions }, padded);
    }
}

#[test]
fn batches_that_need_several_tasks() {
    for directions in [1, 2] {
        check_lstm(1, &Sizes { batch: 40, time: 4, inputs: 5, hidden: 18, directions }, true);
        check_lstm(2, &Sizes { batch: 101, time: 2, inputs: 3, hidden: 4, directions }, false);
    }
}

#[test]
fn gradients_flow_through_long_sequences() {
    check_lstm(3, &Sizes { batch: 2, time: 100, inputs: 3, hidden: 5, directions: 2 }, true);
}

#[test]
fn empty_inputs_do_not_panic() {
    let full = Sizes { batch: 2, time: 3, inputs: 4, hidden: 5, directions: 2 };
    // Leaves non-zero values in the memory that the gradients will reuse.
    drop((device::full([4, 2 * 4 * 16], 7.0), device::full([5, 4 * 16], 7.0)));
    check_lstm(4, &Sizes { batch: 0, ..full }, true);
    check_lstm(5, &Sizes { time: 0, ..full }, true);
    check_lstm(6, &Sizes { inputs: 0, ..full }, false);
    check_lstm(7, &Sizes { hidden: 0, ..full }, false);
}

#[test]
fn padding_gives_zeros_and_gets_no_gradient() {
    let sizes = Sizes { batch: 3, time: 4, inputs: 2, hidden: 3, directions: 2 };
    let all: Vec<Tensor> = inputs(&mut Draw(8), &sizes).iter().map(Tensor::tracked).collect();
    let y = lstm(&all[0], &weights(&all[1..]), Some(&ids(&[0, 2, 4]))).unwrap();
    assert_eq!(y.to_vec()[..24], [0.0; 24]);
    assert_eq!(y.to_vec()[36..48], [0.0; 12]);
    let gradients = y.gradients(&Pass::new().from_upstream(Draw(9).tensor([3, 4, 6]))).unwrap();
    let slopes = gradients.get(&all[0]).unwrap().to_vec();
    assert_eq!(slopes[..8], [0.0; 8]);
    assert_eq!(slopes[12..16], [0.0; 4]);
    assert!(slopes[8..12].iter().all(|&g| g != 0.0));
}

#[test]
fn finite_values_in_the_padding_have_no_effect() {
    let sizes = Sizes { batch: 2, time: 3, inputs: 2, hidden: 3, directions: 2 };
    let all = inputs(&mut Draw(10), &sizes);
    let run = |x: &Tensor| lstm(x, &weights(&all[1..]), Some(&ids(&[3, 1]))).unwrap().to_vec();
    let mut values = all[0].to_vec();
    values[8..].fill(1e30);
    assert_eq!(run(&all[0]), run(&device::new(&values, [2, 3, 2]).unwrap()));
}

#[test]
fn a_sequence_does_not_depend_on_its_batch() {
    let sizes = Sizes { batch: 9, time: 5, inputs: 4, hidden: 17, directions: 2 };
    let all = inputs(&mut Draw(11), &sizes);
    let together = lstm(&all[0], &weights(&all[1..]), None).unwrap();
    for example in [0, 5, 8] {
        let alone = lstm(&all[0].slice(0, example, 1).unwrap(), &weights(&all[1..]), None).unwrap();
        let same = together.slice(0, example, 1).unwrap();
        assert!(alone.values().iter().zip(same.values().iter()).all(|(a, b)| (a - b).abs() < 1e-6));
    }
}
