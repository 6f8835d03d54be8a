//! Small models to look at, a corpus, and tables read back.

use crate::checkpoints::made::{regard, text};
use regard_nn::checkpoint;
use regard_nn::models::{BertConfig, GptConfig, Model, Sentiment, SentimentConfig, Transformer};
use regard_nn::tensor::random::Key;
use regard_nn::tokens::{Punctuation, Tokenizer, WordSettings};
use serde_json::{Map, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Sentences of few words, some of which come again.
pub const SENTENCES: [&str; 6] = [
    "the old cat sat on the mat, and the old dog sat on the cat.",
    "a dog is not a cat!",
    "the mat was red; the cat was not.",
    "not the dog, not the cat, but the old mat.",
    "the cat sat.",
    "a red dog sat on a red mat.",
];

pub fn words(mask: bool) -> Tokenizer {
    let settings = WordSettings { punctuation: Punctuation::Separate, mask, ..WordSettings::default() };
    Tokenizer::words(SENTENCES, &settings).unwrap()
}

/// Writes a model with weights that have something to say.
fn save(folder: &Path, mut model: impl Model, tokenizer: &Tokenizer, more: &Map<String, serde_json::Value>) {
    for (name, parameter) in model.parameters_mut() {
        let tensor = parameter.tensor_mut();
        let noise = Key::new(3).site(&name).normal(tensor.count(), 0.3);
        let values: Vec<f32> =
            tensor.values().iter().zip(noise).map(|(value, noise)| value + noise).collect();
        tensor.set_values(&values).unwrap();
    }
    checkpoint::save(&model, folder, more).unwrap();
    tokenizer.save(folder.join("tokenizer.json")).unwrap();
}

/// Two layers of two heads that say the next word.
pub fn gpt(folder: &Path) {
    let tokenizer = words(false);
    let vocabulary = tokenizer.vocabulary_size();
    let sizes =
        GptConfig { vocabulary, context: 32, n_layers: 2, n_heads: 2, d_model: 16, ..GptConfig::default() };
    save(folder, Transformer::new(sizes.form(), 1).unwrap(), &tokenizer, &Map::new());
}

/// One layer of two heads that guesses hidden words.
pub fn bert(folder: &Path) {
    let tokenizer = words(true);
    let vocabulary = tokenizer.vocabulary_size();
    let layers = BertConfig { context: 32, n_layers: 1, n_heads: 2, ..BertConfig::default() };
    let sizes = BertConfig { vocabulary, d_model: 16, d_hidden: 20, ..layers };
    save(folder, Transformer::new(sizes.form(), 1).unwrap(), &tokenizer, &Map::new());
}

/// A classifier with self-attention.
pub fn sentiment(folder: &Path) {
    let tokenizer = words(false);
    let pooling = SentimentConfig { n_heads: 2, ..SentimentConfig::default() };
    let sizes = SentimentConfig {
        vocabulary: tokenizer.vocabulary_size(),
        d_embedding: 8,
        d_hidden: 8,
        pooling: regard_nn::models::Pooling::Heads,
        ..pooling
    };
    let mut more = Map::new();
    more.insert("id2label".to_owned(), json!({ "0": "negative", "1": "positive" }));
    save(folder, Sentiment::new(sizes, 1).unwrap(), &tokenizer, &more);
}

/// Writes the sentences, one a line.
pub fn corpus(path: &Path) {
    std::fs::write(path, SENTENCES.join("\n\n") + "\n").unwrap();
}

/// Runs a command that must succeed, with so many threads.
pub fn run(arguments: &[&str], threads: &str) -> String {
    let output = regard(arguments).env("REGARD_THREADS", threads).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A table as rows of fields by the names of their columns.
pub fn table(path: &Path) -> Vec<BTreeMap<String, String>> {
    let content = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", text(path)));
    let mut lines = content.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| {
        // A comma is a token, and stands in quotation marks.
        let line = line.replace("\",\"", "COMMA");
        let fields: Vec<String> = line.split(',').map(|field| field.replace("COMMA", ",")).collect();
        assert_eq!(fields.len(), header.len(), "{line}");
        header.iter().map(ToString::to_string).zip(fields).collect()
    };
    lines.map(row).collect()
}

pub fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} is {:?}", row[column]))
}
