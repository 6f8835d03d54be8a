//! A GPT with weights set by hand, so that the function of each head is known.
//!
//! The residual stream has dimensions for the token (one of 16), the position (one of 16), the previous token and the
//! prediction. Layer 0: head 0 attends to the previous token and copies it; head 1 attends to earlier occurrences of the
//! token; head 2 is uniform; head 3 attends to its own position. Layer 1: head 0 is an induction head: it attends to tokens
//! whose previous token is the current one and writes them as the prediction; the other heads are uniform.

use regard_nn::Module;
use regard_nn::analysis::Tokens;
use regard_nn::models::{GptConfig, Model, Transformer};

pub const VOCABULARY: usize = 16;
const WIDTH: usize = 128;
const HEAD: usize = 32;
const HEADS: usize = 4;
/// Offsets in the residual stream.
const TOKEN: usize = 0;
const POSITION: usize = 16;
const BEFORE: usize = 32;
const ANSWER: usize = 48;

/// Every entry that is not 0: (parameter, row, column, value).
fn entries() -> Vec<(&'static str, usize, usize, f32)> {
    let mut all = Vec::new();
    let (query, key, value) = (0, WIDTH, 2 * WIDTH); // the three thirds of a fused projection
    let first = "layers.0.attention.project.weight";
    let second = "layers.1.attention.project.weight";
    for i in 0..16 {
        all.push(("tokens.weight", i, TOKEN + i, 1.0));
        all.push(("positions.table.weight", i, POSITION + i, 1.0));
        all.push(("head.weight", i, ANSWER + i, 1.0));
        // Layer 0, head 0: position i attends to position i − 1.
        if i > 0 {
            all.push((first, POSITION + i, query + i - 1, 2.0));
        }
        all.push((first, POSITION + i, key + i, 2.0));
        all.push((first, TOKEN + i, value + i, 1.0));
        all.push(("layers.0.attention.output.weight", i, BEFORE + i, 0.125));
        // Head 1: the same token, but not the same position.
        all.push((first, TOKEN + i, query + HEAD + i, 2.0));
        all.push((first, TOKEN + i, key + HEAD + i, 2.0));
        all.push((first, POSITION + i, query + HEAD + 16 + i, 2.0));
        all.push((first, POSITION + i, key + HEAD + 16 + i, -4.0));
        // Head 3: the same position.
        all.push((first, POSITION + i, query + 3 * HEAD + i, 2.0));
        all.push((first, POSITION + i, key + 3 * HEAD + i, 2.0));
        // Layer 1, head 0: the token attends to tokens that followed it.
        all.push((second, TOKEN + i, query + i, 2.0));
        all.push((second, BEFORE + i, key + i, 2.0));
        // The first position has no predecessor and copied itself.
        all.push((second, POSITION, key + i, -2.0));
        all.push((second, TOKEN + i, value + i, 1.0));
        all.push(("layers.1.attention.output.weight", i, ANSWER + i, 1.0));
    }
    all
}

pub fn model() -> Transformer {
    let config = GptConfig {
        vocabulary: VOCABULARY,
        context: 16,
        n_layers: 2,
        n_heads: HEADS,
        d_model: WIDTH,
        d_hidden: Some(4),
        tied: false,
        ..Default::default()
    };
    let mut model = Transformer::new(config.form(), 0).unwrap();
    let entries = entries();
    let mut planted = 0;
    for (name, parameter) in model.parameters_mut() {
        if name.contains("norm") {
            continue; // norms keep their initial scale of 1
        }
        let tensor = parameter.tensor_mut();
        let columns = tensor.shape().last();
        let mut values = vec![0.0; tensor.count()];
        for &(_, row, column, value) in entries.iter().filter(|entry| entry.0 == name) {
            values[row * columns + column] = value;
            planted += 1;
        }
        tensor.set_values(&values).unwrap();
    }
    assert_eq!(planted, entries.len(), "an entry names a parameter that does not exist");
    model
}

/// Scales a model's parameters, so that untrained weights have an effect.
pub fn amplified<M: Model>(mut model: M, factor: f32) -> M {
    for (name, parameter) in model.parameters_mut() {
        if !name.contains("norm") {
            let larger: Vec<f32> = parameter.tensor().to_vec().iter().map(|value| value * factor).collect();
            parameter.tensor_mut().set_values(&larger).unwrap();
        }
    }
    model
}

/// A small random GPT.
pub fn random_gpt(seed: u64) -> Transformer {
    let config =
        GptConfig { vocabulary: 13, context: 16, n_layers: 2, n_heads: 2, d_model: 8, ..Default::default() };
    amplified(Transformer::new(config.form(), seed).unwrap(), 20.0)
}

/// Texts of 3 to 12 tokens.
pub fn texts(vocabulary: u32, count: u32) -> Vec<Tokens> {
    let text = |i: u32| {
        let ids: Vec<u32> = (0..3 + (i * 5) % 10).map(|k| (i * 7 + k * k * 3 + k * i) % vocabulary).collect();
        let mut tokens = Tokens::new(ids);
        tokens.special[0] = true;
        let last = tokens.len() - 1;
        tokens.delimiter[last] = true;
        tokens
    };
    (0..count).map(text).collect()
}
