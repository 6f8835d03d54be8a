//! Sums, means and maxima.

use crate::device;
use crate::gradcheck::{Draw, LENGTHS, cases, check};
use crate::reference::{self, Array};
use proptest::prelude::*;
use proptest::sample::select;
use regard_tensor::Pass;
use regard_tensor::ops::Layout;

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn over_any_axis(
        shape in prop::collection::vec(select(&[1_usize, 2, 3, 5, 8, 16, 17][..]), 1..4),
        axis in 0_usize..3,
        from_end: bool,
        seed: u64,
    ) {
        let axis = axis % shape.len();
        let signed = if from_end { axis as isize - shape.len() as isize } else { axis as isize };
        let x = [Draw(seed).tensor(&shape[..])];
        check(&x, |x| x[0].sum(signed), |x| reference::sum(&x[0], axis));
        let length = shape[axis] as f64;
        check(&x, |x| x[0].mean(signed), |x| reference::sum(&x[0], axis).map(|x| x / length));
        check(&x, |x| Ok(x[0].max(signed)?.0), |x| reference::max(&x[0], axis));
        let (values, indices) = x[0].max(signed).unwrap();
        prop_assert_eq!(&indices, &x[0].argmax(signed).unwrap());
        prop_assert_eq!(indices.shape(), values.shape());
    }

    #[test]
    fn over_everything(count in select(&LENGTHS[..]), seed: u64) {
        let x = [Draw(seed).tensor([count])];
        check(&x, |x| x[0].sum_all(), |x| reference::sum_all(&x[0]));
        check(&x, |x| x[0].mean_all(), |x| reference::sum_all(&x[0]).map(|x| x / count as f64));
    }

    #[test]
    fn over_all_rows(rows in select(&LENGTHS[..]), columns in select(&LENGTHS[..]), seed: u64) {
        let x = [Draw(seed).tensor([rows, columns])];
        check(&x, |x| x[0].sum_rows(), |x| reference::sum(&x[0], 0));
    }
}

#[test]
fn long_sums_stay_exact() {
    // A plain f32 sum of a million equal values is off by about 1 %. With few lanes a few hundred values are added in
    // sequence, and the rounding errors of equal values have the same sign: 1e-5.
    let x = device::full([1_000_003], 0.1);
    let want = f64::from(0.1_f32) * 1_000_003.0;
    assert!((f64::from(x.sum_all().unwrap().item().unwrap()) - want).abs() < 1e-5 * want);
    assert!((f64::from(x.mean_all().unwrap().item().unwrap()) - 0.1).abs() < 1e-6);
}

#[test]
fn long_sums_over_the_first_axis_stay_exact() {
    let x = device::full([1_000_003, 2], 0.1);
    let want = f64::from(0.1_f32) * 1_000_003.0;
    for sums in [x.sum(0).unwrap(), x.sum_rows().unwrap()] {
        let off = f64::from(sums.values()[1]) - want;
        assert!(off.abs() < 1e-5 * want, "{sums:?} should be {want}");
    }
}

#[test]
fn the_gradient_of_a_bias_over_many_rows_stays_exact() {
    let rows = 300_007;
    let (x, bias) = (device::zeros([rows, 2]), device::zeros([2]).tracked());
    let identity = device::new(&[1.0, 0.0, 0.0, 1.0], [2, 2]).unwrap();
    let want = f64::from(0.1_f32) * rows as f64;
    let sums = [x.add(&bias).unwrap(), x.linear(&identity, Some(&bias), Layout::InOut, None).unwrap()];
    for sum in sums {
        let slope = sum.gradients(&Pass::new().from_upstream(device::full([rows, 2], 0.1))).unwrap();
        let off = f64::from(slope.get(&bias).unwrap().values()[0]) - want;
        assert!(off.abs() < 1e-5 * want, "off by {off} of {want}");
    }
}

#[test]
fn the_first_of_several_maxima_gets_the_gradient() {
    let x = device::new(&[1.0, 3.0, 3.0, 2.0, 2.0, 2.0], [2, 3]).unwrap().tracked();
    let (values, indices) = x.max(1).unwrap();
    assert_eq!((values.to_vec(), indices.values()), (vec![3.0, 2.0], &[1, 0][..]));
    let slopes = values.sum_all().unwrap().backward().unwrap().get(&x).unwrap();
    assert_eq!(slopes.to_vec(), [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
}

#[test]
fn nan_is_the_maximum() {
    let x = device::new(&[1.0, f32::NAN, 3.0], [3]).unwrap();
    let (value, index) = x.max(0).unwrap();
    assert!(value.item().unwrap().is_nan() && index.values() == [1]);
}

#[test]
fn empty_axes_sum_to_zero_but_have_no_mean_and_no_maximum() {
    let x = device::zeros([3, 0, 2]);
    check(std::slice::from_ref(&x), |x| x[0].sum(1), |_| Array::from_fn(&[3, 2], |_| 0.0));
    check(std::slice::from_ref(&x), |x| x[0].sum(0), |_| Array::from_fn(&[0, 2], |_| 0.0));
    assert!(x.mean(1).is_err() && x.max(1).is_err() && x.argmax(1).is_err() && x.mean_all().is_err());
    assert_eq!(x.max(0).unwrap().0.shape()[..], [0, 2]);
    assert_eq!(x.sum_all().unwrap().item().unwrap(), 0.0);
    assert_eq!(x.sum_rows().unwrap().to_vec(), [0.0, 0.0]);
}

#[test]
fn scalars_have_no_axis_but_a_sum() {
    let x = device::scalar(2.0);
    assert!(x.sum(0).is_err() && x.sum(-1).is_err() && x.max(0).is_err());
    assert_eq!((x.sum_all().unwrap().item(), x.mean_all().unwrap().item()), (Ok(2.0), Ok(2.0)));
}
