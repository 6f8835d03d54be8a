//! Attention in tiles and step by step: the same dropout, the same weights, and nobody changed by being looked at.

use crate::attention::{inputs, rules};
use crate::golden::agree;
use crate::numbers::{distance, gradients, normal, same_bits};
use regard_nn::attention::{AttentionConfig, How, MultiHead, Pattern, Rules, Weigh};
use regard_nn::tensor::ops::Bias;
use regard_nn::tensor::random::Key;
use regard_nn::{Context, Draw, Initial, Probe};

#[test]
fn dropout_of_weights_is_the_same_in_tiles_and_step_by_step() {
    for (queries, keys) in [(8, 8), (5, 7), (70, 70), (3, 130)] {
        let inputs = inputs([queries, keys, 4, 2]);
        let (rules, _) = rules(queries, keys);
        for weigh in [Weigh::Softmax, Weigh::Sink(None)] {
            let how = How { weigh, dropout: 0.4, ..How::default() };
            let plain = inputs.attend(&Context::inference(), &how, &rules);
            let probe = Probe::new().track("weights");
            let context = Context::training(Key::new(5), 17);
            let tiled = inputs.attend(&context, &how, &rules);
            let dense = inputs.attend(&context.clone().with_probe(&probe), &how, &rules);
            agree("output", &tiled, &dense, 1e-5);
            assert!(distance(&tiled, &plain) > 0.1, "something was dropped");
            let slopes = gradients(&tiled, &inputs.all());
            for (tiled, dense) in slopes.iter().zip(gradients(&dense, &inputs.all())) {
                agree("gradient", tiled, &dense, 1e-5);
            }
            let other = inputs.attend(&Context::training(Key::new(6), 17), &how, &rules);
            assert!(distance(&tiled, &other) > 0.1, "another key drops others");
        }
    }
}

#[test]
fn any_block_of_weights_is_a_part_of_all() {
    let inputs = inputs([70, 130, 4, 2]);
    let (rules, _) = rules(70, 130);
    let biased = rules.biased(Bias::Slopes(normal("slopes", [4])));
    let probes = [Probe::new().record("weights"), Probe::new().track("weights")];
    for probe in &probes {
        inputs.attend(&Context::inference().with_probe(probe), &How::default(), &biased);
    }
    let [tiled, dense] = probes.each_ref().map(|probe| probe.weights("").unwrap());
    assert_eq!((tiled.sizes(), dense.sizes()), ([2, 4, 70, 130], [2, 4, 70, 130]));
    let all = dense.all();
    agree("all", &tiled.all(), &all, 1e-6);
    for (queries, keys) in [(0..1, 0..130), (3..67, 60..129), (69..70, 5..6), (5..5, 0..3)] {
        for (example, head) in [(0, 0), (1, 3)] {
            let part = all.select(0, example).unwrap().select(0, head).unwrap();
            let part = part.slice(0, queries.start, queries.len()).unwrap();
            let part = part.slice(1, keys.start, keys.len()).unwrap();
            for weights in [&tiled, &dense] {
                let block = weights.block(example, head, queries.clone(), keys.clone()).unwrap();
                agree("block", &block, &part, 1e-6);
            }
        }
    }
    for weights in [&tiled, &dense] {
        assert!(weights.block(2, 0, 0..1, 0..1).is_err() && weights.block(0, 4, 0..1, 0..1).is_err());
        assert!(weights.block(0, 0, 0..71, 0..1).is_err() && weights.block(0, 0, 0..1, 130..131).is_err());
    }
}

#[test]
fn looking_changes_no_bit() {
    let config = AttentionConfig { n_kv_heads: 2, d_head: 5, ..AttentionConfig::new(12, 4) };
    let draw = Draw::Normal(0.4);
    let x = normal("x", [2, 70, 12]);
    let rules = Rules::new(Pattern::Causal, 70, 70).unwrap();
    for fused in [true, false] {
        let heads =
            MultiHead::new(&Initial::new(1), AttentionConfig { fused, ..config }, (draw, draw)).unwrap();
        let plain = heads.forward(&Context::inference(), &x, None, &rules).unwrap();
        for site in ["weights", "scores", "query", "key", "value", "heads", "output", "nothing"] {
            let probe = Probe::new().record(site);
            let seen = heads.forward(&Context::inference().with_probe(&probe), &x, None, &rules).unwrap();
            same_bits(site, &seen, &plain);
            assert_eq!(probe.get(site).unwrap().is_some(), site != "nothing", "{site}");
        }
    }
}
