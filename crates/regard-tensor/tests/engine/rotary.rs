//! Rotary position embeddings.

use crate::device;
use crate::gradcheck::{Draw, cases, check};
use crate::reference::layers;
use proptest::prelude::*;
use regard_tensor::ops::Pairing;
use regard_tensor::{Ids, Tensor};

/// cos and sin of position · 10000^(−pair/pairs).
fn tables(positions: usize, pairs: usize) -> (Tensor, Tensor) {
    let angle = |i: usize| (i / pairs) as f32 * 10000.0_f32.powf(-((i % pairs) as f32) / pairs as f32);
    let table = |f: fn(f32) -> f32| {
        let values: Vec<f32> = (0..positions * pairs).map(|i| f(angle(i))).collect();
        device::new(&values, [positions, pairs]).unwrap()
    };
    (table(f32::cos), table(f32::sin))
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn both_pairings_of_any_size(
        (batch, time, heads) in (0_usize..3, 1_usize..9, 1_usize..4),
        (pairs, rest) in (0_usize..18, 0_usize..4),
        interleaved: bool,
        seed: u64,
    ) {
        let mut draw = Draw(seed);
        let (cos, sin) = tables(20, pairs);
        let positions = draw.ids(20, [batch, time]);
        let x = [draw.tensor([batch, time, heads, 2 * pairs + rest])];
        let pairing = if interleaved { Pairing::Interleaved } else { Pairing::Halves };
        let reference = (crate::reference::Array::of(&cos), crate::reference::Array::of(&sin));
        check(&x, |x| x[0].rotary(&cos, &sin, &positions, pairing), |x| {
            layers::rotary(&x[0], &reference.0, &reference.1, positions.values(), interleaved)
        });
    }
}

#[test]
fn dot_products_depend_only_on_the_distance() {
    let (cos, sin) = tables(50, 8);
    let (q, k) = (Draw(1).tensor([1, 1, 1, 16]), Draw(2).tensor([1, 1, 1, 16]));
    for pairing in [Pairing::Halves, Pairing::Interleaved] {
        let dot = |at: u32, other: u32| {
            let turn = |x: &Tensor, at: u32| {
                x.rotary(&cos, &sin, &Ids::new(&[at], [1, 1]).unwrap(), pairing).unwrap()
            };
            (&turn(&q, at) * &turn(&k, other)).unwrap().sum_all().unwrap().item().unwrap()
        };
        assert!((dot(3, 7) - dot(40, 44)).abs() < 1e-4);
        assert!((dot(3, 7) - dot(3, 8)).abs() > 1e-2);
    }
}
