//! Positions: their formulas, what they must not depend on, and what follows without them.

use crate::golden::agree;
use crate::numbers::{distance, dot, normal};
use regard_nn::attention::{AttentionConfig, MultiHead, Pattern, Rules};
use regard_nn::position::{
    Position, PositionSizes, Positions, Rotary, RotaryConfig, RotaryScaling, alibi_slopes, relative_bias,
    relative_bucket, sinusoidal,
};
use regard_nn::tensor::ops::{Bias, Pairing};
use regard_nn::tensor::{Ids, Tensor};
use regard_nn::{Context, Draw, Initial};

fn places(values: &[u32]) -> Ids {
    Ids::new(values, [values.len()]).unwrap()
}

#[test]
fn sinusoidal_positions_have_known_values() {
    let encoded = sinusoidal(&places(&[0, 1, 2]), 4).unwrap();
    // Frequencies 1 and 1/100.
    let want: Vec<f32> = [0.0_f32, 1.0, 2.0]
        .iter()
        .flat_map(|p| [p.sin(), p.cos(), (p / 100.0).sin(), (p / 100.0).cos()])
        .collect();
    agree("encoding", &encoded, &Tensor::new(&want, [3, 4]).unwrap(), 1e-6);
    assert_eq!(sinusoidal(&Ids::new(&[5, 6], [1, 2]).unwrap(), 6).unwrap().shape()[..], [1, 2, 6]);
}

#[test]
fn a_step_of_sinusoidal_positions_is_a_rotation() {
    let width = 16;
    let all = sinusoidal(&places(&(0..300).collect::<Vec<_>>()), width).unwrap();
    let row = |p: usize| all.select(0, p).unwrap();
    for step in [1_usize, 7, 64] {
        // PE(p + k) = R(k)·PE(p): the same R for every p.
        for p in [0, 1, 50, 200] {
            let (from, to) = (row(p), row(p + step));
            for pair in 0..width / 2 {
                let angle = step as f64 / 10_000_f64.powf(2.0 * pair as f64 / width as f64);
                let (sin, cos) = (f64::from(from.values()[2 * pair]), f64::from(from.values()[2 * pair + 1]));
                let turned = [sin * angle.cos() + cos * angle.sin(), cos * angle.cos() - sin * angle.sin()];
                for (i, turned) in turned.into_iter().enumerate() {
                    assert!((turned - f64::from(to.values()[2 * pair + i])).abs() < 1e-6, "{p} + {step}");
                }
            }
        }
        // So a dot product depends on distance only, and is largest for none.
        let products: Vec<f32> = [0, 3, 100, 200].iter().map(|&p| dot(&row(p), &row(p + step))).collect();
        assert!(products.iter().all(|product| (product - products[0]).abs() < 1e-4), "{products:?}");
        assert!(products[0] < dot(&row(0), &row(0)));
    }
}

#[test]
fn rotary_scores_depend_on_distance_only() {
    let (query, key) = (normal("query", [1, 1, 2, 8]), normal("key", [1, 1, 2, 8]));
    for pairing in [Pairing::Halves, Pairing::Interleaved] {
        let rotary = Rotary::new(8, 10_000.0, RotaryScaling::None, pairing);
        let score = |q: u32, k: u32| {
            let turned = |x: &Tensor, place: u32| {
                let places = Ids::new(&[place], [1, 1]).unwrap();
                rotary.rotation(&places, 1).unwrap().apply(x).unwrap()
            };
            dot(&turned(&query, q), &turned(&key, k))
        };
        for (q, k) in [(5, 3), (3, 5), (40, 0)] {
            let near = score(q, k);
            for shift in [1, 100, 3000] {
                assert!(
                    (score(q + shift, k + shift) - near).abs() < 2e-3,
                    "{pairing:?}: {q} and {k}, {shift} on"
                );
            }
        }
        assert!((score(9, 9) - dot(&query, &key)).abs() < 1e-5, "no distance, no change");
        assert!((score(5, 3) - score(3, 5)).abs() > 1e-3, "direction matters");
    }
}

