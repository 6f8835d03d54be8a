//! Attention: its parts against hand-written formulas.

use crate::golden::agree;
use crate::numbers::{finite, gradients, normal};
use regard_nn::attention::{
    Additive, AttentionConfig, Biases, How, MultiHead, Pattern, Rules, Scale, Score, Weigh, attend,
    scaled_dot_product,
};
use regard_nn::tensor::ops::Projections;
use regard_nn::tensor::{Mask, Tensor};
use regard_nn::{Context, Draw, Initial, Module, Probe};

/// Queries, keys and values, (batch, time, heads, width).
pub struct Inputs {
    pub query: Tensor,
    pub key: Tensor,
    pub value: Tensor,
}

/// Two examples with heads of width 4 and values of width 3.
pub fn inputs([queries, keys, heads, kv_heads]: [usize; 4]) -> Inputs {
    Inputs {
        query: normal("query", [2, queries, heads, 4]).tracked(),
        key: normal("key", [2, keys, kv_heads, 4]).tracked(),
        value: normal("value", [2, keys, kv_heads, 3]).tracked(),
    }
}

impl Inputs {
    pub fn attend(&self, context: &Context, how: &How, rules: &Rules) -> Tensor {
        let Self { query, key, value } = self;
        attend(context, Projections::Separate { query, key, value }, how, rules).unwrap()
    }

    /// Attention as it comes, and step by step: a probe that wants the weights in the graph makes it so.
    pub fn both_ways(&self, how: &How, rules: &Rules) -> [Tensor; 2] {
        let probe = Probe::new().track("weights");
        let dense = self.attend(&Context::inference().with_probe(&probe), how, rules);
        [self.attend(&Context::inference(), how, rules), dense]
    }

    /// The weights, (batch, heads, queries, keys), looked at in both ways.
    pub fn weights(&self, how: &How, rules: &Rules) -> [Tensor; 2] {
        [Probe::new().record("weights"), Probe::new().track("weights")].map(|probe| {
            self.attend(&Context::inference().with_probe(&probe), how, rules);
            probe.get("weights").unwrap().unwrap().detach()
        })
    }

    pub fn all(&self) -> [&Tensor; 3] {
        [&self.query, &self.key, &self.value]
    }

