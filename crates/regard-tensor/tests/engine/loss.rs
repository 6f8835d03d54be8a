//! Cross-entropy and binary cross-entropy.

use crate::device;
use crate::gradcheck::{Draw, LENGTHS, cases, check, close};
use crate::reference::{Array, broadcast, layers};
use proptest::prelude::*;
use proptest::sample::select;
use regard_tensor::ops::CrossEntropy;
use regard_tensor::{Ids, Pass};

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn cross_entropy_with_ignored_targets_and_smoothing(
        shape in prop::collection::vec(0_usize..6, 0..3),
        classes in select(&LENGTHS[..]),
        ignored in prop::option::of(0_u32..3),
        smoothing in select(&[0.0_f32, 0.1, 0.7][..]),
        seed: u64,
    ) {
        let mut draw = Draw(seed);
        let targets = draw.ids(classes, &shape[..]);
        let full: Vec<usize> = shape.iter().copied().chain([classes]).collect();
        let logits = [draw.tensor(full).scale(2.0).unwrap()];
        let settings = CrossEntropy { ignored, smoothing };
        let rows = |x: &Array| layers::cross_entropy_rows(x, targets.values(), ignored, f64::from(smoothing));
        check(&logits, |x| x[0].cross_entropy_rows(&targets, settings), |x| Array::new(rows(&x[0]), &shape));
        let counted = targets.values().iter().filter(|&&id| Some(id) != ignored).count().max(1);
        check(&logits, |x| x[0].cross_entropy(&targets, settings), |x| {
            Array::new(vec![rows(&x[0]).iter().sum::<f64>() / counted as f64], &[])
        });
    }

    #[test]
    fn cross_entropy_of_scores_that_are_never_kept(
        // Beyond 256 rows there is more than one block.
        (rows, inputs) in (select(&[1_usize, 2, 7, 65, 300][..]), select(&[1_usize, 3, 17, 64][..])),
        classes in select(&LENGTHS[..]),
        ignored in prop::option::of(0_u32..3),
        smoothing in select(&[0.0_f32, 0.1][..]),
        biased: bool,
        seed: u64,
    ) {
        let mut draw = Draw(seed);
        let targets = draw.ids(classes, [rows]);
        let mut x = vec![draw.tensor([rows, inputs]), draw.tensor([classes, inputs])];
        if biased {
            x.push(draw.tensor([classes]));
        }
        let settings = CrossEntropy { ignored, smoothing };
        let counted = targets.values().iter().filter(|&&id| Some(id) != ignored).count().max(1);
        check(
            &x,
            // Twice the loss, so that the upstream gradient is not 1.
            |x| x[0].scored_cross_entropy(&x[1], x.get(2), &targets, settings)?.scale(2.0),
            |x| {
                let logits = layers::linear(&x[0], &x[1], x.get(2), true, |x| x);
                let rows = layers::cross_entropy_rows(&logits, targets.values(), ignored, f64::from(smoothing));
                Array::new(vec![2.0 * rows.iter().sum::<f64>() / counted as f64], &[])
            },
        );
    }

    #[test]
    fn binary_cross_entropy_of_any_count(count in select(&LENGTHS[..]), seed: u64) {
        let mut draw = Draw(seed);
        let x = [draw.tensor([count]).scale(3.0).unwrap()];
        let targets = draw.between(0.0, 1.0, [count]);
        let exact = Array::of(&targets);
        let rows = |x: &Array| broadcast(x, &exact, layers::binary_cross_entropy);
        check(&x, |x| x[0].binary_cross_entropy_rows(&targets), |x| rows(&x[0]));
        check(&x, |x| x[0].binary_cross_entropy(&targets), |x| {
            Array::new(vec![rows(&x[0]).values.iter().sum::<f64>() / count as f64], &[])
        });
    }
}

