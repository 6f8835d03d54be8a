//! What is written is read back: the same configuration, the same bits.

use crate::numbers::same_bits;
use crate::zoo::{self, Specimen};
use regard_nn::Context;
use regard_nn::attention::AttentionKind;
use regard_nn::checkpoint::{self, families};
use regard_nn::layers::{Activation, NormConfig};
use regard_nn::models::form::Form;
use regard_nn::models::{
    BertConfig, GptConfig, Inputs, LlamaConfig, Model, T5Config, Transformer, VitConfig,
};
use regard_nn::position::RotaryScaling;
use serde_json::{Map, Value, json};
use std::path::Path;

/// What a model was built from. The name of the family is that of the files it was read from.
fn config(model: &dyn Model) -> Value {
    let (_, mut value) = model.settings().unwrap();
    if let Value::Object(form) = &mut value {
        form.remove("family");
    }
    value
}

/// Saves a model, reads it again, and compares everything.
pub fn check(name: &str, model: Box<dyn Model>) -> Map<String, Value> {
    let folder = tempfile::tempdir().unwrap();
    checkpoint::save(&*model, folder.path(), &Map::new()).unwrap();
    let loaded = checkpoint::load(folder.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(config(&*loaded.model), config(&*model), "{name}");
    let (before, after) = (model.parameters(), loaded.model.parameters());
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
        zoo::widen(&mut *specimen.model);
        let config = check(specimen.name, specimen.model);
        let kind = config["model_type"].as_str().unwrap();
        assert!(
            families().any(|family| family == kind) || kind.starts_with("regard-"),
            "{}: {kind}",
            specimen.name
        );
    }
}

#[test]
fn the_deviation_of_initial_weights_is_what_was_asked_for_and_comes_back() {
    const DEVIATION: f32 = 0.3;
    let bert = BertConfig { deviation: DEVIATION, ..zoo::bert_config() };
    let models = [
        ("gpt2", GptConfig { deviation: DEVIATION, ..zoo::gpt_config() }.form()),
        ("llama", LlamaConfig { deviation: DEVIATION, ..zoo::llama_config() }.form()),
        ("vit", VitConfig { deviation: DEVIATION, ..zoo::vit_config() }.form()),
        ("bert", bert.form()),
        ("roberta", zoo::shifted(&BertConfig { n_types: 1, ..bert.clone() }, 2)),
        ("distilbert", BertConfig { n_types: 0, norm_epsilon: 1e-12, ..bert }.form()),
    ];
    for (kind, form) in models {
        let model = zoo::transformer(form);
        let all = model.parameters();
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
        ("gpt, relative, learned sink", "regard-transformer", "layers.1.attention.sink"),
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
        let written = checkpoint::to_parts(&*zoo::named(name)).unwrap();
        assert_eq!(written.config["model_type"], kind, "{name}");
        assert!(written.tensors.contains_key(tensor), "{name}: {:?}", written.tensors.keys());
    }
}

