//! The parts of a score add up to the score.

use regard_nn::Module as _;
use regard_nn::analysis::Tokens;
use regard_nn::analysis::score_parts::{Writer, score_parts};
use regard_nn::models::{BertConfig, GptConfig, LlamaConfig, Model, Transformer};
use regard_nn::position::Position;
use regard_nn::tensor::random::Key;

/// A model whose every parameter is random, biases and norms included.
fn shaken(mut model: Transformer) -> Transformer {
    for (name, parameter) in model.parameters_mut() {
        let tensor = parameter.tensor_mut();
        let noise = Key::new(3).site(&name).normal(tensor.count(), 0.2);
        let values: Vec<f32> =
            tensor.values().iter().zip(noise).map(|(value, noise)| value + noise).collect();
        tensor.set_values(&values).unwrap();
    }
    model
}

fn models() -> Vec<(&'static str, Box<dyn Model>)> {
    let gpt = GptConfig {
        vocabulary: 17,
        context: 12,
        n_layers: 3,
        n_heads: 2,
        d_model: 16,
        ..GptConfig::default()
    };
    let sizes =
        LlamaConfig { vocabulary: 17, context: 12, n_layers: 3, d_model: 16, ..LlamaConfig::default() };
    let llama = LlamaConfig { n_heads: 4, n_kv_heads: 2, d_hidden: 24, ..sizes };
    let alibi = GptConfig { positions: Position::Alibi, ..gpt };
    vec![
        ("gpt", Box::new(shaken(Transformer::new(gpt.form(), 1).unwrap()))),
        ("llama", Box::new(shaken(Transformer::new(llama.form(), 1).unwrap()))),
        ("alibi", Box::new(shaken(Transformer::new(alibi.form(), 1).unwrap()))),
    ]
}

#[test]
fn parts_of_a_score_add_up_to_it() {
    let tokens = Tokens::new(vec![3, 1, 4, 1, 5, 9, 2]);
    for (name, model) in models() {
        for layer in 0..3 {
            for (query, key) in [(6, 0), (6, 6), (4, 2), (2, 5)] {
                let found = score_parts(&*model, &tokens, (layer, 1), (query, key)).unwrap();
                let count = found.writers.len();
                assert_eq!(found.parts.len(), count * count);
                assert_eq!((found.writers[0], found.writers[count - 1]), (Writer::Embeddings, Writer::Bias));
                let heads =
                    found.writers.iter().filter(|writer| matches!(writer, Writer::Head { .. })).count();
                assert_eq!(heads, layer * model.attentions()[0].n_heads);
                let (sum, score) = (found.sum(), found.score);
                assert!(
                    (sum - score).abs() < 1e-4 * (1.0 + score.abs()),
                    "{name}, layer {layer}, {query} → {key}: {sum} and {score}"
                );
                let biased = name == "alibi" && query != key;
                assert_eq!(found.distance.abs() > 1e-4, biased, "{name} {query} {key}: {}", found.distance);
            }
        }
    }
}

#[test]
fn models_whose_scores_are_no_such_sum_are_rejected() {
    let sizes = BertConfig { vocabulary: 17, context: 12, n_layers: 2, n_heads: 2, ..BertConfig::default() };
    let bert = BertConfig { d_model: 16, d_hidden: 20, ..sizes };
    let model = Transformer::new(bert.form(), 1).unwrap();
    let tokens = Tokens::new(vec![3, 1, 4]);
    let problem = score_parts(&model, &tokens, (1, 0), (2, 1)).unwrap_err().to_string();
    assert!(problem.contains("no sum"), "{problem}");
    let (_, gpt) = models().swap_remove(0);
    for (at, pair) in [((9, 0), (1, 0)), ((0, 9), (1, 0)), ((0, 0), (9, 0))] {
        assert!(score_parts(&*gpt, &tokens, at, pair).is_err());
    }
}
