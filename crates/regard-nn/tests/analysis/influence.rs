use super::planted;
use proptest::prelude::*;
use regard_nn::analysis::flow::Network;
use regard_nn::analysis::influence::*;
use regard_nn::analysis::occlusion::{Blank, Quantity, faithfulness, occlusion};
use regard_nn::analysis::statistics::Resampling;
use regard_nn::analysis::{Target, Tokens, pad, scores};
use regard_nn::models::{BertConfig, Model, Pooling, Sentiment, SentimentConfig, Transformer};
use regard_nn::tensor::Tensor;
use regard_nn::{Context, Probe};

fn assert_close(got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len());
    for (a, b) in got.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance, "{got:?} is not {expected:?}");
    }
}

/// Two layers that each mix ½ of token 0 into token 1: A′ = [1 0; ¼ ¾].
fn two_layers() -> Vec<Tensor> {
    let layer = Tensor::new(&[1.0, 0.0, 0.5, 0.5], [2, 2]).unwrap();
    vec![layer.clone(), layer]
}

#[test]
fn rollout_by_hand() {
    let layers = rollout(&two_layers()).unwrap();
    assert_close(&layers[0].to_vec(), &[1.0, 0.0, 0.25, 0.75], 1e-6);
    assert_close(&layers[1].to_vec(), &[1.0, 0.0, 0.4375, 0.5625], 1e-6);
}

#[test]
fn flow_by_hand() {
    // From token 0 to position 1: through 0 at most ¼ (above), through 1 at most ¼ (below). From token 1: ¾ throughout.
    let to_last = flow(&two_layers(), 1).unwrap();
    assert!((to_last[0] - 0.5).abs() < 1e-6 && (to_last[1] - 0.75).abs() < 1e-6, "{to_last:?}");
    let to_first = flow(&two_layers(), 0).unwrap();
    assert!((to_first[0] - 1.0).abs() < 1e-6 && to_first[1] == 0.0, "{to_first:?}");
    assert!(flow(&two_layers(), 2).is_err());
}

/// The minimum cut by brute force, which equals the maximum flow.
fn minimum_cut(nodes: usize, edges: &[(usize, usize, f64)]) -> f64 {
    let inner = nodes - 2; // the source is 0, the sink the last
    let cut = |chosen: usize| -> f64 {
        let inside = |node: usize| node == 0 || node != nodes - 1 && chosen >> (node - 1) & 1 == 1;
        edges.iter().filter(|(from, to, _)| inside(*from) && !inside(*to)).map(|edge| edge.2).sum()
    };
    (0..1 << inner).map(cut).fold(f64::INFINITY, f64::min)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]
    #[test]
    fn flow_equals_the_minimum_cut(
        nodes in 2_usize..9,
        edges in prop::collection::vec((0_usize..9, 0_usize..9, 0.0_f64..1.0), 0..40),
    ) {
        let edges: Vec<_> = edges.into_iter().map(|(a, b, c)| (a % nodes, b % nodes, c)).filter(|(a, b, _)| a != b).collect();
        let mut network = Network::new(nodes);
        for &(from, to, capacity) in &edges {
            network.add(from, to, capacity);
        }
        let expected = minimum_cut(nodes, &edges);
        prop_assert!((network.maximum(0, nodes - 1) - expected).abs() < 1e-9);
    }
}

#[test]
fn invalid_edges_carry_no_flow() {
    let mut network = Network::new(2);
    for (from, to, capacity) in
        [(0, 9, 1.0), (0, 0, 1.0), (0, 1, -1.0), (0, 1, f64::NAN), (0, 1, f64::INFINITY)]
    {
        network.add(from, to, capacity);
    }
    assert_eq!(network.maximum(0, 1), 0.0);
    assert_eq!(network.maximum(0, 7), 0.0);
    assert_eq!(network.maximum(1, 1), 0.0);
}

