//! Models have as many parameters as the published ones.

use crate::zoo::{shifted, with_heads};
use regard_nn::layers::Activation;
use regard_nn::models::form::Form;
use regard_nn::models::{
    BertConfig, GptConfig, LlamaConfig, Pooling, Sentiment, SentimentConfig, T5Config, Transformer, VitConfig,
};
use regard_nn::tensor::{Tensor, Values};
use regard_nn::{Initial, Module};
use std::sync::{Arc, LazyLock};

/// Zeros that nobody writes to cost no memory, so that the largest models can be built here.
static ZEROS: LazyLock<Vec<f32>> = LazyLock::new(|| vec![0.0; 1 << 28]);

struct Zeros(usize);

impl regard_nn::tensor::External for Zeros {
    fn values(&self) -> Values<'_> {
        Values::F32(&ZEROS[..self.0])
    }
}

fn empty() -> Initial {
    Initial::read(Arc::new(|_, shape| Ok(Tensor::external(Box::new(Zeros(shape.count())), shape)?)))
}

fn count(form: Form) -> usize {
    Transformer::build(form, &empty()).unwrap().parameter_count()
}

#[test]
fn gpt2() {
    for (n_layers, n_heads, d_model, known) in [
        (12, 12, 768, 124_439_808),
        (24, 16, 1024, 354_823_168),
        (36, 20, 1280, 774_030_080),
        (48, 25, 1600, 1_557_611_200),
    ] {
        let config = GptConfig { n_layers, n_heads, d_model, ..GptConfig::default() };
        let gpt = Transformer::build(config.form(), &empty()).unwrap();
        let (c, per_layer) = (d_model, 12 * d_model * d_model + 13 * d_model);
        assert_eq!(gpt.parameter_count(), known);
        let parts = gpt.parameter_count_by_part(1);
        let want = [
            ("tokens", 50_257 * c),
            ("positions", 1024 * c),
            ("layers", n_layers * per_layer),
            ("norm", 2 * c),
        ];
        assert_eq!(parts, want.map(|(name, count)| (name.to_owned(), count)));
        let layers = gpt.parameter_count_by_part(2);
        assert!(layers.contains(&("layers.11".to_owned(), per_layer)));
        assert_eq!(layers.iter().map(|(_, count)| count).sum::<usize>(), known);
    }
    let untied = GptConfig { tied: false, ..GptConfig::default() };
    assert_eq!(count(untied.form()), 124_439_808 + 50_257 * 768);
}

#[test]
fn bert_roberta_and_distilbert() {
    let base = BertConfig::default();
    let roberta = shifted(&BertConfig { vocabulary: 50_265, n_types: 1, ..base.clone() }, 2);
    let distilbert = BertConfig { n_types: 0, n_layers: 6, ..base.clone() }.form();
    let bare = |form: Form| with_heads(form, None, Some(Activation::Tanh), None);
    for (form, known) in [
        (bare(base.form()), 109_482_240),
        (base.form(), 109_514_298),
        (bare(roberta.clone()), 124_645_632),
        (roberta, 124_697_433),
        (with_heads(distilbert.clone(), None, None, None), 66_362_880),
        (distilbert, 66_985_530),
    ] {
        assert_eq!(count(form), known);
    }
    let classes = BertConfig { classes: Some(5), ..base };
    assert_eq!(count(classes.form()), 109_482_240 + 5 * 769);
}

#[test]
fn t5_of_both_versions() {
    let small = T5Config::default();
    assert_eq!(count(small.form()), 60_506_624);
    let gated =
        T5Config { gated: true, activation: Activation::GeluNew, tied: false, scale_output: false, ..small };
    let newer = T5Config { n_layers: 8, n_decoder_layers: 8, n_heads: 6, d_hidden: 1024, ..gated };
    assert_eq!(count(newer.form()), 76_961_152);
}

#[test]
fn llama() {
    let base = LlamaConfig { vocabulary: 32_000, ..LlamaConfig::default() };
    let seven = LlamaConfig {
        n_layers: 32,
        n_heads: 32,
        n_kv_heads: 32,
        d_model: 4096,
        d_hidden: 11_008,
        ..base.clone()
    };
    assert_eq!(count(seven.form()), 6_738_415_616);
    let tiny =
        LlamaConfig { n_layers: 22, n_heads: 32, n_kv_heads: 4, d_model: 2048, d_hidden: 5632, ..base };
    assert_eq!(count(tiny.form()), 1_100_048_384);
}

#[test]
fn vit() {
    let base = VitConfig { image: [224, 224], patch: 16, channels: 3, classes: 1000, ..VitConfig::default() };
    let base = VitConfig { n_layers: 12, n_heads: 12, d_model: 768, d_hidden: 3072, ..base };
    assert_eq!(count(base.form()), 86_567_656);
}

#[test]
fn the_sentiment_models_differ_in_their_attention_only() {
    let count = |pooling| {
        let config = SentimentConfig { pooling, ..SentimentConfig::default() };
        Sentiment::build(config, &empty()).unwrap().parameter_count()
    };
    let (h, e, v) = (128, 100, 10_000);
    let plain = v * e + 2 * 4 * h * (e + h + 1) + 2 * h + 1;
    assert_eq!(count(Pooling::Max), plain);
    assert_eq!(count(Pooling::Additive), plain + (2 * h * h + h) + (h + 1));
    assert_eq!(count(Pooling::Heads), plain + 4 * (2 * h) * (2 * h) + 4 * 2 * h);
}
