//! Biases of attention scores with their gradients, and fused projections.

use crate::attention::{Sizes, compare_extras, is_visible, separate};
use crate::device;
use crate::gradcheck::{Draw, cases, check, close};
use crate::reference::Array;
use crate::reference::attention::{self as reference, attend as reference_attend};
use proptest::prelude::*;
use proptest::sample::select;
use regard_tensor::ops::{Attention, Bias, Projections, attend, concatenate};
use regard_tensor::{BlockMask, Ids, Pass, Tensor};
use std::sync::Arc;

/// Checks a bias tensor, given how the engine takes it and its value at (example, head, query, key).
fn check_bias(
    seed: u64,
    sizes: &Sizes,
    causal: bool,
    bias: &Tensor,
    engine: impl Fn(&Tensor) -> Bias,
    value: impl Fn(&Array, usize, usize, usize, usize) -> f64,
) {
    let mut inputs = sizes.projections(&mut Draw(seed));
    inputs.push(bias.clone());
    let how = |x: &[Tensor]| {
        let mut attention = Attention::scaled(sizes.scale());
        attention.allowed.causal = causal;
        Attention { bias: engine(&x[3]), ..attention }
    };
    let reference = |x: &[Array]| {
        let how = reference::Attention {
            allowed: &|_, _, q, k| !causal || is_visible(sizes, q, k),
            bias: &|b, h, q, k| value(&x[3], b, h, q, k),
            ..reference::Attention::scaled(f64::from(sizes.scale()))
        };
        reference_attend(&x[0], &x[1], &x[2], &how)
    };
    check(&inputs, |x| Ok(separate(x, &how(x))?.output), |x| reference(x).output);
    let exact: Vec<Array> = inputs.iter().map(Array::of).collect();
    compare_extras(&separate(&inputs, &how(&inputs)).unwrap(), &reference(&exact), sizes);
}

/// Query position − key position.
fn distance(sizes: &Sizes, query: usize, key: usize) -> isize {
    (query + sizes.keys) as isize - (sizes.queries + key) as isize
}

const LENGTHS: [usize; 10] = [1, 3, 8, 17, 63, 64, 65, 70, 128, 130];

fn sizes() -> impl Strategy<Value = Sizes> {
    let lengths = (select(&LENGTHS[..]), select(&LENGTHS[..]));
    (lengths, 1_usize..3, 1_usize..3, 1_usize..3).prop_map(|((queries, keys), batch, kv_heads, group)| {
        Sizes { batch, heads: kv_heads * group, kv_heads, queries, keys, width: 4, value_width: 3 }
    })
}

proptest! {
    #![proptest_config(cases(16))]

    #[test]
    fn dense_in_all_four_shapes(sizes in sizes(), causal: bool, seed: u64) {
        for (batch, heads) in [(1, 1), (1, sizes.heads), (sizes.batch, 1), (sizes.batch, sizes.heads)] {
            let bias = Draw(seed).tensor([batch, heads, sizes.queries, sizes.keys]);
            check_bias(seed, &sizes, causal, &bias, |bias| Bias::Dense(bias.clone()), |bias, b, h, q, k| {
                bias.at(&[b % batch, h % heads, q, k])
            });
        }
    }

    #[test]
    fn slopes_by_distance(sizes in sizes(), causal: bool, seed: u64) {
        // Scaled by the length: the gradient with respect to the slope itself would be a sum of distances of a hundred
        // and more, with rounding errors to match. Scores of at most 4 keep the rounding of the weights small.
        let span = (sizes.queries + sizes.keys) as f32;
        let slopes = Draw(seed).between(0.0, 4.0, [sizes.heads]);
        let engine = |slopes: &Tensor| Bias::Slopes(slopes.scale(1.0 / span).unwrap());
        check_bias(seed, &sizes, causal, &slopes, engine, |slopes, _, h, q, k| {
            -slopes.at(&[h]) * distance(&sizes, q, k).unsigned_abs() as f64 / f64::from(span)
        });
    }

    #[test]
    fn buckets_by_distance(sizes in sizes(), causal: bool, rows in 1_usize..9, seed: u64) {
        let mut draw = Draw(seed);
        let table = draw.tensor([rows, sizes.heads]);
        let buckets = draw.ids(rows, [sizes.queries + sizes.keys - 1]);
        let engine = |table: &Tensor| Bias::Buckets { table: table.clone(), buckets: buckets.clone() };
        check_bias(seed, &sizes, causal, &table, engine, |table, _, h, q, k| {
            // Entry i is for a distance of i + 1 − queries.
            let entry = distance(&sizes, q, k) + sizes.queries as isize - 1;
            table.at(&[buckets.values()[entry as usize] as usize, h])
        });
    }

    #[test]
    fn fused_projections_equal_separate_ones(
        (batch, kv_heads, group) in (1_usize..3, 1_usize..3, 1_usize..4),
        time in select(&LENGTHS[..]),
        width in select(&[1_usize, 7, 8, 16, 24][..]),
        causal: bool,
        seed: u64,
    ) {
        let heads = kv_heads * group;
        let sizes = Sizes { batch, heads, kv_heads, queries: time, keys: time, width, value_width: width };
        let apart: Vec<Tensor> = sizes.projections(&mut Draw(seed)).iter().map(Tensor::tracked).collect();
        let flat = |x: &Tensor| x.reshape([batch, time, x.count() / (batch * time)]).unwrap();
        let parts = [flat(&apart[0]), flat(&apart[1]), flat(&apart[2])];
        let packed = concatenate(&[&parts[0], &parts[1], &parts[2]], 2).unwrap().detach().tracked();
        let mut attention = Attention::scaled(sizes.scale());
        attention.allowed.causal = causal;
        let one = separate(&apart, &attention).unwrap();
        let other = attend(Projections::Fused { packed: &packed, heads, kv_heads }, &attention).unwrap();
        prop_assert_eq!(one.output.to_vec(), other.output.to_vec());
        prop_assert_eq!(one.log_sum_exp.to_vec(), other.log_sum_exp.to_vec());
        let pass = || Pass::new().from_upstream(Draw(seed ^ 1).tensor(one.output.shape()));
        let gradients = one.output.gradients(&pass()).unwrap();
        let slopes: Vec<Tensor> = apart.iter().map(|x| flat(&gradients.get(x).unwrap())).collect();
        let together = concatenate(&[&slopes[0], &slopes[1], &slopes[2]], 2).unwrap();
        let fused = other.output.gradients(&pass()).unwrap().get(&packed).unwrap();
        prop_assert_eq!(together.to_vec(), fused.to_vec());
    }
}

