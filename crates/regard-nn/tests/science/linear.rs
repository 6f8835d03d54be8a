//! Linear attention: the form that grows with length against the one that grows with its square.

use crate::attention::inputs;
use crate::golden::agree;
use crate::numbers::{gradients, normal};
use regard_nn::attention::{AttentionConfig, AttentionKind, How, MultiHead, Pattern, Rules, Weigh, attend};
use regard_nn::tensor::ops::{Bias, Projections};
use regard_nn::tensor::{Mask, Tensor};
use regard_nn::{Context, Draw, Initial, Probe};

#[test]
fn both_forms_agree_in_values_and_gradients() {
    let how = How { weigh: Weigh::Linear, ..How::default() };
    for length in [1, 2, 63, 64, 65, 130, 200] {
        let inputs = inputs([length, length, 4, 2]);
        // The second example begins with padding and ends with it.
        let present =
            Mask::from_fn([2, length], |at| at[0] == 0 || (2..length.saturating_sub(3)).contains(&at[1]));
        for pattern in [Pattern::Full, Pattern::Causal] {
            for present in [None, Some(present.clone())] {
                let rules = Rules::new(pattern.clone(), length, length).unwrap().padded(present);
                let [linear, quadratic] = inputs.both_ways(&how, &rules);
                let what = format!("{pattern:?} of {length}");
                agree(&what, &linear, &quadratic, 2e-6);
                let slopes = gradients(&quadratic, &inputs.all());
                for (linear, quadratic) in gradients(&linear, &inputs.all()).iter().zip(&slopes) {
                    agree(&what, linear, quadratic, 5e-6);
                }
            }
        }
    }
}

#[test]
fn fewer_queries_than_keys_are_the_last_of_all() {
    let how = How { weigh: Weigh::Linear, ..How::default() };
    let all = inputs([70, 70, 2, 2]);
    let whole = all.attend(&Context::inference(), &how, &Rules::new(Pattern::Causal, 70, 70).unwrap());
    let last = all.query.slice(1, 67, 3).unwrap();
    let projections = Projections::Separate { query: &last, key: &all.key, value: &all.value };
    let rules = Rules::new(Pattern::Causal, 3, 70).unwrap();
    let output = attend(&Context::inference(), projections, &how, &rules).unwrap();
    agree("the last three", &output, &whole.slice(1, 67, 3).unwrap(), 1e-6);
}

#[test]
fn a_window_is_kept_and_a_bias_refused() {
    let how = How { weigh: Weigh::Linear, ..How::default() };
    let inputs = inputs([9, 9, 2, 2]);
    let rules = Rules::new(Pattern::Window { before: 2, after: 0 }, 9, 9).unwrap();
    let probe = Probe::new().record("weights").record("scores");
    inputs.attend(&Context::inference().with_probe(&probe), &how, &rules);
    let weights = probe.weights("").unwrap().head(0, 0).unwrap();
    assert!(
        weights.values()[4 * 9..5 * 9]
            .iter()
            .enumerate()
            .all(|(key, &w)| (w > 0.0) == (2..=4).contains(&key))
    );
    let projections = Projections::Separate { query: &inputs.query, key: &inputs.key, value: &inputs.value };
    for bias in [Bias::Slopes(normal("slopes", [2])), Bias::Dense(Tensor::zeros([1, 1, 9, 9]))] {
        let rules = Rules::new(Pattern::Causal, 9, 9).unwrap().biased(bias);
        let error = attend(&Context::inference(), projections, &how, &rules).unwrap_err().to_string();
        assert!(error.contains("linear attention has no scores"), "{error}");
    }
}

#[test]
fn scores_and_weights_can_be_seen_without_changing_a_bit() {
    let config = AttentionConfig {
        kind: AttentionKind::Linear,
        n_kv_heads: 2,
        d_head: 4,
        ..AttentionConfig::new(12, 4)
    };
    let draw = Draw::Normal(0.4);
    let heads = MultiHead::new(&Initial::new(1), config, (draw, draw)).unwrap();
    let x = normal("x", [2, 70, 12]);
    let rules = Rules::new(Pattern::Causal, 70, 70).unwrap();
    let plain = heads.forward(&Context::inference(), &x, None, &rules).unwrap();
    let probe = Probe::new().record("scores").record("weights");
    let seen = heads.forward(&Context::inference().with_probe(&probe), &x, None, &rules).unwrap();
    crate::numbers::same_bits("output", &seen, &plain);
    let (scores, weights) = (probe.get("scores").unwrap().unwrap(), probe.get("weights").unwrap().unwrap());
    assert_eq!((&scores.shape()[..], &weights.shape()[..]), (&[2, 4, 70, 70][..], &[2, 4, 70, 70][..]));
    // The last query sees all, so its weights are its scores over their sum.
    let (scores, weights) = (&scores.values()[69 * 70..70 * 70], &weights.values()[69 * 70..70 * 70]);
    let total: f32 = scores.iter().sum();
    assert!(scores.iter().zip(weights).all(|(score, weight)| (score / total - weight).abs() < 1e-6));
    assert!(probe.unmatched().is_empty());
}