/// The target's logit with one weight of one head changed.
fn perturbed(
    model: &dyn Model,
    tokens: &Tokens,
    target: Target,
    (layer, head, query, key): (usize, usize, usize, usize),
    by: f32,
) -> f64 {
    let time = tokens.len();
    let probe = Probe::new().change(format!("layers.{layer}.self.weights"), move |_, weights| {
        let mut values = weights.to_vec();
        values[(head * time + query) * time + key] += by;
        Ok(Tensor::new(&values, weights.shape())?)
    });
    let (ids, lengths) = pad(std::slice::from_ref(tokens)).unwrap();
    let scores = scores(model, &Context::inference().with_probe(&probe), &ids, &lengths).unwrap();
    f64::from(target.logit(&scores).unwrap().sum_all().unwrap().item().unwrap())
}

#[test]
fn gradient_times_attention_matches_finite_differences() {
    let model = planted::random_gpt(3);
    let tokens = Tokens::new(vec![3, 1, 4, 1, 5]);
    let target = Target { position: Some(4), class: 2, against: Some(7) };
    let products = gradient_attention(&model, &tokens, target).unwrap();
    let mut largest: f64 = 0.0;
    for (layer, product) in products.iter().enumerate() {
        let weights = mean_free_weights(&model, &tokens, layer);
        for head in 0..2 {
            for query in 0..5 {
                for key in 0..=query {
                    let at = (layer, head, query, key);
                    let step = 1e-2;
                    let slope = (perturbed(&model, &tokens, target, at, step)
                        - perturbed(&model, &tokens, target, at, -step))
                        / f64::from(2.0 * step);
                    let place = (head * 5 + query) * 5 + key;
                    let expected = slope * f64::from(weights[place]);
                    let got = f64::from(product.to_vec()[place]);
                    largest = largest.max(got.abs());
                    assert!(
                        (got - expected).abs() < 2e-3 * (1.0 + expected.abs()),
                        "{at:?}: {got} {expected}"
                    );
                }
            }
        }
    }
    assert!(largest > 0.1, "there is something to compare: {largest}");
}

fn mean_free_weights(model: &dyn Model, tokens: &Tokens, layer: usize) -> Vec<f32> {
    let all = regard_nn::analysis::heads::record_weights(model, std::slice::from_ref(tokens)).unwrap();
    all[layer].all().to_vec()
}

#[test]
fn relevance_by_hand() {
    // One layer, two heads; negative products do not count. Ḡ = [[½, 0], [1, ½]], R = I + Ḡ.
    let product = Tensor::new(&[1.0, 0.0, 2.0, -3.0, 0.0, 0.0, -5.0, 1.0], [2, 2, 2]).unwrap();
    assert_close(&relevance(std::slice::from_ref(&product)).unwrap().to_vec(), &[1.5, 0.0, 1.0, 1.5], 1e-6);
    // Two layers: (I + Ḡ)².
    assert_close(&relevance(&[product.clone(), product]).unwrap().to_vec(), &[2.25, 0.0, 3.0, 2.25], 1e-6);
}

/// In the induction circuit the prediction after the second `a` in `a b … a` depends on b and on both a's; other tokens have
/// no effect.
#[test]
fn occlusion_finds_the_tokens_of_the_circuit() {
    let model = planted::model();
    let tokens = Tokens::new(vec![4, 5, 6, 7, 4]);
    let target = Target::at(4, 5);
    for blank in [Blank::Replace(9), Blank::Delete] {
        let changes = occlusion(&model, &tokens, target, (blank, Quantity::Probability)).unwrap();
        assert!(changes[0].unwrap() > 0.3, "{changes:?}");
        assert!(changes[1].unwrap() > 0.3, "{changes:?}");
        assert!(changes[2].unwrap().abs() < 0.05 && changes[3].unwrap().abs() < 0.05, "{changes:?}");
        assert_eq!(changes[4].is_none(), blank == Blank::Delete);
    }
    let special = Tokens { special: vec![true, false, false, false, false], ..tokens };
    assert_eq!(occlusion(&model, &special, target, (Blank::Delete, Quantity::Logit)).unwrap()[0], None);
}

