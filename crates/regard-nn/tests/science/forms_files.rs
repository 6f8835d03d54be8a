//! Which forms have a counterpart at Hugging Face, and that all others keep every setting in files of this program's own.

use crate::checkpoint_round_trip::check;
use crate::zoo::{self, stack};
use regard_nn::attention::{AttentionKind, Biases, Pattern, QueryKeyNorm, Scale};
use regard_nn::block::Placement;
use regard_nn::checkpoint;
use regard_nn::layers::{Activation, NormConfig};
use regard_nn::models::form::{AttentionPositions, Form, Input, Positions, Tokens, Window};
use regard_nn::models::{BertConfig, T5Config};
use regard_nn::position::RotaryConfig;
use serde_json::Value;

/// A form with something changed.
fn changed(mut form: Form, change: impl FnOnce(&mut Form)) -> Form {
    change(&mut form);
    form
}

/// Changes the rotary positions of a form.
fn rotate(form: &mut Form, rotary: RotaryConfig) {
    stack(form).layers[0].attention.positions = Some(AttentionPositions::Rotary(rotary));
}

/// Forms that differ from one of a family in a single respect that its configuration cannot express. Another family may.
fn strangers() -> Vec<(&'static str, Form)> {
    let (gpt, llama) = (zoo::gpt_config().form(), zoo::llama_config().form());
    let (bert, t5, vit) = (zoo::bert_config().form(), zoo::t5_config().form(), zoo::vit_config().form());
    let gpt = |change: &dyn Fn(&mut Form)| changed(gpt.clone(), change);
    let llama = |change: &dyn Fn(&mut Form)| changed(llama.clone(), change);
    let window = Some(Window { before: 3, after: 0 });
    let half = RotaryConfig { width: Some(2), ..RotaryConfig::default() };
    let neighbours = RotaryConfig { interleaved: true, ..RotaryConfig::default() };
    let rms = NormConfig::rms(1e-5);
    vec![
        ("sandwich", llama(&|form| stack(form).layers[0].placement = Placement::Sandwich)),
        ("output", llama(&|form| stack(form).layers[0].placement = Placement::Output)),
        ("parallel", gpt(&|form| stack(form).layers[0].placement = Placement::Parallel)),
        ("shared norm", gpt(&|form| stack(form).layers[0].placement = Placement::ParallelShared)),
        ("residual scale", gpt(&|form| stack(form).layers[0].residual_scale = 0.5)),
        ("soft cap", llama(&|form| stack(form).layers[0].attention.soft_cap = Some(30.0))),
        (
            "normed queries",
            llama(&|form| stack(form).layers[0].attention.query_key_norm = Some((QueryKeyNorm::Head, rms))),
        ),
        (
            "some biases",
            llama(&|form| {
                stack(form).layers[0].attention.bias = Biases { output: false, ..Biases::all(true) };
            }),
        ),
        ("some rotary", llama(&|form| rotate(form, half.clone()))),
        ("neighbours", llama(&|form| rotate(form, neighbours.clone()))),
        ("other scale", llama(&|form| stack(form).layers[0].attention.scale = Scale::Factor(0.2))),
        ("by layer", llama(&|form| stack(form).layers[0].attention.scale_by_layer = true)),
        ("window", gpt(&|form| stack(form).layers[0].attention.window = window)),
        ("pattern", gpt(&|form| stack(form).layers[0].attention.pattern = Some(Pattern::Strided(2)))),
        ("kind", llama(&|form| stack(form).layers[0].attention.kind = AttentionKind::LearnedSink)),
        ("alibi", gpt(&|form| stack(form).layers[0].attention.positions = Some(AttentionPositions::Alibi))),
        ("two forms", zoo::parallel()),
        ("shared", llama(&|form| stack(form).shared = true)),
        ("narrow", zoo::narrow()),
        ("embeddings scaled", llama(&|form| form.input = tokens(|tokens| tokens.scale = 4.0))),
        ("embeddings normed", llama(&|form| form.input = tokens(|tokens| tokens.norm = Some(rms)))),
        ("no last norm", llama(&|form| stack(form).norm = None)),
        ("scores scaled", llama(&|form| form.output.tokens.as_mut().unwrap().scale = 0.1)),
        ("scores with biases", llama(&|form| form.output.tokens.as_mut().unwrap().bias = true)),
        ("plain feed-forward", llama(&|form| stack(form).layers[0].feed_forward.gated = false)),
        ("other norms", gpt(&|form| stack(form).norm = Some(rms))),
        (
            "sines",
            changed(bert.clone(), |form| {
                stack(form).positions = Positions::Sinusoidal { scale: 1.0, halves: false }
            }),
        ),
        ("pre-norm", changed(bert, |form| stack(form).layers[0].placement = Placement::Pre)),
        (
            "a decoder of another width",
            changed(t5, |form| form.decoder.as_mut().unwrap().layers[0].feed_forward.d_hidden = 10),
        ),
        ("pooled patches", zoo::with_heads(vit, None, Some(Activation::Tanh), Some(3))),
    ]
}

