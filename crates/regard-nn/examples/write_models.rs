//! Writes a small model of each kind that Hugging Face's library supports, with a tokenizer, for
//! `tools/export_check.py`.
//!
//! ```sh
//! cargo run --example write_models -- outputs/models
//! ```

use regard_nn::checkpoint;
use regard_nn::layers::Activation;
use regard_nn::models::form::{Form, Pooler, Positions};
use regard_nn::models::{BertConfig, GptConfig, LlamaConfig, Model, Reads, T5Config, Transformer, VitConfig};
use regard_nn::tensor::random::Key;
use regard_nn::tokens::{BytePairSettings, Tokenizer};
use serde_json::{Map, json};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("the folder to write is missing")?;
    let texts =
        ["Once upon a time there was a small cat.", "The cat sat on the mat, and the dog sat by the cat."];
    let special = ["<pad>", "</s>"].map(str::to_owned).to_vec();
    let settings = BytePairSettings { size: 290, minimum_count: 1, special, end: None };
    let plain = Tokenizer::byte_pairs(texts, &settings)?;
    // T5 needs an end token after its text.
    let ended = Tokenizer::byte_pairs(texts, &BytePairSettings { end: Some("</s>".to_owned()), ..settings })?;
    for (seed, (name, form)) in forms(plain.vocabulary_size()).into_iter().enumerate() {
        let mut model = Transformer::new(form, 1 + seed as u64)?;
        amplify(&mut model)?;
        let reads = model.abilities().reads;
        let folder = Path::new(&folder).join(name);
        let tokenizer = if reads == Reads::Source { &ended } else { &plain };
        let mut more = Map::new();
        for (key, id) in [("pad_token_id", 0), ("bos_token_id", 1), ("eos_token_id", 1)] {
            more.insert(key.to_owned(), json!(id));
        }
        checkpoint::save(&model, &folder, &more)?;
        if !matches!(reads, Reads::Pictures(_)) {
            tokenizer.save(folder.join("tokenizer.json"))?;
            std::fs::write(folder.join("tokenizer_config.json"), tokenizer.configuration_json())?;
        }
    }
    Ok(())
}

fn forms(vocabulary: usize) -> Vec<(&'static str, Form)> {
    let gpt =
        GptConfig { vocabulary, context: 64, n_layers: 2, n_heads: 3, d_model: 48, ..GptConfig::default() };
    let bert = BertConfig {
        vocabulary,
        context: 64,
        n_layers: 2,
        n_heads: 3,
        d_model: 48,
        d_hidden: 100,
        ..BertConfig::default()
    };
    let mut bare = bert.form();
    bare.output.tokens = None;
    bare.output.pooler = Some(Pooler::new(Activation::Tanh));
    // RoBERTa counts positions from the row after its padding id, which is 1.
    let mut roberta = BertConfig { n_types: 1, ..bert.clone() }.form();
    if let Some(stack) = &mut roberta.encoder {
        stack.positions = Positions::Learned { context: 64, offset: 2, skips_padding: true };
    }
    let t5 = T5Config {
        vocabulary,
        n_layers: 2,
        n_decoder_layers: 2,
        n_heads: 3,
        d_model: 48,
        d_head: 12,
        d_hidden: 100,
        ..T5Config::default()
    };
    let gated = T5Config {
        activation: Activation::GeluNew,
        gated: true,
        tied: false,
        scale_output: false,
        ..t5.clone()
    };
    let llama = LlamaConfig {
        vocabulary,
        context: 64,
        n_layers: 2,
        n_heads: 6,
        n_kv_heads: 2,
        d_model: 48,
        d_hidden: 100,
        ..LlamaConfig::default()
    };
    let vit = VitConfig { image: [16, 24], channels: 3, n_layers: 2, classes: 5, ..VitConfig::default() };
    vec![
        ("gpt2", gpt.form()),
        ("gpt2-untied", GptConfig { tied: false, ..gpt }.form()),
        ("bert-words", bert.form()),
        ("bert-classes", BertConfig { classes: Some(3), ..bert.clone() }.form()),
        ("bert-bare", bare),
        ("roberta-words", roberta),
        ("distilbert-words", BertConfig { n_types: 0, ..bert }.form()),
        ("t5", t5.form()),
        ("t5-gated", gated.form()),
        ("llama", llama.form()),
        ("llama-tied", LlamaConfig { tied: true, ..llama }.form()),
        ("vit", vit.form()),
        ("vit-bare", VitConfig { classes: 0, ..vit }.form()),
    ]
}

/// Scales the weights so that all of them have an effect, as after training.
fn amplify(model: &mut dyn Model) -> regard_nn::Result<()> {
    for (name, parameter) in model.parameters_mut() {
        let tensor = parameter.tensor_mut();
        let noise = Key::new(0).site(&name).normal(tensor.count(), 0.2);
        let values: Vec<f32> =
            tensor.values().iter().zip(noise).map(|(value, noise)| value + noise).collect();
        tensor.set_values(&values)?;
    }
    Ok(())
}
