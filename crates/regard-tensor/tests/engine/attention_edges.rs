//! Edge cases of attention: rows without keys, huge scores, empty batches, dropout by position.

use crate::attention::{Sizes, separate};
use crate::device;
use crate::gradcheck::{Draw, check_within, close};
use crate::reference::Array;
use crate::reference::attention::{self as reference, attend as reference_attend};
use regard_tensor::ops::{Attention, Bias, Dropout, Projections, attend};
use regard_tensor::random::Key;
use regard_tensor::{BlockMask, Mask, Pass, Tensor};
use std::sync::Arc;

/// All gradients of an attention for a random upstream gradient.
fn slopes(x: &[Tensor], attention: &Attention) -> (Vec<f32>, Vec<Vec<f32>>) {
    let x: Vec<Tensor> = x.iter().map(Tensor::tracked).collect();
    let output = separate(&x, attention).unwrap().output;
    let gradients = output.gradients(&Pass::new().from_upstream(Draw(99).tensor(output.shape()))).unwrap();
    (output.to_vec(), x.iter().map(|x| gradients.get(x).unwrap().to_vec()).collect())
}

#[test]
fn fully_masked_rows_are_zero_and_have_no_gradient() {
    let sizes = Sizes::small(70, 66);
    let x = sizes.projections(&mut Draw(1));
    // Every way to mask a whole row: causality with more queries than keys, padding, a block mask.
    let causal = Attention::scaled(0.3).causal();
    let mut padding = Attention::scaled(0.3);
    padding.allowed.keys = Some(Mask::from_fn([2, 66], |at| at[0] == 1));
    let mut pattern = Attention::scaled(0.3);
    let holes = Mask::from_fn([70, 66], |at| at[0] >= 4);
    pattern.allowed.blocks = Some(Arc::new(BlockMask::from_mask(&holes).unwrap()));
    for (attention, empty_rows) in [(causal, 4), (padding, 70), (pattern, 4)] {
        for dropout in [None, Some(Dropout { probability: 0.2, key: Key::new(1), first_example: 0 })] {
            let attention = Attention { dropout, ..attention.clone() };
            let attended = separate(&x, &attention).unwrap();
            let per_row = sizes.heads * sizes.value_width;
            assert!(attended.output.values()[..empty_rows * per_row].iter().all(|&y| y == 0.0));
            assert!(attended.log_sum_exp.values()[..empty_rows].iter().all(|&lse| lse == f32::NEG_INFINITY));
            assert!(attended.log_sum_exp.values().iter().all(|lse| !lse.is_nan()));
            let weights = attended.weights(0, 1, 0..empty_rows, 0..66).unwrap();
            assert!(weights.values().iter().all(|&w| w == 0.0));
            let (_, slopes) = slopes(&x, &attention);
            assert!(slopes.iter().flatten().all(|g| g.is_finite()));
            assert!(slopes[0][..empty_rows * sizes.heads * sizes.width].iter().all(|&g| g == 0.0));
        }
    }
}

#[test]
fn an_empty_row_with_a_sink_gives_all_weight_to_the_sink() {
    let sizes = Sizes::small(6, 3);
    let x = sizes.projections(&mut Draw(2));
    let sink = Draw(3).tensor([2]).tracked();
    let attention = Attention { sink: Some(sink.clone()), ..Attention::scaled(0.3).causal() };
    let attended = separate(&x, &attention).unwrap();
    assert!(attended.output.values()[..3 * 16].iter().all(|&y| y == 0.0));
    let lse = attended.log_sum_exp.values()[0];
    assert!((lse - sink.values()[0]).abs() < 1e-6);
    let pass = Pass::new().from_upstream(Draw(4).tensor(attended.output.shape()));
    let slope = attended.output.gradients(&pass).unwrap().get(&sink).unwrap();
    assert!(slope.values().iter().all(|g| g.is_finite()));
}

