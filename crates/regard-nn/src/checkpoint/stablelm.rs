//! StableLM: Llama with layer norms and part of each head rotated; its larger models norm each head's queries and keys and
//! run both sublayers side by side.

use super::family::{Family, Shapes};
use super::llama_like::{self, LLAMA, Like};
use super::names::Names;
use super::options::Options;
use crate::attention::{Biases, QueryKeyNorm};
use crate::block::Placement;
use crate::error::Result;
use crate::layers::{NormConfig, NormKind};
use crate::models::form::Form;
use serde_json::{Value, json};

pub(super) const STABLELM: Family = Family {
    model_type: "stablelm",
    architectures: &["StableLmForCausalLM", "StableLmModel", "StableLmForSequenceClassification"],
    prefix: "model.",
    read,
    names,
    write,
};

const LIKE: Like = Like {
    class: "StableLm",
    partial: 0.25,
    norm: (NormKind::Layer, "layer_norm_eps", 1e-5),
    attention_bias: None,
    feed_forward_bias: None,
    ..LLAMA
};

/// Each head's norm is a tensor of its own.
fn names(form: &Form) -> Names {
    let own = [
        ("layers.#.attention.query_norm.weight", "@layers.#.self_attn.q_layernorm.norms.*.weight"),
        ("layers.#.attention.key_norm.weight", "@layers.#.self_attn.k_layernorm.norms.*.weight"),
    ];
    llama_like::named(form, &own)
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = LIKE.read(options, shapes)?;
    let bias = options.take_or("use_qkv_bias", false)?;
    let parallel = options.take_or("use_parallel_residual", false)?;
    let normed = options.take_or("qk_layernorm", false)?;
    llama_like::change(&mut form, |layer| {
        layer.attention.bias = Biases { output: false, ..Biases::all(bias) };
        let norm = NormConfig { kind: NormKind::LayerWithoutBias, ..layer.norm };
        layer.attention.query_key_norm = normed.then_some((QueryKeyNorm::EachHead, norm));
        layer.placement = if parallel { Placement::ParallelShared } else { Placement::Pre };
    });
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let mut config = LIKE.write(form)?;
    let layer = form.decoder.as_ref()?.layers.first()?;
    config["use_qkv_bias"] = json!(layer.attention.bias.query);
    config["use_parallel_residual"] = json!(layer.placement == Placement::ParallelShared);
    config["qk_layernorm"] = json!(layer.attention.query_key_norm.is_some());
    config.as_object_mut()?.remove("head_dim");
    Some(config)
}
