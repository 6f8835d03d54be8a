//! Small models in folders, with weights strong enough to see.

use regard_nn::attention::AttentionKind;
use regard_nn::checkpoint;
use regard_nn::models::form::Window;
use regard_nn::models::{BertConfig, GptConfig, LlamaConfig, Model, Pooling, Sentiment};
use regard_nn::models::{SentimentConfig, T5Config, Transformer, VitConfig};
use regard_nn::tensor::random::Key;
use regard_nn::tokens::{BytePairSettings, Tokenizer, WordPieceSettings, WordSettings};
use serde_json::{Map, json};
use std::path::Path;

const TEXT: &str =
    "The cat sat on the mat because it was tired. The dog unhappily sat by the cat and looked.";

fn save(folder: &Path, mut model: impl Model, tokenizer: Option<&Tokenizer>) {
    for (name, parameter) in model.parameters_mut() {
        let tensor = parameter.tensor_mut();
        let noise = Key::new(7).site(&name).normal(tensor.count(), 0.25);
        let values: Vec<f32> =
            tensor.values().iter().zip(noise).map(|(value, noise)| value + noise).collect();
        tensor.set_values(&values).unwrap();
    }
    let labels = json!({ "0": "negative", "1": "positive", "2": "other" });
    let more: Map<_, _> =
        [("eos_token_id".to_owned(), json!(1)), ("id2label".to_owned(), labels)].into_iter().collect();
    checkpoint::save(&model, folder, &more).unwrap();
    if let Some(tokenizer) = tokenizer {
        tokenizer.save(folder.join("tokenizer.json")).unwrap();
    }
}

fn byte_pairs(end: bool) -> Tokenizer {
    let special = ["<pad>", "</s>"].map(str::to_owned).to_vec();
    let end = end.then(|| "</s>".to_owned());
    Tokenizer::byte_pairs([TEXT], &BytePairSettings { size: 300, minimum_count: 1, special, end }).unwrap()
}

pub fn gpt(folder: &Path) {
    let tokenizer = byte_pairs(false);
    let vocabulary = tokenizer.vocabulary_size();
    let sizes =
        GptConfig { vocabulary, context: 64, n_layers: 3, n_heads: 4, d_model: 32, ..GptConfig::default() };
    save(folder, Transformer::new(sizes.form(), 1).unwrap(), Some(&tokenizer));
}

pub fn llama(folder: &Path) {
    let tokenizer = byte_pairs(false);
    let vocabulary = tokenizer.vocabulary_size();
    let layers = LlamaConfig { context: 64, n_layers: 2, n_heads: 4, ..LlamaConfig::default() };
    let sizes = LlamaConfig { vocabulary, n_kv_heads: 2, d_model: 32, d_hidden: 48, ..layers };
    save(folder, Transformer::new(sizes.form(), 1).unwrap(), Some(&tokenizer));
}

/// Like gpt-oss and Gemma 2 at once: a window, a sink and a soft cap.
pub fn windowed(folder: &Path) {
    let tokenizer = byte_pairs(false);
    let vocabulary = tokenizer.vocabulary_size();
    let layers = LlamaConfig { context: 64, n_layers: 2, n_heads: 4, ..LlamaConfig::default() };
    let sizes = LlamaConfig { vocabulary, n_kv_heads: 2, d_model: 32, d_hidden: 48, ..layers };
    let mut form = sizes.form();
    for layer in form.decoder.iter_mut().flat_map(|stack| &mut stack.layers) {
        layer.attention.window = Some(Window { before: 3, after: 0 });
        layer.attention.kind = AttentionKind::ZeroSink;
        layer.attention.soft_cap = Some(2.0);
    }
    save(folder, Transformer::new(form, 1).unwrap(), Some(&tokenizer));
}

pub fn t5(folder: &Path) {
    let tokenizer = byte_pairs(true);
    let vocabulary = tokenizer.vocabulary_size();
    let layers = T5Config { n_layers: 2, n_decoder_layers: 2, ..T5Config::default() };
    let sizes = T5Config { vocabulary, n_heads: 2, d_model: 16, d_head: 8, d_hidden: 20, ..layers };
    save(folder, Transformer::new(sizes.form(), 3).unwrap(), Some(&tokenizer));
}

pub fn bert(folder: &Path) {
    let settings = WordPieceSettings { size: 80, minimum_count: 1, ..WordPieceSettings::default() };
    let tokenizer = Tokenizer::word_pieces([TEXT], &settings).unwrap();
    let vocabulary = tokenizer.vocabulary_size();
    let layers = BertConfig { context: 48, n_layers: 2, n_heads: 2, ..BertConfig::default() };
    let sizes = BertConfig { vocabulary, d_model: 16, d_hidden: 20, ..layers };
    save(folder, Transformer::new(sizes.form(), 3).unwrap(), Some(&tokenizer));
}

pub fn sentiment(folder: &Path) {
    let tokenizer = byte_pairs(false);
    let sizes = SentimentConfig {
        vocabulary: tokenizer.vocabulary_size(),
        d_embedding: 12,
        d_hidden: 8,
        pooling: Pooling::Additive,
        ..SentimentConfig::default()
    };
    save(folder, Sentiment::new(sizes, 3).unwrap(), Some(&tokenizer));
}

/// The same with heads that can be seen.
pub fn sentiment_heads(folder: &Path) {
    let tokenizer = byte_pairs(false);
    let sizes = SentimentConfig {
        vocabulary: tokenizer.vocabulary_size(),
        d_embedding: 12,
        d_hidden: 8,
        n_heads: 2,
        pooling: Pooling::Heads,
        ..SentimentConfig::default()
    };
    save(folder, Sentiment::new(sizes, 3).unwrap(), Some(&tokenizer));
}

pub fn vit(folder: &Path) {
    let layers = VitConfig { n_layers: 2, n_heads: 2, d_model: 16, d_hidden: 20, ..VitConfig::default() };
    let sizes = VitConfig { image: [16, 24], patch: 4, channels: 3, classes: 3, ..layers };
    save(folder, Transformer::new(sizes.form(), 3).unwrap(), None);
}

fn words() -> Tokenizer {
    Tokenizer::words(["the cat sat on the mat by the dog"], &WordSettings::default()).unwrap()
}

/// As large as the smallest GPT-2, save for the vocabulary: 12 layers of 12 heads.
pub fn large(folder: &Path) {
    let tokenizer = words();
    let sizes = GptConfig { vocabulary: tokenizer.vocabulary_size(), ..GptConfig::default() };
    let model = Transformer::new(sizes.form(), 1).unwrap();
    checkpoint::save(&model, folder, &Map::new()).unwrap();
    tokenizer.save(folder.join("tokenizer.json")).unwrap();
}

/// Small, but it reads 4,096 tokens.
pub fn long(folder: &Path) {
    let tokenizer = words();
    let layers =
        LlamaConfig { context: 4096, n_layers: 2, n_heads: 4, n_kv_heads: 4, ..LlamaConfig::default() };
    let sizes =
        LlamaConfig { vocabulary: tokenizer.vocabulary_size(), d_model: 128, d_hidden: 256, ..layers };
    save(folder, Transformer::new(sizes.form(), 1).unwrap(), Some(&tokenizer));
}
