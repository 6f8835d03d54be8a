//! What is written is read back: the same configuration, the same bits.

use crate::numbers::same_bits;
use crate::zoo::{self, Specimen};
use regard_nn::Context;
use regard_nn::attention::AttentionKind;
use regard_nn::checkpoint::{self, FAMILIES};
use regard_nn::layers::Activation;
use regard_nn::models::{
    Bert, BertConfig, BertHeads, Gpt, GptConfig, Llama, LlamaConfig, Model, T5, T5Config, Vit, VitConfig,
};
use regard_nn::position::RotaryScaling;
use serde_json::{Map, Value, json};
use std::path::Path;

fn config(model: &Model) -> Value {
    let value = match model {
        Model::Gpt(model) => serde_json::to_value(model.config()),
        Model::Bert(model) => serde_json::to_value(model.config()),
        Model::T5(model) => serde_json::to_value(model.config()),
        Model::Llama(model) => serde_json::to_value(model.config()),
        Model::Vit(model) => serde_json::to_value(model.config()),
        Model::Sentiment(model) => serde_json::to_value(model.config()),
        Model::Bag(model) => serde_json::to_value(model.config()),
        Model::Tagger(model) => serde_json::to_value(model.config()),
    };
    let mut value = value.unwrap();
    // What says how a head works means nothing without the head.
    if let Model::Bert(model) = model {
        for (head, function) in [
            (model.config().heads.pooler, "pooler_activation"),
            (model.config().heads.words, "words_activation"),
        ] {
            if !head {
                value[function] = Value::Null;
            }
        }
    }
    value
}

