//! Soft caps of attention scores with their gradients, alone and with all that comes after them.

use crate::attention::{Sizes, compare_extras, is_visible, separate};
use crate::gradcheck::{Draw, cases, check};
use crate::reference::Array;
use crate::reference::attention::{self as reference, attend as reference_attend};
use proptest::prelude::*;
use proptest::sample::select;
use regard_tensor::ops::{Attention, Bias};
use regard_tensor::{BlockMask, Tensor};
use std::sync::Arc;

const LENGTHS: [usize; 8] = [1, 3, 17, 63, 64, 65, 70, 130];

proptest! {
    #![proptest_config(cases(16))]

    /// Caps that bend nearly every score, some, and none; with a bias, which is added to the capped scores.
    #[test]
    fn caps_and_their_gradients(
        lengths in (select(&LENGTHS[..]), select(&LENGTHS[..])),
        (batch, kv_heads, group) in (1_usize..3, 1_usize..3, 1_usize..3),
        width in select(&[1_usize, 4, 7][..]),
        cap in select(&[0.3_f32, 2.0, 50.0][..]),
        causal: bool,
        seed: u64,
    ) {
        let (queries, keys) = lengths;
        let sizes = Sizes { batch, heads: kv_heads * group, kv_heads, queries, keys, width, value_width: 3 };
        let mut draw = Draw(seed);
        let mut inputs = sizes.projections(&mut draw);
        inputs.push(draw.tensor([1, sizes.heads, queries, keys]));
        let how = |x: &[Tensor]| {
            let bias = Bias::Dense(x[3].clone());
            let mut attention = Attention { soft_cap: Some(cap), bias, ..Attention::scaled(sizes.scale()) };
            attention.allowed.causal = causal;
            attention
        };
        let reference = |x: &[Array]| {
            let how = reference::Attention {
                soft_cap: Some(f64::from(cap)),
                allowed: &|_, _, q, k| !causal || is_visible(&sizes, q, k),
                bias: &|_, h, q, k| x[3].at(&[0, h, q, k]),
                ..reference::Attention::scaled(f64::from(sizes.scale()))
            };
            reference_attend(&x[0], &x[1], &x[2], &how)
        };
        check(&inputs, |x| Ok(separate(x, &how(x))?.output), |x| reference(x).output);
        let exact: Vec<Array> = inputs.iter().map(Array::of).collect();
        compare_extras(&separate(&inputs, &how(&inputs)).unwrap(), &reference(&exact), &sizes);
    }
}

/// As in Gemma 2: a window that leaves out whole tiles, looking back, with key heads shared; and a sink beside it.
#[test]
fn a_cap_with_a_window_and_a_sink() {
    let sizes = Sizes { batch: 1, heads: 4, kv_heads: 2, queries: 330, keys: 330, width: 8, value_width: 8 };
    let reach = 40;
    let window = BlockMask::build(
        (330, 330),
        |block| (block.saturating_sub(1)..=block).collect(),
        |query, key| query >= key && query - key <= reach,
    );
    assert!(window.blocks() < 12);
    let window = Arc::new(window);
    let mut inputs = sizes.projections(&mut Draw(5));
    inputs.push(Draw(6).tensor([4]));
    let engine = |x: &[Tensor]| {
        let plain = Attention::scaled(0.8).causal();
        let mut attention = Attention { soft_cap: Some(1.5), sink: Some(x[3].clone()), ..plain };
        attention.allowed.blocks = Some(window.clone());
        Ok(separate(x, &attention)?.output)
    };
    check(&inputs, engine, |x| {
        let how = reference::Attention {
            soft_cap: Some(1.5),
            allowed: &|_, _, q, k| k <= q && q - k <= reach,
            sink: Some(&x[3]),
            ..reference::Attention::scaled(0.8)
        };
        reference_attend(&x[0], &x[1], &x[2], &how).output
    });
}