fn tokens(change: impl FnOnce(&mut Tokens)) -> Input {
    let mut tokens = Tokens::new(zoo::VOCABULARY);
    change(&mut tokens);
    Input::Tokens(tokens)
}

#[test]
fn forms_with_and_without_a_counterpart_keep_everything() {
    for (name, form) in strangers() {
        let mut model = zoo::transformer(form.clone());
        zoo::widen(&mut *model);
        let config = check(name, model);
        if checkpoint::families().any(|family| config["model_type"] == family) {
            continue;
        }
        assert_eq!(config["model_type"], "regard-transformer", "{name}");
        // The whole form, its family included.
        let written: Form = serde_json::from_value(config["regard"].clone()).unwrap();
        assert_eq!(written, form, "{name}");
    }
}

#[test]
fn what_a_family_can_say_is_said_in_its_words() {
    let relu = T5Config { gated: true, ..zoo::t5_config() };
    let no_types = BertConfig { n_types: 0, ..zoo::bert_config() };
    for (kind, form) in [
        ("gpt2", zoo::gpt_config().form()),
        ("gpt2", changed(zoo::gpt_config().form(), |form| form.family = "anything".to_owned())),
        (
            "gpt2",
            changed(zoo::gpt_config().form(), |form| {
                stack(form).layers[0].attention.scale_by_layer = true;
            }),
        ),
        ("llama", zoo::llama_config().form()),
        ("llama", changed(zoo::llama_config().form(), |form| form.output.tokens = None)),
        ("bert", zoo::bert_config().form()),
        ("roberta", zoo::shifted(&zoo::bert_config(), 4)),
        ("distilbert", no_types.form()),
        ("t5", relu.form()),
        ("vit", zoo::vit_config().form()),
    ] {
        let parts = checkpoint::to_parts(&*zoo::transformer(form)).unwrap();
        assert_eq!(parts.config["model_type"], kind);
        assert!(parts.config.get("regard").is_none(), "{kind}");
        assert!(parts.config["architectures"][0].is_string(), "{kind}");
    }
}

/// What only training knows comes back as far as a configuration has a place for it.
#[test]
fn a_family_is_kept_when_training_is_set_otherwise() {
    let mut form = zoo::t5_config().form();
    (form.output.smoothing, form.checkpointing, form.dropout.residual) = (0.1, true, 0.25);
    let parts = checkpoint::to_parts(&*zoo::transformer(form)).unwrap();
    assert_eq!(parts.config["model_type"], "t5");
    assert_eq!(parts.config["dropout_rate"], Value::from(0.25));
}

/// A model that was read from a family's files is written as that family again.
#[test]
fn families_are_remembered() {
    for kind in checkpoint::families() {
        let form = match kind {
            "gpt2" => zoo::gpt_config().form(),
            "bert" => zoo::bert_config().form(),
            "roberta" => zoo::shifted(&BertConfig { n_types: 1, ..zoo::bert_config() }, 2),
            "distilbert" => BertConfig { n_types: 0, ..zoo::bert_config() }.form(),
            "t5" => zoo::t5_config().form(),
            "llama" => zoo::llama_config().form(),
            "vit" => zoo::vit_config().form(),
            // Their golden files are read and written by the tests of golden models.
            _ => continue,
        };
        let folder = tempfile::tempdir().unwrap();
        checkpoint::save(&*zoo::transformer(form), folder.path(), &serde_json::Map::new()).unwrap();
        let loaded = checkpoint::load(folder.path()).unwrap();
        assert_eq!((loaded.model.kind(), &loaded.config["model_type"]), (kind, &Value::from(kind)));
        assert_eq!(checkpoint::to_parts(&*loaded.model).unwrap().config["model_type"], kind);
    }
}