    /// Output by a formula in f64: `weigh` turns the scores of the keys that may be seen into weights.
    fn by_formula(
        &self,
        score: impl Fn(&[f32], &[f32]) -> f64,
        mask: &Mask,
        weigh: impl Fn(&[f64], usize) -> Vec<f64>,
    ) -> Tensor {
        let [batch, queries, heads, width] = self.query.shape()[..] else { panic!() };
        let [_, keys, kv_heads, value_width] = self.value.shape()[..] else { panic!() };
        let (q, k, v) = (self.query.values(), self.key.values(), self.value.values());
        let mut output = vec![0.0; batch * queries * heads * value_width];
        for (row, output) in output.chunks_mut(value_width).enumerate() {
            let (b, query, head) = (row / heads / queries, row / heads % queries, row % heads);
            let kv_row = |key: usize| (b * keys + key) * kv_heads + head / (heads / kv_heads);
            let seen: Vec<usize> =
                (0..keys).filter(|key| mask.values()[(b * queries + query) * keys + key]).collect();
            let scores: Vec<f64> = seen
                .iter()
                .map(|&key| score(&q[row * width..][..width], &k[kv_row(key) * width..][..width]))
                .collect();
            for (&key, weight) in seen.iter().zip(weigh(&scores, head)) {
                for (to, from) in output.iter_mut().zip(&v[kv_row(key) * value_width..]) {
                    *to += (weight * f64::from(*from)) as f32;
                }
            }
        }
        Tensor::new(&output, [batch, queries, heads, value_width]).unwrap()
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

fn scaled(q: &[f32], k: &[f32]) -> f64 {
    dot(q, k) / 2.0
}

/// Causal, with the first key of the second example left out: its first query sees nothing.
pub fn rules(queries: usize, keys: usize) -> (Rules, Mask) {
    let present = Mask::from_fn([2, keys], |at| at != [1, 0]);
    let mask = Mask::from_fn([2, queries, keys], |at| {
        at[2] + queries <= at[1] + keys && present.values()[at[0] * keys + at[2]]
    });
    (Rules::new(Pattern::Causal, queries, keys).unwrap().padded(Some(present)), mask)
}

pub fn kinds(heads: usize) -> Vec<(&'static str, Weigh)> {
    vec![
        ("softmax", Weigh::Softmax),
        ("sink of 0", Weigh::Sink(None)),
        ("learned sink", Weigh::Sink(Some(normal("sink", [heads])))),
        ("sigmoid", Weigh::Sigmoid { shift: Some(-0.7) }),
        ("sigmoid shifted by the number of keys", Weigh::Sigmoid { shift: None }),
        ("linear", Weigh::Linear),
    ]
}

#[test]
fn one_head_by_hand() {
    // Two words that are each other's opposite; a score of ln 3 for oneself and 0 for the other gives weights ¾ and ¼.
    let x = Tensor::new(&[1.0, 0.0, 0.0, 1.0], [1, 2, 2]).unwrap();
    let scale = Scale::Factor(3_f32.ln());
    let config = AttentionConfig { scale, bias: Biases::all(false), ..AttentionConfig::new(2, 1) };
    let zero = Draw::Constant(0.0);
    let mut heads = MultiHead::new(&Initial::new(0), config, (zero, zero)).unwrap();
    let identity = [1.0, 0.0, 0.0, 1.0];
    for (name, parameter) in heads.parameters_mut() {
        let copies = if name == "project.weight" { 3 } else { 1 };
        parameter.tensor_mut().set_values(&identity.repeat(copies)).unwrap();
    }
    let all = Rules::new(Pattern::Full, 2, 2).unwrap();
    let output = heads.forward(&Context::inference(), &x, None, &all).unwrap();
    let want = Tensor::new(&[0.75, 0.25, 0.25, 0.75], [1, 2, 2]).unwrap();
    agree("multi-head", &output, &want, 1e-6);
    let (single, weights) = scaled_dot_product(&x, &x, &x, None, scale).unwrap();
    agree("reference", &single, &want, 1e-6);
    agree("weights", &weights, &want, 1e-6);
    let causal = Rules::new(Pattern::Causal, 2, 2).unwrap();
    let output = heads.forward(&Context::inference(), &x, None, &causal).unwrap();
    agree("causal", &output, &Tensor::new(&[1.0, 0.0, 0.25, 0.75], [1, 2, 2]).unwrap(), 1e-6);
}

#[test]
fn rows_of_weights_sum_to_one_and_masked_pairs_weigh_nothing() {
    let inputs = inputs([70, 70, 4, 2]);
    let (rules, mask) = rules(70, 70);
    for (name, weigh) in kinds(4) {
        let how = How { weigh: weigh.clone(), ..How::default() };
        let [tiled, dense] = inputs.weights(&how, &rules);
        agree(name, &tiled, &dense, 1e-6);
        for (row, weights) in tiled.values().chunks(70).enumerate() {
            let (example, query) = (row / 280, row % 70);
            let allowed = &mask.values()[(example * 70 + query) * 70..][..70];
            let sum: f32 = weights.iter().sum();
            let nothing = !allowed.contains(&true);
            match weigh {
                Weigh::Softmax | Weigh::Linear => {
                    assert!((sum - f32::from(!nothing)).abs() < 1e-5, "{name}: {sum}");
                }
                Weigh::Sink(_) => assert!(nothing && sum == 0.0 || sum > 0.0 && sum < 1.0, "{name}: {sum}"),
                Weigh::Sigmoid { .. } => assert!(weights.iter().all(|&weight| weight < 1.0)),
            }
            for (&weight, &allowed) in weights.iter().zip(allowed) {
                assert_eq!(weight != 0.0, allowed, "{name}");
            }
        }
    }
}

#[test]
fn a_row_that_may_see_nothing_is_zero_and_no_nan() {
    let inputs = inputs([5, 5, 2, 2]);
    // Nothing of the second example is real; the third query of the first may see nobody.
    let nobody = Mask::from_fn([5, 5], |at| at[0] != 2);
    let present = Mask::from_fn([2, 5], |at| at[0] == 0);
    let rules = Rules::new(Pattern::Explicit(nobody), 5, 5).unwrap().padded(Some(present.clone()));
    // Linear attention's own form knows padding only.
    let padded = Rules::new(Pattern::Causal, 5, 5).unwrap().padded(Some(present));
    for (name, weigh) in kinds(2) {
        let how = How { weigh, ..How::default() };
        for output in [inputs.both_ways(&how, &rules), inputs.both_ways(&how, &padded)].concat() {
            let values = output.values();
            assert!(values[30..].iter().all(|&value| value == 0.0), "{name}: an example of padding is 0");
            assert!(finite(&output) && values[..12].iter().all(|&value| value != 0.0), "{name}");
            for gradient in gradients(&output, &inputs.all()) {
                assert!(finite(&gradient), "{name}");
                let half = gradient.count() / 2;
                assert!(
                    gradient.values()[half..].iter().all(|&value| value == 0.0),
                    "{name}: nothing to learn"
                );
            }
        }
        let [tiled, dense] = inputs.both_ways(&how, &rules);
        for output in [tiled, dense] {
            assert!(
                output.values()[12..18].iter().all(|&value| value == 0.0),
                "{name}: a query that sees nobody"
            );
        }
    }
}

#[test]
fn weights_of_every_kind_follow_their_formulas() {
    type Formula = Box<dyn Fn(&[f64], usize) -> Vec<f64>>;
    let share = |scores: &[f64], extra: f64| -> Vec<f64> {
        let total: f64 = scores.iter().map(|score| score.exp()).sum::<f64>() + extra;
        scores.iter().map(|score| score.exp() / total).collect()
    };
    let sigmoid = |scores: &[f64], shift: f64| -> Vec<f64> {
        scores.iter().map(|score| 1.0 / (1.0 + (-score - shift).exp())).collect()
    };
    let sink = normal("sink", [4]).to_vec();
    for (queries, keys) in [(5, 5), (3, 7), (65, 130)] {
        let inputs = inputs([queries, keys, 4, 2]);
        let (rules, mask) = rules(queries, keys);
        let formulas: Vec<Formula> = vec![
            Box::new(move |scores, _| share(scores, 0.0)),
            Box::new(move |scores, _| share(scores, 1.0)),
            Box::new({
                let sink = sink.clone();
                move |scores, head| share(scores, f64::from(sink[head]).exp())
            }),
            Box::new(move |scores, _| sigmoid(scores, -0.7)),
            Box::new(move |scores, _| sigmoid(scores, -(scores.len() as f64).ln())),
            Box::new(move |scores, _| {
                scores.iter().map(|score| score / scores.iter().sum::<f64>()).collect()
            }),
        ];
        for ((name, weigh), formula) in kinds(4).into_iter().zip(formulas) {
            let feature = |x: f32| f64::from(if x > 0.0 { x + 1.0 } else { x.exp() });
            let linear = matches!(weigh, Weigh::Linear);
            let score = |q: &[f32], k: &[f32]| match linear {
                true => q.iter().zip(k).map(|(&q, &k)| feature(q) * feature(k)).sum(),
                false => scaled(q, k),
            };
            let want = inputs.by_formula(score, &mask, formula);
            let how = How { weigh, ..How::default() };
            for got in inputs.both_ways(&how, &rules) {
                agree(name, &got, &want, 2e-6);
            }
        }
    }
}

#[test]
fn capped_scores_are_a_hyperbolic_tangent() {
    let softmax = |scores: &[f64], _: usize| -> Vec<f64> {
        let total: f64 = scores.iter().map(|score| score.exp()).sum();
        scores.iter().map(|score| score.exp() / total).collect()
    };
    let sigmoid = |scores: &[f64], _: usize| -> Vec<f64> {
        scores.iter().map(|score| 1.0 / (1.0 + (0.7 - score).exp())).collect()
    };
    let (inputs, (rules, mask)) = (inputs([65, 70, 4, 2]), rules(65, 70));
    for cap in [0.5, 2.0] {
        let capped = |q: &[f32], k: &[f32]| f64::from(cap) * (scaled(q, k) / f64::from(cap)).tanh();
        let how = How { soft_cap: Some(cap), ..How::default() };
        for got in inputs.both_ways(&how, &rules) {
            agree("softmax", &got, &inputs.by_formula(capped, &mask, softmax), 2e-6);
        }
        let how = How { weigh: Weigh::Sigmoid { shift: Some(-0.7) }, ..how };
        for got in inputs.both_ways(&how, &rules) {
            agree("sigmoid", &got, &inputs.by_formula(capped, &mask, sigmoid), 2e-6);
        }
        let probe = Probe::new().record("scores");
        inputs.attend(&Context::inference().with_probe(&probe), &how, &rules);
        let scores = probe.get("scores").unwrap().unwrap();
        assert!(scores.values().iter().all(|score| score.abs() <= cap), "no score is beyond the cap");
    }
    // A cap far above all scores changes nothing.
    let wide = How { soft_cap: Some(1e4), ..How::default() };
    for (got, plain) in inputs.both_ways(&wide, &rules).iter().zip(inputs.both_ways(&How::default(), &rules))
    {
        agree("a wide cap", got, &plain, 2e-5);
    }
}

#[test]
fn additive_scores_are_a_small_network() {
    let inputs = inputs([5, 7, 2, 2]);
    let draw = Draw::Normal(0.8);
    let mut network = Additive::new(&Initial::new(3), (Some(4), 4, 6), draw).unwrap();
    let mut weights = std::collections::HashMap::new();
    for (name, parameter) in network.parameters_mut() {
        let values = normal(&name, parameter.tensor().shape());
        parameter.tensor_mut().set_values(&values.values()).unwrap();
        weights.insert(name, values.to_vec());
    }
    let score = |q: &[f32], k: &[f32]| {
        let hidden = (0..6).map(|unit| {
            let asked = dot(q, &weights["query.weight"][unit * 4..][..4]);
            let found =
                dot(k, &weights["hidden.weight"][unit * 4..][..4]) + f64::from(weights["hidden.bias"][unit]);
            (asked + found).tanh() * f64::from(weights["score.weight"][unit])
        });
        hidden.sum::<f64>() + f64::from(weights["score.bias"][0])
    };
    let (rules, mask) = rules(5, 7);
    let want = inputs.by_formula(score, &mask, |scores, _| {
        let total: f64 = scores.iter().map(|score| score.exp()).sum();
        scores.iter().map(|score| score.exp() / total).collect()
    });
    let how = How { score: Score::Additive(Box::new(network)), ..How::default() };
    for got in inputs.both_ways(&how, &rules) {
        agree("additive", &got, &want, 2e-6);
    }
}

#[test]
fn heads_that_share_keys_are_heads_with_copies_of_them() {
    let grouped = inputs([9, 9, 6, 2]);
    let copy = |x: &Tensor| {
        let [batch, time, kv_heads, width] = x.shape()[..] else { panic!() };
        let copies = x
            .reshape([batch, time, kv_heads, 1, width])
            .unwrap()
            .add(&Tensor::zeros([1, 1, 1, 3, 1]))
            .unwrap();
        copies.reshape([batch, time, 6, width]).unwrap()
    };
    let (rules, _) = rules(9, 9);
    for (name, weigh) in kinds(6) {
        let how = How { weigh, ..How::default() };
        let all =
            Inputs { query: grouped.query.clone(), key: copy(&grouped.key), value: copy(&grouped.value) };
        let want = all.attend(&Context::inference(), &how, &rules);
        let slopes = gradients(&want, &grouped.all());
        for got in grouped.both_ways(&how, &rules) {
            agree(name, &got, &want, 1e-6);
            for (got, want) in gradients(&got, &grouped.all()).iter().zip(&slopes) {
                agree(name, got, want, 1e-5);
            }
        }
    }
}