#[test]
fn a_large_vocabulary() {
    let mut draw = Draw(1);
    let targets = draw.ids(5003, [9]);
    for smoothing in [0.0, 0.1] {
        let settings = CrossEntropy { ignored: None, smoothing };
        check(
            &[draw.tensor([9, 5003])],
            |x| x[0].cross_entropy_rows(&targets, settings),
            |x| {
                Array::new(
                    layers::cross_entropy_rows(&x[0], targets.values(), None, f64::from(smoothing)),
                    &[9],
                )
            },
        );
    }
}

#[test]
fn an_ignored_id_may_lie_beyond_the_classes() {
    let logits = Draw(2).tensor([3, 4]).tracked();
    let targets = Ids::new(&[1, 9999, 2], [3]).unwrap();
    let settings = CrossEntropy { ignored: Some(9999), smoothing: 0.0 };
    let losses = logits.cross_entropy_rows(&targets, settings).unwrap();
    assert_eq!(losses.values()[1], 0.0);
    let slopes = losses.sum_all().unwrap().backward().unwrap().get(&logits).unwrap().to_vec();
    assert_eq!(slopes[4..8], [0.0; 4]);
    assert!(logits.cross_entropy_rows(&targets, CrossEntropy::default()).is_err());
}

#[test]
fn nothing_but_ignored_targets_is_a_loss_of_zero() {
    let logits = Draw(3).tensor([2, 4]).tracked();
    let settings = CrossEntropy { ignored: Some(1), smoothing: 0.1 };
    let loss = logits.cross_entropy(&Ids::new(&[1, 1], [2]).unwrap(), settings).unwrap();
    assert_eq!(loss.item().unwrap(), 0.0);
    assert_eq!(loss.backward().unwrap().get(&logits).unwrap().to_vec(), [0.0; 8]);
    let empty = device::zeros([0, 4]).cross_entropy(&Ids::new(&[], [0]).unwrap(), settings).unwrap();
    assert_eq!(empty.item().unwrap(), 0.0);
}

#[test]
fn large_logits_give_finite_losses_and_slopes() {
    let logits = device::new(&[1e4, 0.0, -1e4, 0.0, 1e4, -1e4], [2, 3]).unwrap().tracked();
    let loss = logits.cross_entropy_rows(&Ids::new(&[0, 0], [2]).unwrap(), CrossEntropy::default()).unwrap();
    assert_eq!(loss.to_vec(), [0.0, 1e4]);
    let slopes = loss.sum_all().unwrap().backward().unwrap().get(&logits).unwrap().to_vec();
    assert_eq!(slopes, [0.0, 0.0, 0.0, -1.0, 1.0, 0.0]);

    let x = device::new(&[-1e30, -100.0, 0.0, 100.0, 1e30], [5]).unwrap().tracked();
    let targets = device::new(&[0.0, 1.0, 0.5, 0.0, 1.0], [5]).unwrap();
    let losses = x.binary_cross_entropy_rows(&targets).unwrap();
    close("losses", &losses.values(), &[0.0, 100.0, std::f64::consts::LN_2, 100.0, 0.0], 1e-7);
    let pass = Pass::new().from_upstream(device::full([5], 1.0));
    let slopes = losses.gradients(&pass).unwrap().get(&x).unwrap();
    close("slopes", &slopes.values(), &[0.0, -1.0, 0.0, 1.0, 0.0], 1e-7);
}

#[test]
fn confident_rows_keep_their_small_losses() {
    // ln(1 + e^−12) = 6.1e-6: the difference of the log-sum-exp and the target's logit must not round it away.
    let logits = device::new(&[12.0, 0.0, 6.0, -6.0], [2, 2]).unwrap();
    let loss = logits.cross_entropy_rows(&Ids::new(&[0, 0], [2]).unwrap(), CrossEntropy::default()).unwrap();
    let want = (-12.0_f64).exp().ln_1p();
    assert!(loss.values().iter().all(|&loss| (f64::from(loss) - want).abs() < 1e-6), "{loss:?}");
}
