//! Reshape, permute, transpose, slice, select, concatenate.

use crate::device;
use crate::gradcheck::{Draw, cases, check};
use crate::reference;
use proptest::prelude::*;
use proptest::sample::select;
use regard_tensor::Tensor;
use regard_tensor::ops::concatenate;

fn shapes(most: usize) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(select(&[0_usize, 1, 2, 3, 5, 8, 17][..]), 1..=most)
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn permuted_axes(shape in shapes(4), seed: u64) {
        let mut axes: Vec<usize> = (0..shape.len()).collect();
        let mut draw = Draw(seed);
        for i in (1..axes.len()).rev() {
            axes.swap(i, draw.below(i + 1));
        }
        check(&[draw.tensor(&shape[..])], |x| x[0].permute(&axes), |x| reference::permute(&x[0], &axes));
    }

    #[test]
    fn transposed_axes(shape in shapes(4), a in 0_usize..4, b in 0_usize..4, seed: u64) {
        let (a, b) = (a % shape.len(), b % shape.len());
        let mut axes: Vec<usize> = (0..shape.len()).collect();
        axes.swap(a, b);
        let x = [Draw(seed).tensor(&shape[..])];
        let from_end = a as isize - shape.len() as isize;
        check(&x, |x| x[0].transpose(from_end, b as isize), |x| reference::permute(&x[0], &axes));
    }

    #[test]
    fn slices_and_selections(shape in shapes(4), axis in 0_usize..4, (start, length) in (0_usize..99, 0_usize..99), seed: u64) {
        let axis = axis % shape.len();
        let start = start % (shape[axis] + 1);
        let length = length % (shape[axis] - start + 1);
        let x = [Draw(seed).tensor(&shape[..])];
        check(&x, |x| x[0].slice(axis as isize, start, length), |x| reference::slice(&x[0], axis, start, length));
        if start < shape[axis] {
            let mut rest = shape.clone();
            rest.remove(axis);
            check(&x, |x| x[0].select(axis as isize, start), |x| {
                reference::reshape(&reference::slice(&x[0], axis, start, 1), &rest)
            });
        }
    }

    #[test]
    fn concatenation_along_any_axis(
        shape in shapes(3),
        axis in 0_usize..3,
        lengths in prop::collection::vec(0_usize..5, 1..5),
        seed: u64,
    ) {
        let axis = axis % shape.len();
        let mut draw = Draw(seed);
        let parts: Vec<Tensor> = lengths
            .iter()
            .map(|&length| {
                let mut shape = shape.clone();
                shape[axis] = length;
                draw.tensor(shape)
            })
            .collect();
        let engine = |x: &[Tensor]| concatenate(&x.iter().collect::<Vec<_>>(), axis as isize);
        check(&parts, engine, |x| reference::concatenate(x, axis));
    }

    #[test]
    fn reshapes_keep_the_order(shape in shapes(4), seed: u64) {
        let x = Draw(seed).tensor(&shape[..]);
        let count = x.count();
        check(std::slice::from_ref(&x), |x| x[0].reshape([1, count]), |x| reference::reshape(&x[0], &[1, count]));
    }
}

#[test]
fn overlapping_slices_of_one_tensor_add_their_gradients() {
    check(
        &[Draw(1).tensor([9])],
        |x| concatenate(&[&x[0].slice(0, 0, 6)?, &x[0].slice(0, 3, 6)?, &x[0]], 0),
        |x| {
            let (a, b) = (reference::slice(&x[0], 0, 0, 6), reference::slice(&x[0], 0, 3, 6));
            reference::concatenate(&[a, b, x[0].clone()], 0)
        },
    );
}

#[test]
fn large_arrays_are_permuted_completely() {
    let x = [Draw(2).tensor([130, 257])];
    check(&x, |x| x[0].transpose(0, 1), |x| reference::permute(&x[0], &[1, 0]));
    let x = [Draw(3).tensor([3, 40, 5, 65])];
    check(&x, |x| x[0].permute(&[0, 2, 1, 3]), |x| reference::permute(&x[0], &[0, 2, 1, 3]));
}

#[test]
fn a_slice_is_not_changed_by_changing_its_source() {
    let mut x = device::new(&[1.0, 2.0, 3.0], [3]).unwrap();
    let part = x.slice(0, 1, 2).unwrap();
    x.set_values(&[7.0, 8.0, 9.0]).unwrap();
    assert_eq!(part.to_vec(), [2.0, 3.0]);
    assert_eq!(x.to_vec(), [7.0, 8.0, 9.0]);
}

#[test]
fn scalars_reshape_to_one_value_of_any_rank() {
    check(&[device::scalar(3.0)], |x| x[0].reshape([1, 1, 1]), |x| reference::reshape(&x[0], &[1, 1, 1]));
    check(&[device::scalar(3.0)], |x| x[0].permute(&[]), |x| x[0].clone());
}