#[test]
fn forms_that_no_family_has_keep_all_their_settings() {
    let base = zoo::bert_config();
    let (tanh, relu) = (Some(Activation::Tanh), Activation::Relu);
    let words = base.form().output.tokens.unwrap();
    let words_by = |activation: Activation| {
        let norm = NormConfig::layer(base.norm_epsilon);
        Some(regard_nn::models::form::TokenScores { transform: Some((activation, norm)), ..words })
    };
    let classes = |form: Form| zoo::with_heads(form, Some(words), tanh, Some(3));
    let no_types = BertConfig { n_types: 0, ..base.clone() };
    let by_tanh = BertConfig { activation: Activation::Tanh, ..base.clone() };
    let linear = RotaryScaling::Linear { factor: 3.0 };
    let mut by_layer = GptConfig { d_hidden: Some(7), tied: false, ..zoo::gpt_config() }.form();
    by_layer.decoder.as_mut().unwrap().layers[0].attention.scale_by_layer = true;
    let all = vec![
        ("no types, another ε", BertConfig { norm_epsilon: 1e-5, ..no_types.clone() }.form()),
        ("no types, tanh", classes(no_types.form())),
        ("no types, shifted positions", zoo::shifted(&no_types, 2)),
        ("another function for words", zoo::with_heads(base.form(), words_by(relu), None, None)),
        ("another pooler", zoo::with_heads(base.form(), Some(words), Some(Activation::Silu), Some(3))),
        ("words and classes", classes(base.form())),
        ("roberta with classes", classes(zoo::shifted(&base, 3))),
        (
            "other functions",
            zoo::with_heads(zoo::shifted(&by_tanh, 1), words_by(Activation::Gelu), None, None),
        ),
        ("other functions throughout", zoo::shifted(&by_tanh, 1)),
        (
            "gated by the exact GELU",
            T5Config { gated: true, activation: Activation::Gelu, ..zoo::t5_config() }.form(),
        ),
        ("gated by ReLU", T5Config { gated: true, ..zoo::t5_config() }.form()),
        ("plain GELU", T5Config { activation: Activation::GeluNew, start: 3, ..zoo::t5_config() }.form()),
        ("tied, unscaled", T5Config { scale_output: false, ..zoo::t5_config() }.form()),
        ("untied, scaled", T5Config { tied: false, ..zoo::t5_config() }.form()),
        (
            "linear scaling",
            LlamaConfig { rotary_scaling: linear, d_head: Some(2), ..zoo::llama_config() }.form(),
        ),
        ("other base", LlamaConfig { rotary_base: 123.4, dropout: 0.3, ..zoo::llama_config() }.form()),
        (
            "sigmoid",
            GptConfig { attention: AttentionKind::Sigmoid, dropout: 0.1, ..zoo::gpt_config() }.form(),
        ),
        ("wide", by_layer),
        ("no bias", VitConfig { attention_bias: false, dropout: 0.2, ..zoo::vit_config() }.form()),
    ];
    for (name, form) in all {
        let mut model = zoo::transformer(form);
        zoo::widen(&mut *model);
        check(name, model);
    }
}

#[test]
fn a_vit_without_classes_keeps_its_vectors() {
    let config_of = VitConfig { classes: 0, image: [4, 4], ..zoo::vit_config() };
    let mut model = Transformer::new(config_of.form(), 1).unwrap();
    zoo::widen(&mut model);
    let folder = tempfile::tempdir().unwrap();
    checkpoint::save(&model, folder.path(), &Map::new()).unwrap();
    let loaded = checkpoint::load(folder.path()).unwrap().model;
    assert_eq!(config(&*loaded), config(&model));
    let images = Inputs::pictures(&crate::numbers::normal("images", [2, 2, 4, 4]));
    let [before, after] = [&model as &dyn Model, &*loaded].map(|model| {
        let hidden = model.hidden(&Context::inference(), &images).unwrap();
        assert!(model.scores(&Context::inference(), &hidden).is_err(), "there is no classifier");
        hidden
    });
    same_bits("vectors", &after, &before);
}

#[test]
fn more_can_be_said_in_the_configuration() {
    let specimen = &zoo::all()[0];
    let folder = tempfile::tempdir().unwrap();
    let more = json!({"eos_token_id": 7, "n_layer": 99, "id2label": {"0": "no"}});
    let Value::Object(more) = more else { panic!() };
    checkpoint::save(&*specimen.model, folder.path(), &more).unwrap();
    let loaded = checkpoint::load(folder.path()).unwrap();
    assert_eq!((&loaded.config["eos_token_id"], &loaded.config["n_layer"]), (&json!(7), &json!(2)));
    assert!(!folder.path().join("model.safetensors.writing").exists());
    // Written over what is there.
    checkpoint::save(&*specimen.model, folder.path(), &more).unwrap();
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