#[test]
fn a_bias_with_a_sink_and_key_heads_shared() {
    let sizes = Sizes { batch: 2, heads: 4, kv_heads: 2, queries: 66, keys: 70, width: 4, value_width: 4 };
    let mut draw = Draw(1);
    let mut inputs = sizes.projections(&mut draw);
    inputs.extend([draw.tensor([1, 4, 66, 70]), draw.tensor([4])]);
    let scale = 0.37;
    let engine = |x: &[Tensor]| {
        let attention = Attention::scaled(scale).causal();
        let attention = Attention { bias: Bias::Dense(x[3].clone()), sink: Some(x[4].clone()), ..attention };
        Ok(separate(x, &attention)?.output)
    };
    check(&inputs, engine, |x| {
        let how = reference::Attention {
            allowed: &|_, _, q, k| is_visible(&sizes, q, k),
            bias: &|_, h, q, k| x[3].at(&[0, h, q, k]),
            sink: Some(&x[4]),
            ..reference::Attention::scaled(f64::from(scale))
        };
        reference_attend(&x[0], &x[1], &x[2], &how).output
    });
}

#[test]
fn a_window_in_blocks_with_a_bias_by_distance() {
    // Long enough for windows to leave out whole blocks on both sides.
    let sizes = Sizes { batch: 1, heads: 2, kv_heads: 1, queries: 330, keys: 330, width: 4, value_width: 4 };
    let reach = 40;
    let window = BlockMask::build(
        (330, 330),
        |block| (block.saturating_sub(1)..=block + 1).collect(),
        |query, key| query.abs_diff(key) <= reach,
    );
    assert!(window.blocks() < 6 * 6);
    let window = Arc::new(window);
    let mut inputs = sizes.projections(&mut Draw(2));
    inputs.push(Draw(3).between(0.0, 0.2, [2]));
    for causal in [false, true] {
        let engine = |x: &[Tensor]| {
            let mut attention = Attention { bias: Bias::Slopes(x[3].clone()), ..Attention::scaled(0.5) };
            attention.allowed.causal = causal;
            attention.allowed.blocks = Some(window.clone());
            Ok(separate(x, &attention)?.output)
        };
        check(&inputs, engine, |x| {
            let how = reference::Attention {
                allowed: &|_, _, q, k| q.abs_diff(k) <= reach && (!causal || k <= q),
                bias: &|_, h, q, k| -x[3].at(&[h]) * q.abs_diff(k) as f64,
                ..reference::Attention::scaled(0.5)
            };
            reference_attend(&x[0], &x[1], &x[2], &how).output
        });
    }
}

#[test]
fn a_bias_of_minus_infinity_masks_a_pair() {
    let sizes = Sizes::small(5, 6);
    let inputs: Vec<Tensor> = sizes.projections(&mut Draw(4)).iter().map(Tensor::tracked).collect();
    let masked = |q: usize, k: usize| q == 0 || (q + k).is_multiple_of(3);
    let values: Vec<f32> =
        (0..30).map(|i| if masked(i / 6, i % 6) { f32::NEG_INFINITY } else { 0.1 * i as f32 }).collect();
    let bias = device::new(&values, [1, 1, 5, 6]).unwrap().tracked();
    let attention = Attention { bias: Bias::Dense(bias.clone()), ..Attention::scaled(0.5) };
    let attended = separate(&inputs, &attention).unwrap();
    let exact: Vec<Array> = inputs.iter().map(Array::of).collect();
    let how = reference::Attention {
        allowed: &|_, _, q, k| !masked(q, k),
        bias: &|_, _, q, k| 0.1 * (q * 6 + k) as f64,
        ..reference::Attention::scaled(0.5)
    };
    let want = reference_attend(&exact[0], &exact[1], &exact[2], &how);
    close("output", &attended.output.values(), &want.output.values, 1e-5);
    let pass = Pass::new().from_upstream(Draw(5).tensor(attended.output.shape()));
    let gradients = attended.output.gradients(&pass).unwrap();
    for x in inputs.iter().chain([&bias]) {
        assert!(gradients.get(x).unwrap().values().iter().all(|g| g.is_finite()));
    }
}

#[test]
fn buckets_may_come_in_any_shape_of_the_right_count() {
    let sizes = Sizes::small(3, 4);
    let x = sizes.projections(&mut Draw(6));
    let table = Draw(7).tensor([2, 2]);
    let buckets = Ids::new(&[0, 1, 0, 1, 1, 0], [2, 3]).unwrap();
    let attention = Attention { bias: Bias::Buckets { table, buckets }, ..Attention::scaled(1.0) };
    assert!(separate(&x, &attention).is_ok());
}
