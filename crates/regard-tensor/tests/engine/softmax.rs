//! Softmax and log-softmax, with and without masks.

use crate::device;
use crate::gradcheck::{Draw, LENGTHS, cases, check, close, mask_array};
use crate::reference::{Array, layers};
use proptest::prelude::*;
use proptest::sample::select;
use regard_tensor::{Mask, Pass};

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn rows_of_every_width(outer in prop::collection::vec(1_usize..5, 0..3), width in select(&LENGTHS[..]), seed: u64) {
        let shape: Vec<usize> = outer.iter().copied().chain([width]).collect();
        let x = [Draw(seed).tensor(shape).scale(3.0).unwrap()];
        let all = Array::new(vec![1.0], &[]);
        check(&x, |x| x[0].softmax(), |x| layers::softmax(&x[0], &all));
        check(&x, |x| x[0].log_softmax(), |x| layers::log_softmax(&x[0], &all));
    }

    #[test]
    fn masks_of_every_broadcast_shape(
        (a, b) in (1_usize..4, 1_usize..4),
        width in select(&[1_usize, 2, 5, 8, 17, 33][..]),
        kept in any::<[bool; 3]>(),
        rank in 0_usize..4,
        share in 0.2_f64..1.0,
        seed: u64,
    ) {
        let mut draw = Draw(seed);
        let full = [a, b, width];
        let shape: Vec<usize> =
            full.iter().zip(kept).map(|(&n, kept)| if kept { n } else { 1 }).skip(3 - rank).collect();
        let mask = draw.mask(share, shape);
        let x = [draw.tensor(full)];
        let reference = mask_array(&mask);
        check(&x, |x| x[0].softmax_masked(&mask), |x| layers::softmax(&x[0], &reference));
        check(&x, |x| x[0].log_softmax_masked(&mask), |x| layers::log_softmax(&x[0], &reference));
    }
}

#[test]
fn large_logits_neither_overflow_nor_vanish() {
    let x = device::new(&[1e4, 1e4 - 1.0, -1e4, 3e38, 3e38, -3e38], [2, 3]).unwrap().tracked();
    let e = std::f64::consts::E;
    let want = [e / (1.0 + e), 1.0 / (1.0 + e), 0.0, 0.5, 0.5, 0.0];
    close("softmax", &x.softmax().unwrap().values(), &want, 1e-6);
    let logs = x.slice(0, 0, 1).unwrap().log_softmax().unwrap();
    close("log-softmax", &logs.values(), &[-0.3132616875, -1.3132616875, -20_000.313], 1e-7);
    let slopes = x.softmax().unwrap().sum_all().unwrap().backward().unwrap().get(&x).unwrap();
    assert!(slopes.values().iter().all(|g| g.abs() < 1e-6));
}

#[test]
fn a_fully_masked_row_is_zero_and_has_no_gradient() {
    let x = Draw(1).tensor([2, 5]).tracked();
    let mask = Mask::from_fn([2, 1], |at| at[0] == 1);
    let y = x.softmax_masked(&mask).unwrap();
    assert_eq!(y.to_vec()[..5], [0.0; 5]);
    let upstream = || Pass::new().from_upstream(Draw(2).tensor([2, 5]));
    let slopes = y.gradients(&upstream()).unwrap().get(&x).unwrap().to_vec();
    assert_eq!(slopes[..5], [0.0; 5]);
    assert!(slopes.iter().all(|g| g.is_finite()));
    assert_eq!(x.log_softmax_masked(&mask).unwrap().to_vec()[..5], [f32::NEG_INFINITY; 5]);
}

#[test]
fn masked_elements_of_log_softmax_have_no_gradient() {
    // A masked element is −∞ for any x, so no upstream gradient may reach x through it.
    let x = device::new(&[0.5, -0.3, 0.2], [3]).unwrap().tracked();
    let mask = Mask::new(&[true, false, true], [3]).unwrap();
    let slopes = |upstream: [f32; 3]| {
        let pass = Pass::new().from_upstream(device::new(&upstream, [3]).unwrap());
        x.log_softmax_masked(&mask).unwrap().gradients(&pass).unwrap().get(&x).unwrap().to_vec()
    };
    assert_eq!(slopes([1.0, 5.0, 2.0]), slopes([1.0, 0.0, 2.0]));
    assert_eq!(slopes([1.0, 5.0, 2.0])[1], 0.0);
}

#[test]
fn empty_shapes_and_scalars() {
    for shape in [vec![0, 4], vec![3, 0], vec![0]] {
        let x = [device::zeros(shape)];
        check(&x, |x| x[0].softmax(), |x| x[0].clone());
        check(&x, |x| x[0].log_softmax(), |x| x[0].clone());
    }
    assert_eq!(device::scalar(7.0).softmax().unwrap().item().unwrap(), 1.0);
}
