//! Small models in folders, and the program.

use assert_cmd::Command;
use regard_nn::Module;
use regard_nn::checkpoint;
use regard_nn::models::form::Output;
use regard_nn::models::{BertConfig, Form, GptConfig, T5Config, Transformer, VitConfig};
use regard_nn::tensor::random::Key;
use regard_nn::tokens::{BytePairSettings, Tokenizer};
use serde_json::{Map, json};
use std::path::Path;

/// The program, which knows nothing of whoever runs the tests.
pub fn regard(arguments: &[&str]) -> Command {
    let mut command = assert_cmd::cargo::cargo_bin_cmd!("regard");
    command.args(arguments);
    for name in [
        "HF_HOME",
        "HF_HUB_CACHE",
        "HUGGINGFACE_HUB_CACHE",
        "HF_ENDPOINT",
        "HF_TOKEN",
        "HF_TOKEN_PATH",
        "HF_HUB_OFFLINE",
    ] {
        command.env_remove(name);
    }
    for name in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(name);
    }
    command.env("HF_HOME", "no-such-folder");
    command
}

/// What a command that succeeds says.
pub fn said(arguments: &[&str]) -> String {
    let output = regard(arguments).assert().success().get_output().clone();
    String::from_utf8(output.stdout).expect("the program writes UTF-8")
}

/// The one line with which a command fails, and its exit code.
pub fn complaint(arguments: &[&str]) -> (String, i32) {
    let output = regard(arguments).assert().failure().get_output().clone();
    (String::from_utf8(output.stderr).expect("the program writes UTF-8"), output.status.code().unwrap())
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

pub fn tokenizer(end: bool) -> Tokenizer {
    let special = ["<pad>", "</s>"].map(str::to_owned).to_vec();
    let end = end.then(|| "</s>".to_owned());
    let settings = BytePairSettings { size: 270, minimum_count: 1, special, end };
    Tokenizer::byte_pairs(["The cat sat on the mat. The dög sat by the cat."], &settings).unwrap()
}

/// A transformer of some form.
pub fn save(folder: &Path, (form, seed): (Form, u64), tokenizer: Option<&Tokenizer>) {
    let mut model = Transformer::new(form, seed).unwrap();
    for (name, parameter) in model.parameters_mut() {
        let tensor = parameter.tensor_mut();
        let noise = Key::new(7).site(&name).normal(tensor.count(), 0.2);
        let values: Vec<f32> =
            tensor.values().iter().zip(noise).map(|(value, noise)| value + noise).collect();
        tensor.set_values(&values).unwrap();
    }
    let mut more = Map::new();
    more.insert("eos_token_id".to_owned(), json!(1));
    checkpoint::save(&model, folder, &more).unwrap();
    if let Some(tokenizer) = tokenizer {
        tokenizer.save(folder.join("tokenizer.json")).unwrap();
    }
}

pub fn gpt(folder: &Path, seed: u64) {
    gpt_of(folder, tokenizer(false).vocabulary_size(), seed);
}

/// A GPT of so many tokens, whatever its tokenizer has.
pub fn gpt_of(folder: &Path, vocabulary: usize, seed: u64) {
    let tokenizer = tokenizer(false);
    let sizes =
        GptConfig { vocabulary, context: 48, n_layers: 2, n_heads: 2, d_model: 16, ..GptConfig::default() };
    save(folder, (sizes.form(), seed), Some(&tokenizer));
}

pub fn t5(folder: &Path) {
    let tokenizer = tokenizer(true);
    let vocabulary = tokenizer.vocabulary_size();
    let layers = T5Config { n_layers: 1, n_decoder_layers: 2, ..T5Config::default() };
    let sizes = T5Config { vocabulary, n_heads: 2, d_model: 16, d_head: 6, d_hidden: 20, ..layers };
    save(folder, (sizes.form(), 3), Some(&tokenizer));
}

/// A BERT with another head than that for masked words.
pub fn bert_with(folder: &Path, output: Output) {
    let tokenizer = tokenizer(false);
    let vocabulary = tokenizer.vocabulary_size();
    let layers = BertConfig { context: 48, n_layers: 1, n_heads: 2, ..BertConfig::default() };
    let form = BertConfig { vocabulary, d_model: 16, d_hidden: 20, ..layers }.form();
    save(folder, (Form { output, ..form }, 3), Some(&tokenizer));
}

pub fn bert(folder: &Path) {
    let tokenizer = tokenizer(false);
    let vocabulary = tokenizer.vocabulary_size();
    let layers = BertConfig { context: 48, n_layers: 1, n_heads: 2, ..BertConfig::default() };
    let sizes = BertConfig { vocabulary, d_model: 16, d_hidden: 20, ..layers };
    save(folder, (sizes.form(), 3), Some(&tokenizer));
}

pub fn vit(folder: &Path) {
    let layers = VitConfig { n_layers: 1, n_heads: 2, d_model: 16, d_hidden: 20, ..VitConfig::default() };
    let sizes = VitConfig { image: [8, 12], patch: 4, channels: 3, classes: 3, ..layers };
    save(folder, (sizes.form(), 3), None);
}
