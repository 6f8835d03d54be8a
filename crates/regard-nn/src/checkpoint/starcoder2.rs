//! StarCoder 2: Llama with layer norms, biases and a plain feed-forward layer.

use super::family::{Family, Shapes};
use super::llama_like::{self, LLAMA, Like};
use super::names::Names;
use super::options::Options;
use crate::error::Result;
use crate::layers::{Activation, NormKind};
use crate::models::form::Form;
use serde_json::{Value, json};

pub(super) const STARCODER2: Family = Family {
    model_type: "starcoder2",
    architectures: &["Starcoder2ForCausalLM", "Starcoder2Model", "Starcoder2ForSequenceClassification"],
    prefix: "model.",
    read,
    names,
    write,
};

const LIKE: Like = Like {
    class: "Starcoder2",
    tied: true,
    norm: (NormKind::Layer, "norm_epsilon", 1e-5),
    activation: ("hidden_act", Activation::GeluNew),
    gated: false,
    n_kv_heads: Some(2),
    attention_bias: Some(("use_bias", true)),
    feed_forward_bias: None,
    ..LLAMA
};

fn names(form: &Form) -> Names {
    let own = [("layers.#.ffn.up", "@layers.#.mlp.c_fc"), ("layers.#.ffn.down", "@layers.#.mlp.c_proj")];
    llama_like::named(form, &own)
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = LIKE.read(options, shapes)?;
    options.only("mlp_type", "default")?;
    options.only("norm_type", "layer_norm")?;
    let window = options.size_or_null("sliding_window", None)?.map(llama_like::window);
    llama_like::change(&mut form, |layer| {
        layer.feed_forward.bias = layer.attention.bias.query;
        layer.attention.window = window;
    });
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let mut config = LIKE.write(form)?;
    config["sliding_window"] = json!(llama_like::window_of(form));
    Some(config)
}