#[test]
fn every_method_gives_a_number_for_each_token() {
    let bert = BertConfig {
        vocabulary: 13,
        context: 16,
        n_layers: 2,
        n_heads: 2,
        d_model: 8,
        d_hidden: 16,
        ..Default::default()
    };
    let bert = planted::amplified(Transformer::new(bert.form(), 1).unwrap(), 10.0);
    for model in [planted::random_gpt(4), bert] {
        let tokens = Tokens::new(vec![3, 1, 4, 1, 5, 9]);
        let target = Target::at(3, 2);
        for method in Method::ALL {
            let values = influence(&model, &tokens, target, method, FLOW_LIMIT).unwrap();
            assert_eq!(values.len(), 6);
            assert!(values.iter().all(|value| value.is_finite() && *value >= 0.0), "{method:?}: {values:?}");
            if model.attentions().iter().all(|site| site.visibility.causal) {
                assert_eq!(values[4..], [0.0, 0.0], "{method:?}: later tokens have no influence");
            }
            if matches!(method, Method::Attention | Method::Rollout | Method::Norms) {
                assert!((values.iter().sum::<f64>() - 1.0).abs() < 1e-5, "{method:?}: {values:?}");
            }
        }
        assert!(influence(&model, &tokens, target, Method::Flow, 5).is_err());
        assert!(influence(&model, &tokens, Target::at(6, 2), Method::Rollout, FLOW_LIMIT).is_err());
        assert!(influence(&model, &tokens, Target::at(3, 99), Method::Gradient, FLOW_LIMIT).is_err());
    }
}

/// A model that pools a whole text, without a position for its prediction.
#[test]
fn pooling_models_have_influences() {
    let config = SentimentConfig {
        vocabulary: 13,
        d_embedding: 6,
        d_hidden: 4,
        pooling: Pooling::Heads,
        n_heads: 2,
        ..Default::default()
    };
    let model = planted::amplified(Sentiment::new(config, 1).unwrap(), 2.0);
    let tokens = Tokens::new(vec![3, 1, 4, 1, 5, 9]);
    let target = Target { position: None, class: 1, against: None };
    for method in Method::ALL {
        let values = influence(&model, &tokens, target, method, FLOW_LIMIT).unwrap();
        assert!(values.len() == 6 && values.iter().any(|value| *value > 0.0), "{method:?}: {values:?}");
    }
    let changes = occlusion(&model, &tokens, target, (Blank::Delete, Quantity::Probability)).unwrap();
    assert!(changes.iter().all(Option::is_some) && changes.iter().any(|change| change.unwrap() != 0.0));
}

#[test]
fn faithfulness_is_a_correlation_with_an_interval() {
    let model = planted::random_gpt(5);
    let texts = || {
        planted::texts(13, 9).into_iter().map(|text| {
            let last = text.len() - 1;
            Ok((text, Target::at(last, 1)))
        })
    };
    let yardstick = (Blank::Replace(0), Quantity::Logit);
    let found = faithfulness(&model, texts(), yardstick, FLOW_LIMIT, Resampling::new(1)).unwrap();
    assert_eq!(found.iter().map(|agreement| agreement.method).collect::<Vec<_>>(), Method::ALL);
    for agreement in &found {
        let interval = agreement.correlation;
        assert!(-1.0 <= interval.low && interval.low <= interval.mean && interval.mean <= interval.high);
        assert!(interval.count >= 6, "{agreement:?}");
    }
    assert_eq!(found, faithfulness(&model, texts(), yardstick, FLOW_LIMIT, Resampling::new(1)).unwrap());
    assert!(faithfulness(&model, std::iter::empty(), yardstick, FLOW_LIMIT, Resampling::new(1)).is_err());
}