#[test]
fn a_sink_of_minus_infinity_has_no_effect() {
    let sizes = Sizes::small(6, 3);
    let x = sizes.projections(&mut Draw(5));
    for causal in [false, true] {
        let mut plain = Attention::scaled(0.3);
        plain.allowed.causal = causal;
        let sunk = Attention { sink: Some(device::full([2], f32::NEG_INFINITY).tracked()), ..plain.clone() };
        let (a, b) = (separate(&x, &plain).unwrap(), separate(&x, &sunk).unwrap());
        assert_eq!(a.output.to_vec(), b.output.to_vec(), "causal: {causal}");
        assert_eq!(a.log_sum_exp.to_vec(), b.log_sum_exp.to_vec(), "causal: {causal}");
        let gradients =
            b.output.gradients(&Pass::new().from_upstream(Draw(6).tensor(b.output.shape()))).unwrap();
        assert_eq!(gradients.get(sunk.sink.as_ref().unwrap()).unwrap().to_vec(), [0.0, 0.0]);
    }
}

#[test]
fn huge_scores_pick_the_best_key_without_overflow() {
    let sizes = Sizes::small(70, 70);
    let mut x = sizes.projections(&mut Draw(7));
    for size in [30.0, 1e3, 1e9] {
        let scaled: Vec<Tensor> = x.iter().take(2).map(|x| x.scale(size).unwrap()).collect();
        (x[0], x[1]) = (scaled[0].clone(), scaled[1].clone());
        let attended = separate(&x, &Attention::scaled(1.0)).unwrap();
        assert!(attended.output.values().iter().all(|y| y.abs() < 4.0));
        assert!(attended.log_sum_exp.values().iter().all(|lse| lse.is_finite()));
        let (_, slopes) = slopes(&x, &Attention::scaled(1.0));
        assert!(slopes[2].iter().all(|g| g.is_finite()), "value gradients at {size}");
    }
}

#[test]
fn large_scores_are_as_exact_as_f32_allows() {
    // Scores of up to about 100: neighbouring f32 values are 8e-6 apart there, and so are the log weights.
    let sizes = Sizes { batch: 1, heads: 2, kv_heads: 2, queries: 40, keys: 70, width: 8, value_width: 4 };
    let inputs = sizes.projections(&mut Draw(8));
    check_within(
        (1e-4, 1e-4),
        &inputs,
        |x| Ok(separate(x, &Attention::scaled(8.0))?.output),
        |x| reference_attend(&x[0], &x[1], &x[2], &reference::Attention::scaled(8.0)).output,
    );
}

#[test]
fn scores_far_below_zero_still_share_the_weight() {
    // All scores near −30000: only differences matter.
    let x = Sizes::small(4, 5).projections(&mut Draw(9));
    let bias = device::full([1, 1, 4, 5], -3e4);
    let (plain, _) = slopes(&x, &Attention::scaled(0.3));
    let (shifted, _) = slopes(&x, &Attention { bias: Bias::Dense(bias), ..Attention::scaled(0.3) });
    // Neighbouring f32 values near 4e4 (in units of log₂) are 4e-3 apart.
    assert!(plain.iter().zip(&shifted).all(|(a, b)| (a - b).abs() < 2e-2));
}

#[test]
fn a_scale_of_zero_and_a_negative_scale() {
    for scale in [0.0_f32, -0.7] {
        let sizes = Sizes::small(9, 11);
        let inputs = sizes.projections(&mut Draw(10));
        crate::gradcheck::check(
            &inputs,
            |x| Ok(separate(x, &Attention::scaled(scale))?.output),
            |x| {
                let how = reference::Attention::scaled(f64::from(scale));
                reference_attend(&x[0], &x[1], &x[2], &how).output
            },
        );
    }
}

#[test]
fn empty_batches_heads_and_widths_do_not_panic() {
    let full = Sizes::small(3, 4);
    for sizes in [Sizes { batch: 0, ..full }, Sizes { heads: 0, ..full }] {
        for attention in [
            Attention::scaled(0.5).causal(),
            Attention { sink: Some(device::zeros([sizes.heads])), ..Attention::scaled(0.5) },
            Attention { bias: Bias::Slopes(device::zeros([sizes.heads])), ..Attention::scaled(0.5) },
            Attention {
                bias: Bias::Dense(device::zeros([1, sizes.heads, 3, 4]).tracked()),
                ..Attention::scaled(0.5)
            },
        ] {
            let (output, slopes) = slopes(&sizes.projections(&mut Draw(11)), &attention);
            assert!(output.is_empty());
            assert!(slopes.iter().flatten().all(|&g| g == 0.0));
        }
    }
}

