//! GPT-NeoX (Black et al., 2022), and with it Pythia: parallel sublayers, each with a norm of its own.

use super::family::{Family, Shapes};
use super::llama_like::{self, LLAMA, Like};
use super::names::Names;
use super::options::Options;
use super::part::side_by_side;
use crate::block::Placement;
use crate::error::Result;
use crate::layers::{Activation, NormKind};
use crate::models::form::Form;
use serde_json::{Value, json};

pub(super) const GPT_NEOX: Family = Family {
    model_type: "gpt_neox",
    architectures: &["GPTNeoXForCausalLM", "GPTNeoXModel", "GPTNeoXForSequenceClassification"],
    prefix: "gpt_neox.",
    read,
    names,
    write,
};

const LIKE: Like = Like {
    class: "GPTNeoX",
    prefix: "gpt_neox.",
    partial: 0.25,
    norm: (NormKind::Layer, "layer_norm_eps", 1e-5),
    activation: ("hidden_act", Activation::Gelu),
    gated: false,
    attention_bias: Some(("attention_bias", true)),
    feed_forward_bias: None,
    placement: Placement::Parallel,
    ..LLAMA
};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@embed_in"),
    ("layers.#.attention_norm", "@layers.#.input_layernorm"),
    ("layers.#.attention.query", "@layers.#.attention.query_key_value"),
    ("layers.#.attention.key", "@layers.#.attention.query_key_value"),
    ("layers.#.attention.value", "@layers.#.attention.query_key_value"),
    ("layers.#.attention.output", "@layers.#.attention.dense"),
    ("layers.#.ffn_norm", "@layers.#.post_attention_layernorm"),
    ("layers.#.ffn.up", "@layers.#.mlp.dense_h_to_4h"),
    ("layers.#.ffn.down", "@layers.#.mlp.dense_4h_to_h"),
    ("norm", "@final_layer_norm"),
    ("head", "embed_out"),
    ("classifier", "score"),
];

fn names(form: &Form) -> Names {
    let ignored = [
        "@layers.#.attention.bias",
        "@layers.#.attention.masked_bias",
        "@layers.#.attention.rotary_emb.inv_freq",
    ];
    let names = Names::new(PAIRS, &ignored).with_parts(side_by_side(form));
    match form.output.tokens.is_some_and(|scores| scores.tied) {
        true => names.with_copies(&[("embed_out.weight", "tokens.weight")]),
        false => names,
    }
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    // The names of older files.
    options.rename("rotary_emb_base", "rope_theta");
    options.rename("rotary_pct", "partial_rotary_factor");
    let mut form = LIKE.read(options, shapes)?;
    let parallel = options.take_or("use_parallel_residual", true)?;
    llama_like::change(&mut form, |layer| {
        layer.placement = if parallel { Placement::Parallel } else { Placement::Pre };
        layer.feed_forward.bias = true;
    });
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let mut config = LIKE.write(form)?;
    let layer = form.decoder.as_ref()?.layers.first()?;
    config["use_parallel_residual"] = json!(layer.placement == Placement::Parallel);
    for key in ["head_dim", "num_key_value_heads", "rope_theta"] {
        config.as_object_mut()?.remove(key);
    }
    // It takes this share for a quarter where it is not named.
    if config["rope_parameters"].get("partial_rotary_factor").is_none() {
        config["rope_parameters"]["partial_rotary_factor"] = json!(1.0);
    }
    Some(config)
}
