//! Image patches.

use crate::device;
use crate::gradcheck::{Draw, cases, check};
use crate::reference::layers;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn patches_of_every_size(
        (batch, channels, down, across) in (0_usize..3, 1_usize..4, 1_usize..4, 1_usize..4),
        size in 1_usize..6,
        seed: u64,
    ) {
        let x = [Draw(seed).tensor([batch, channels, down * size, across * size])];
        check(&x, |x| x[0].patches(size), |x| layers::patches(&x[0], size));
    }
}

#[test]
fn a_linear_layer_on_patches_is_a_strided_convolution() {
    // One image of 4 × 4 and a 2 × 2 kernel of ones: each output is the sum of its patch.
    let image: Vec<f32> = (0..16).map(|i| i as f32).collect();
    let patches = device::new(&image, [1, 1, 4, 4]).unwrap().patches(2).unwrap();
    let kernel = device::full([1, 4], 1.0);
    let sums = patches.linear(&kernel, None, regard_tensor::ops::Layout::OutIn, None).unwrap();
    assert_eq!(sums.to_vec(), [10.0, 18.0, 42.0, 50.0]);
}

#[test]
fn images_without_pixels_or_channels() {
    for shape in [[2, 0, 4, 4], [2, 3, 0, 4], [2, 3, 4, 0]] {
        check(&[device::zeros(shape)], |x| x[0].patches(2), |x| layers::patches(&x[0], 2));
    }
}