#[test]
fn keys_of_width_zero_get_equal_weights() {
    let sizes = Sizes { width: 0, ..Sizes::small(3, 4) };
    let x: Vec<Tensor> = sizes.projections(&mut Draw(12)).iter().map(Tensor::tracked).collect();
    // An error would be acceptable, a panic would not.
    let Ok(attended) = separate(&x, &Attention::scaled(1.0)) else { return };
    let exact: Vec<Array> = x.iter().map(Array::of).collect();
    let want = reference_attend(&exact[0], &exact[1], &exact[2], &reference::Attention::scaled(1.0));
    close("output", &attended.output.values(), &want.output.values, 1e-6);
    assert!(attended.output.sum_all().unwrap().backward().is_ok());
}

#[test]
fn values_of_width_zero_give_an_empty_output() {
    let sizes = Sizes { value_width: 0, ..Sizes::small(3, 4) };
    let x: Vec<Tensor> = sizes.projections(&mut Draw(13)).iter().map(Tensor::tracked).collect();
    let Ok(attended) = separate(&x, &Attention::scaled(1.0)) else { return };
    assert_eq!(attended.output.count(), 0);
    assert!(attended.output.sum_all().unwrap().backward().is_ok());
}

#[test]
fn a_fused_projection_of_width_zero_does_not_panic() {
    let packed = device::zeros([2, 3, 0]).tracked();
    let Ok(attended) =
        attend(Projections::Fused { packed: &packed, heads: 2, kv_heads: 1 }, &Attention::scaled(1.0))
    else {
        return;
    };
    assert!(attended.output.sum_all().unwrap().backward().is_ok());
}

#[test]
fn a_split_batch_drops_the_same_weights() {
    let sizes = Sizes { batch: 3, ..Sizes::small(7, 9) };
    let x = sizes.projections(&mut Draw(14));
    let run = |first: usize, count: usize| {
        let part: Vec<Tensor> = x.iter().map(|x| x.slice(0, first, count).unwrap()).collect();
        let key = Key::new(3).step(4).site("attention");
        let dropout = Some(Dropout { probability: 0.5, key, first_example: 10 + first as u64 });
        separate(&part, &Attention { dropout, ..Attention::scaled(0.4) }).unwrap().output.to_vec()
    };
    assert_eq!(run(0, 3), [run(0, 1), run(1, 2)].concat());
}

#[test]
fn weights_reject_ranges_that_do_not_exist() {
    let attended = separate(&Sizes::small(3, 4).projections(&mut Draw(15)), &Attention::scaled(1.0)).unwrap();
    assert!(attended.weights(2, 0, 0..3, 0..4).is_err());
    assert!(attended.weights(0, 2, 0..3, 0..4).is_err());
    assert!(attended.weights(0, 0, 0..4, 0..4).is_err());
    assert!(attended.weights(0, 0, 0..3, 0..5).is_err());
    assert_eq!(attended.weights(0, 0, 1..1, 0..4).unwrap().shape()[..], [0, 4]);
    assert_eq!(attended.weights(0, 0, 0..3, 4..4).unwrap().shape()[..], [3, 0]);
}

#[test]
fn candidate_blocks_beyond_the_end_are_ignored() {
    let mask = BlockMask::build((10, 10), |_| vec![0, 1, 7, usize::MAX], |_, _| true);
    assert_eq!(mask.blocks(), 1);
}

#[test]
fn a_block_pattern_equals_the_same_pattern_by_rules() {
    // A causal block mask gives the same bits as the causal rule.
    let sizes = Sizes::small(130, 130);
    let x = sizes.projections(&mut Draw(16));
    let mut spelled = Attention::scaled(0.3);
    spelled.allowed.blocks = Some(Arc::new(BlockMask::build((130, 130), |_| vec![0, 1, 2], |q, k| k <= q)));
    let (a, da) = slopes(&x, &Attention::scaled(0.3).causal());
    let (b, db) = slopes(&x, &spelled);
    let near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(near(&a, &b) && da.iter().zip(&db).all(|(a, b)| near(a, b)));
}