/// Saves a model, reads it again, and compares everything.
fn check(name: &str, model: Model) -> Map<String, Value> {
    let folder = tempfile::tempdir().unwrap();
    checkpoint::save(&model, folder.path(), &Map::new()).unwrap();
    let loaded = checkpoint::load(folder.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(config(&loaded.model), config(&model), "{name}");
    let (before, after) = (model.module().parameters(), loaded.model.module().parameters());
    assert_eq!(before.len(), after.len(), "{name}");
    for ((path, before), (same, after)) in before.iter().zip(&after) {
        assert_eq!(path, same, "{name}");
        same_bits(path, after.tensor(), before.tensor());
    }
    let [before, after] = [model, loaded.model].map(|model| {
        Specimen { name: "", model }
            .loss(&Context::inference())
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    });
    same_bits(name, &after, &before);
    loaded.config
}

#[test]
fn every_model_comes_back_as_it_was() {
    for mut specimen in zoo::all() {
        zoo::widen(&mut specimen.model);
        let config = check(specimen.name, specimen.model);
        let kind = config["model_type"].as_str().unwrap();
        assert!(FAMILIES.contains(&kind) || kind.starts_with("regard-"), "{}: {kind}", specimen.name);
    }
}

#[test]
fn the_deviation_of_initial_weights_is_what_was_asked_for_and_comes_back() {
    const DEVIATION: f32 = 0.3;
    let bert = |config: BertConfig| {
        Model::Bert(Bert::new(BertConfig { deviation: DEVIATION, ..config }, 1).unwrap())
    };
    let distil = BertConfig { n_types: 0, norm_epsilon: 1e-12, ..zoo::bert_config() };
    let roberta = BertConfig { position_offset: 2, n_types: 1, ..zoo::bert_config() };
    let vit = VitConfig { deviation: DEVIATION, ..zoo::vit_config() };
    let llama = LlamaConfig { deviation: DEVIATION, ..zoo::llama_config() };
    let gpt = GptConfig { deviation: DEVIATION, ..zoo::gpt_config() };
    let models = [
        ("gpt2", Model::Gpt(Gpt::new(gpt, 1).unwrap())),
        ("llama", Model::Llama(Llama::new(llama, 1).unwrap())),
        ("vit", Model::Vit(Vit::new(vit, 1).unwrap())),
        ("bert", bert(zoo::bert_config())),
        ("roberta", bert(roberta)),
        ("distilbert", bert(distil)),
    ];
    for (kind, model) in models {
        let all = model.module().parameters();
        // Not what is added to the stream, which starts smaller.
        let inward = |name: &str| ["project.weight", "query.weight"].iter().any(|end| name.ends_with(end));
        let inner = all.iter().filter(|(name, _)| inward(name));
        let drawn: Vec<f32> = inner.flat_map(|(_, parameter)| parameter.tensor().to_vec()).collect();
        let found = (drawn.iter().map(|x| x * x).sum::<f32>() / drawn.len() as f32).sqrt();
        // The root mean square of n normal draws is within 4/√(2n) of their deviation.
        let error = 4.0 * DEVIATION / (2.0 * drawn.len() as f32).sqrt();
        assert!((found - DEVIATION).abs() < error, "{kind}: {found} from {} draws", drawn.len());
        let config = check(kind, model);
        assert_eq!(config["model_type"], kind);
        assert_eq!(config["initializer_range"].as_f64().unwrap() as f32, DEVIATION, "{kind}");
    }
}

#[test]
fn known_forms_have_their_known_names() {
    for (name, kind, tensor) in [
        ("gpt", "gpt2", "transformer.h.1.attn.c_attn.weight"),
        ("gpt, relative, learned sink", "regard-gpt", "layers.1.attention.sink"),
        ("bert", "bert", "bert.encoder.layer.1.attention.self.query.weight"),
        ("bert, bare", "bert", "encoder.layer.1.attention.self.query.weight"),
        ("bert, like roberta", "roberta", "lm_head.layer_norm.weight"),
        ("bert, like distilbert", "distilbert", "distilbert.transformer.layer.0.attention.q_lin.weight"),
        ("t5, gated", "t5", "decoder.block.0.layer.1.EncDecAttention.q.weight"),
        ("llama", "llama", "model.layers.0.mlp.gate_proj.weight"),
        ("vit", "vit", "vit.embeddings.patch_embeddings.projection.weight"),
        ("sentiment, additive", "regard-sentiment", "additive.score.weight"),
        ("bag", "regard-bag", "words.weight"),
        ("tagger", "regard-tagger", "attention.query.weight"),
    ] {
        let specimen = zoo::all().into_iter().find(|specimen| specimen.name == name).unwrap();
        let written = checkpoint::to_parts(&specimen.model).unwrap();
        assert_eq!(written.config["model_type"], kind, "{name}");
        assert!(written.tensors.contains_key(tensor), "{name}: {:?}", written.tensors.keys());
    }
}

#[test]
fn forms_that_no_family_has_keep_all_their_settings() {
    let bert = |config: BertConfig| Model::Bert(Bert::new(config, 1).unwrap());
    let t5 = |config: T5Config| Model::T5(T5::new(config, 1).unwrap());
    let llama = |config: LlamaConfig| Model::Llama(Llama::new(config, 1).unwrap());
    let gpt = |config: GptConfig| Model::Gpt(Gpt::new(config, 1).unwrap());
    let base = zoo::bert_config();
    let classes = BertHeads { words: true, pooler: true, classes: Some(3) };
    let linear = RotaryScaling::Linear { factor: 3.0 };
    let all = vec![
        ("no types, another ε", bert(BertConfig { n_types: 0, norm_epsilon: 1e-5, ..base.clone() })),
        ("no types, tanh", bert(BertConfig { n_types: 0, heads: classes, ..base.clone() })),
        ("no types, shifted positions", bert(BertConfig { n_types: 0, position_offset: 2, ..base.clone() })),
        (
            "another function for words",
            bert(BertConfig { words_activation: Activation::Relu, ..base.clone() }),
        ),
        (
            "another pooler",
            bert(BertConfig { pooler_activation: Activation::Silu, heads: classes, ..base.clone() }),
        ),
        ("words and classes", bert(BertConfig { heads: classes, ..base.clone() })),
        ("roberta with classes", bert(BertConfig { heads: classes, position_offset: 3, ..base.clone() })),
        ("other functions", bert(BertConfig { activation: Activation::Tanh, position_offset: 1, ..base })),
        (
            "gated by the exact GELU",
            t5(T5Config { gated: true, activation: Activation::Gelu, ..zoo::t5_config() }),
        ),
        ("gated by ReLU", t5(T5Config { gated: true, ..zoo::t5_config() })),
        ("plain GELU", t5(T5Config { activation: Activation::GeluNew, start: 3, ..zoo::t5_config() })),
        ("tied, unscaled", t5(T5Config { scale_output: false, ..zoo::t5_config() })),
        ("untied, scaled", t5(T5Config { tied: false, ..zoo::t5_config() })),
        (
            "linear scaling",
            llama(LlamaConfig { rotary_scaling: linear, d_head: Some(2), ..zoo::llama_config() }),
        ),
        ("other base", llama(LlamaConfig { rotary_base: 123.4, dropout: 0.3, ..zoo::llama_config() })),
        ("sigmoid", gpt(GptConfig { attention: AttentionKind::Sigmoid, dropout: 0.1, ..zoo::gpt_config() })),
        (
            "wide",
            gpt(GptConfig { d_hidden: Some(7), scale_by_layer: true, tied: false, ..zoo::gpt_config() }),
        ),
        (
            "no bias",
            Model::Vit(
                Vit::new(VitConfig { attention_bias: false, dropout: 0.2, ..zoo::vit_config() }, 1).unwrap(),
            ),
        ),
    ];
    for (name, mut model) in all {
        zoo::widen(&mut model);
        check(name, model);
    }
}

#[test]
fn a_vit_without_classes_keeps_its_vectors() {
    let mut model =
        Model::Vit(Vit::new(VitConfig { classes: 0, image: [4, 4], ..zoo::vit_config() }, 1).unwrap());
    zoo::widen(&mut model);
    let folder = tempfile::tempdir().unwrap();
    checkpoint::save(&model, folder.path(), &Map::new()).unwrap();
    let loaded = checkpoint::load(folder.path()).unwrap().model;
    assert_eq!(config(&loaded), config(&model));
    let images = crate::numbers::normal("images", [2, 2, 4, 4]);
    let [before, after] = [&model, &loaded].map(|model| {
        let Model::Vit(vit) = model else { panic!() };
        assert!(vit.forward(&Context::inference(), &images).is_err(), "there is no classifier");
        vit.encode(&Context::inference(), &images).unwrap()
    });
    same_bits("vectors", &after, &before);
}

#[test]
fn more_can_be_said_in_the_configuration() {
    let specimen = &zoo::all()[0];
    let folder = tempfile::tempdir().unwrap();
    let more = json!({"eos_token_id": 7, "n_layer": 99, "id2label": {"0": "no"}});
    let Value::Object(more) = more else { panic!() };
    checkpoint::save(&specimen.model, folder.path(), &more).unwrap();
    let loaded = checkpoint::load(folder.path()).unwrap();
    assert_eq!((&loaded.config["eos_token_id"], &loaded.config["n_layer"]), (&json!(7), &json!(2)));
    assert!(!folder.path().join("model.safetensors.writing").exists());
    // Written over what is there.
    checkpoint::save(&specimen.model, folder.path(), &more).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "old").unwrap();
    let failed =
        regard_nn::data::file::write_whole(&path, |_| Err(std::io::Error::other("the disk is full")));
    let error = failed.unwrap_err().to_string();
    assert!(error.ends_with("notes.txt: cannot be written: the disk is full"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing half done is left");
    assert!(regard_nn::data::file::write_whole(Path::new("/"), |_| Ok(())).is_err());
    assert!(
        regard_nn::data::file::write_whole(&folder.path().join("nowhere/notes.txt"), |_| Ok(())).is_err()
    );
}