#[test]
fn rotary_pairs_are_halves_or_neighbours() {
    // Width 4: pairs turn by p and by p/100. Features (1, 2, 3, 4) at place 1.
    let x = Tensor::new(&[1.0, 2.0, 3.0, 4.0], [1, 1, 1, 4]).unwrap();
    let turn =
        |a: f32, b: f32, angle: f32| (a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin());
    let place = Ids::new(&[1], [1, 1]).unwrap();
    for (pairing, pairs) in [(Pairing::Halves, [(0, 2), (1, 3)]), (Pairing::Interleaved, [(0, 1), (2, 3)])] {
        let rotary = Rotary::new(4, 10_000.0, RotaryScaling::None, pairing);
        let turned = rotary.rotation(&place, 1).unwrap().apply(&x).unwrap();
        for ((a, b), angle) in pairs.into_iter().zip([1.0, 0.01]) {
            let (x, turned) = (x.values(), turned.values());
            let (want_a, want_b) = turn(x[a], x[b], angle);
            assert!((turned[a] - want_a).abs() < 1e-6 && (turned[b] - want_b).abs() < 1e-6, "{pairing:?}");
        }
    }
}

#[test]
fn some_features_of_a_head_may_stay_as_they_are() {
    let x = normal("x", [2, 5, 3, 8]);
    let places = Ids::new(&[3, 4, 5, 6, 7], [1, 5]).unwrap();
    for interleaved in [false, true] {
        let pairing = if interleaved { Pairing::Interleaved } else { Pairing::Halves };
        for width in [2, 4, 6, 8] {
            let config = RotaryConfig { width: Some(width), interleaved, ..RotaryConfig::default() };
            let turned = config.rotary(8).rotation(&places, 2).unwrap().apply(&x).unwrap();
            // The first features are those of a head that has no others.
            let small = Rotary::new(width, 10_000.0, RotaryScaling::None, pairing);
            let first = |x: &Tensor| x.slice(3, 0, width).unwrap();
            let want = small.rotation(&places, 2).unwrap().apply(&first(&x)).unwrap();
            agree("rotated", &first(&turned), &want, 1e-6);
            let rest = |x: &Tensor| x.slice(3, width, 8 - width).unwrap();
            assert_eq!(rest(&turned).to_vec(), rest(&x).to_vec(), "{width} of 8");
            assert!(distance(&first(&turned), &first(&x)) > 0.1);
        }
    }
}

#[test]
fn rotary_positions_can_be_stretched() {
    let x = normal("x", [1, 1, 1, 8]);
    let turned = |scaling: RotaryScaling, place: u32| {
        let rotary = Rotary::new(8, 10_000.0, scaling, Pairing::Halves);
        rotary.rotation(&Ids::new(&[place], [1, 1]).unwrap(), 1).unwrap().apply(&x).unwrap()
    };
    let near = turned(RotaryScaling::None, 5);
    agree("linear", &turned(RotaryScaling::Linear { factor: 4.0 }, 20), &near, 1e-5);
    // A context so long that every wave counts as short: nothing changes. So short that all are long: a plain factor.
    let llama = |original| RotaryScaling::Llama3 { factor: 4.0, low: 1.0, high: 4.0, original };
    agree("kept", &turned(llama(1 << 30), 5), &near, 1e-6);
    agree("slowed", &turned(llama(1), 20), &near, 1e-5);
}

#[test]
fn alibi_slopes_are_the_papers() {
    let want: Vec<f32> = (1..=8).map(|i| 0.5_f32.powi(i)).collect();
    assert_eq!(alibi_slopes(8), want);
    // Twelve heads: those of eight, then every other one of sixteen: 2^−0.5, 2^−1.5, 2^−2.5, 2^−3.5.
    let more = [0.5, 1.5, 2.5, 3.5].map(|power: f32| (-power).exp2());
    let got = alibi_slopes(12);
    assert_eq!(got[..8], want);
    assert!(got[8..].iter().zip(more).all(|(got, want)| (got - want).abs() < 1e-7), "{got:?}");
    assert_eq!((alibi_slopes(0).len(), alibi_slopes(1)), (0, vec![0.00390625]));
}

