//! Writes a small model of each kind that Hugging Face's library knows, with a tokenizer: what `tools/export_check.py`
//! opens there.
//!
//! ```sh
//! cargo run --example write_models -- outputs/models
//! ```

use regard_nn::checkpoint;
use regard_nn::layers::Activation;
use regard_nn::models::{
    Bert, BertConfig, BertHeads, Gpt, GptConfig, Llama, LlamaConfig, Model, T5, T5Config, Vit, VitConfig,
};
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
    // A T5 reads the end of its text.
    let ended = Tokenizer::byte_pairs(texts, &BytePairSettings { end: Some("</s>".to_owned()), ..settings })?;
    for (name, mut model) in models(plain.vocabulary_size())? {
        excite(&mut model)?;
        let folder = Path::new(&folder).join(name);
        let tokenizer = if matches!(model, Model::T5(_)) { &ended } else { &plain };
        let mut more = Map::new();
        for (key, id) in [("pad_token_id", 0), ("bos_token_id", 1), ("eos_token_id", 1)] {
            more.insert(key.to_owned(), json!(id));
        }
        checkpoint::save(&model, &folder, &more)?;
        if !matches!(model, Model::Vit(_)) {
            tokenizer.save(folder.join("tokenizer.json"))?;
            std::fs::write(folder.join("tokenizer_config.json"), tokenizer.configuration_json())?;
        }
    }
    Ok(())
}

fn models(vocabulary: usize) -> regard_nn::Result<Vec<(&'static str, Model)>> {
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
    let classes = BertHeads { words: false, pooler: true, classes: Some(3) };
    let bare = BertHeads { words: false, pooler: true, classes: None };
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
    Ok(vec![
        ("gpt2", Model::Gpt(Gpt::new(gpt.clone(), 1)?)),
        ("gpt2-untied", Model::Gpt(Gpt::new(GptConfig { tied: false, ..gpt }, 2)?)),
        ("bert-words", Model::Bert(Bert::new(bert.clone(), 3)?)),
        ("bert-classes", Model::Bert(Bert::new(BertConfig { heads: classes, ..bert.clone() }, 4)?)),
        ("bert-bare", Model::Bert(Bert::new(BertConfig { heads: bare, ..bert.clone() }, 5)?)),
        (
            "roberta-words",
            Model::Bert(Bert::new(BertConfig { position_offset: 2, n_types: 1, ..bert.clone() }, 6)?),
        ),
        ("distilbert-words", Model::Bert(Bert::new(BertConfig { n_types: 0, ..bert }, 7)?)),
        ("t5", Model::T5(T5::new(t5, 8)?)),
        ("t5-gated", Model::T5(T5::new(gated, 9)?)),
        ("llama", Model::Llama(Llama::new(llama.clone(), 10)?)),
        ("llama-tied", Model::Llama(Llama::new(LlamaConfig { tied: true, ..llama }, 11)?)),
        ("vit", Model::Vit(Vit::new(vit.clone(), 12)?)),
        ("vit-bare", Model::Vit(Vit::new(VitConfig { classes: 0, ..vit }, 13)?)),
    ])
}

/// Weights wide enough that every one of them matters, as after training.
fn excite(model: &mut Model) -> regard_nn::Result<()> {
    for (name, parameter) in model.module_mut().parameters_mut() {
        let tensor = parameter.tensor_mut();
        let noise = Key::new(0).site(&name).normal(tensor.count(), 0.2);
        let values: Vec<f32> =
            tensor.values().iter().zip(noise).map(|(value, noise)| value + noise).collect();
        tensor.set_values(&values)?;
    }
    Ok(())
}
