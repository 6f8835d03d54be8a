use super::planted;
use regard_nn::analysis::norms::{normalise_rows, weigh, weigh_together, weights_and_vectors};
use regard_nn::analysis::{Tokens, attentions, heads::record_weights, pad};
use regard_nn::models::{Inputs, LlamaConfig, Model, Transformer};
use regard_nn::{Context, Probe};

/// ‖α·f(x)‖ and ‖Σₕ αₕ·fₕ(x)‖ with explicit vectors, for fused InOut (GPT) and grouped OutIn (Llama) projections.
#[test]
fn norms_match_the_definition() {
    let llama = LlamaConfig {
        vocabulary: 13,
        context: 16,
        n_layers: 2,
        n_heads: 4,
        n_kv_heads: 2,
        d_model: 16,
        d_hidden: 24,
        ..Default::default()
    };
    let llama = planted::amplified(Transformer::new(llama.form(), 1).unwrap(), 10.0);
    for model in [planted::random_gpt(6), llama] {
        let tokens = Tokens::new(vec![3, 1, 4, 1, 5]);
        let time = tokens.len();
        let found = weights_and_vectors(&model, &tokens).unwrap();
        let (ids, lengths) = pad(std::slice::from_ref(&tokens)).unwrap();
        let probe = Probe::new().record("layers.*.self.value");
        let inputs = Inputs::padded(&ids, &lengths).unwrap();
        model.forward(&Context::inference().with_probe(&probe), &inputs).unwrap();
        for (layer, site) in attentions(&model).unwrap().into_iter().enumerate() {
            let attention = site.projections().unwrap();
            let alpha = record_weights(&model, std::slice::from_ref(&tokens)).unwrap()[layer].all().to_vec();
            let config = attention.config();
            let (heads, groups, width) = (config.n_heads, config.n_kv_heads, config.d_head);
            let values = probe.get(&format!("{}.value", site.name)).unwrap().unwrap().to_vec();
            let vector = |head: usize, key: usize| -> Vec<f64> {
                let output = attention.head_output(head).unwrap().to_vec();
                let start = (key * groups + head * groups / heads) * width;
                let value = &values[start..start + width];
                let column = |c: usize| {
                    (0..width).map(|d| f64::from(value[d]) * f64::from(output[d * config.d_model + c])).sum()
                };
                (0..config.d_model).map(column).collect()
            };
            let single = weigh(&found[layer].0, &found[layer].1).unwrap().to_vec();
            let together = weigh_together(&found[layer].0, &found[layer].1).unwrap().to_vec();
            for query in 0..time {
                for key in 0..time {
                    let mut sum = vec![0.0; config.d_model];
                    for head in 0..heads {
                        let place = (head * time + query) * time + key;
                        let output: Vec<f64> =
                            vector(head, key).iter().map(|x| x * f64::from(alpha[place])).collect();
                        let norm = output.iter().map(|x| x * x).sum::<f64>().sqrt();
                        assert!(
                            (norm - f64::from(single[place])).abs() < 1e-5 * (1.0 + norm),
                            "{norm} {}",
                            single[place]
                        );
                        sum.iter_mut().zip(&output).for_each(|(sum, x)| *sum += x);
                    }
                    let norm = sum.iter().map(|x| x * x).sum::<f64>().sqrt();
                    let got = f64::from(together[query * time + key]);
                    assert!((norm - got).abs() < 1e-5 * (1.0 + norm), "{norm} {got}");
                }
            }
        }
    }
}

#[test]
fn heads_with_zero_output_have_zero_norms() {
    let found = weights_and_vectors(&planted::model(), &Tokens::new(vec![1, 2, 3, 1])).unwrap();
    let (weights, vectors) = &found[0];
    let norms = weigh(weights, vectors).unwrap();
    let of = |head: usize| norms.select(0, 0).unwrap().select(0, head).unwrap().to_vec();
    assert!(of(0).iter().any(|&norm| norm > 0.5));
    for silent in [1, 2, 3] {
        assert!(of(silent).iter().all(|&norm| norm == 0.0));
    }
    let rows = normalise_rows(&norms).unwrap();
    for row in rows.to_vec().chunks(4).take(4) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
    }
    assert!(rows.select(1, 2).unwrap().to_vec().iter().all(|&x| x == 0.0), "rows of zeros stay zero");
}