#[test]
fn relative_buckets_by_hand() {
    // Both directions, 8 buckets: 4 for earlier (0 and 1 exact), 4 for later keys; distances from 16 on share the last.
    let both = |distance: i64| relative_bucket(distance, 8, 16, true);
    assert_eq!([0, -1, -2, -5, -6, -15, -16, -1000].map(both), [0, 1, 2, 2, 3, 3, 3, 3]);
    assert_eq!([1, 2, 5, 6, 16, 1000].map(both), [5, 6, 6, 7, 7, 7]);
    // One direction, 8 buckets: 0 to 3 exact, then 4, 4·4^¼ = 5.66, 8, 11.3 begin a new one.
    let back = |distance: i64| relative_bucket(-distance, 8, 16, false);
    assert_eq!(
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 99].map(back),
        [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 7, 7]
    );
    assert_eq!(back(-5), 0, "later keys are all the same to a causal model");
    // Whatever the numbers, a bucket is one of them.
    for distance in [i64::MIN, -9, 0, 9, i64::MAX] {
        for (buckets, most) in [(0, 0), (1, 1), (2, 1), (4, 1), (4, 2), (32, 8), (32, 128)] {
            for bidirectional in [true, false] {
                let bucket = relative_bucket(distance, buckets, most, bidirectional) as usize;
                assert!(bucket < buckets.max(1), "{distance} {buckets} {most}: {bucket}");
            }
        }
    }
}

#[test]
fn a_relative_bias_is_a_row_of_the_table_for_each_distance() {
    let table = normal("table", [8, 2]);
    let Bias::Buckets { buckets, .. } = relative_bias(&table, (2, 4), (8, 16, true)).unwrap() else {
        panic!()
    };
    // Two queries at places 2 and 3, keys at 0 to 3: query − key from −1 to 3.
    assert_eq!(buckets.values(), [-1, 0, 1, 2, 3].map(|far: i64| relative_bucket(-far, 8, 16, true)));
    assert!(relative_bias(&table, (0, 0), (8, 16, true)).is_ok(), "nothing has no distances");
}

#[test]
fn self_attention_without_positions_does_not_know_the_order() {
    let draw = Draw::Normal(0.5);
    let heads = MultiHead::new(&Initial::new(1), AttentionConfig::new(12, 3), (draw, draw)).unwrap();
    let order = [3_usize, 0, 4, 1, 2];
    let x = normal("x", [1, 5, 12]);
    let pick = |x: &Tensor| {
        let rows: Vec<Tensor> = order.iter().map(|&row| x.slice(1, row, 1).unwrap()).collect();
        regard_nn::tensor::ops::concatenate(&rows.iter().collect::<Vec<_>>(), 1).unwrap()
    };
    let sizes = PositionSizes { context: 8, d_model: 12, n_heads: 3, d_head: 4, bidirectional: true };
    let places = Ids::new(&[0, 1, 2, 3, 4], [1, 5]).unwrap();
    let all = [
        Position::None,
        Position::Sinusoidal,
        Position::Learned,
        Position::Rotary,
        Position::RotaryInterleaved,
        Position::Alibi,
        Position::Relative,
    ];
    for kind in all {
        let context = Context::inference();
        let positions = Positions::new(&Initial::new(2), kind, sizes, 1.0).unwrap();
        let run = |x: &Tensor| {
            let rules = Rules::new(Pattern::Full, 5, 5)
                .unwrap()
                .biased(positions.bias(&context, 5, 5).unwrap())
                .rotated(positions.rotation(&places, 1).unwrap());
            heads.forward(&context, &positions.add(&context, x, &places).unwrap(), None, &rules).unwrap()
        };
        let difference = distance(&run(&pick(&x)), &pick(&run(&x)));
        match kind {
            Position::None => assert!(difference < 1e-6, "permuted words, permuted results: {difference}"),
            _ => assert!(difference > 1e-2, "{kind:?} tells the order: {difference}"),
        }
    }
}
