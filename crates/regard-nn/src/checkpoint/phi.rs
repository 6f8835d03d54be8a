//! Phi (parallel blocks, part of each head rotated) and Phi-3 (Llama with fused projections).

use super::family::{Family, Shapes};
use super::llama_like::{self, LLAMA, Like};
use super::names::Names;
use super::options::Options;
use super::part::{Kept, Part};
use crate::attention::{Biases, QueryKeyNorm};
use crate::block::Placement;
use crate::error::Result;
use crate::layers::{Activation, NormKind};
use crate::models::form::Form;
use serde_json::{Value, json};

pub(super) const PHI: Family = Family {
    model_type: "phi",
    architectures: &["PhiForCausalLM", "PhiModel", "PhiForSequenceClassification"],
    prefix: "model.",
    read: read_phi,
    names: phi_names,
    write: write_phi,
};

pub(super) const PHI3: Family = Family {
    model_type: "phi3",
    architectures: &["Phi3ForCausalLM", "Phi3Model", "Phi3ForSequenceClassification"],
    prefix: "model.",
    read: read_phi3,
    names: phi3_names,
    write: write_phi3,
};

const LIKE: Like = Like {
    class: "Phi",
    partial: 0.5,
    norm: (NormKind::Layer, "layer_norm_eps", 1e-5),
    activation: ("hidden_act", Activation::GeluNew),
    gated: false,
    attention_bias: None,
    feed_forward_bias: None,
    placement: Placement::ParallelShared,
    ..LLAMA
};

const LIKE_3: Like = Like {
    class: "Phi3",
    norm: (NormKind::RootMeanSquare, "rms_norm_eps", 1e-5),
    attention_bias: None,
    feed_forward_bias: None,
    ..LLAMA
};

fn phi_names(form: &Form) -> Names {
    let own = [
        ("layers.#.attention.output", "@layers.#.self_attn.dense"),
        ("layers.#.attention.query_norm", "@layers.#.self_attn.q_layernorm"),
        ("layers.#.attention.key_norm", "@layers.#.self_attn.k_layernorm"),
        ("layers.#.ffn.up", "@layers.#.mlp.fc1"),
        ("layers.#.ffn.down", "@layers.#.mlp.fc2"),
        ("norm", "@final_layernorm"),
        ("token_head.bias", "lm_head.bias"),
    ];
    llama_like::named(form, &own)
}

fn read_phi(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = LIKE.read(options, shapes)?;
    let normed = options.take_or("qk_layernorm", false)?;
    llama_like::change(&mut form, |layer| {
        layer.attention.bias = Biases::all(true);
        layer.attention.query_key_norm = normed.then_some((QueryKeyNorm::Head, layer.norm));
        layer.feed_forward.bias = true;
    });
    if let Some(scores) = &mut form.output.tokens {
        scores.bias = true;
    }
    Ok(form)
}

fn write_phi(form: &Form) -> Option<Value> {
    let mut config = LIKE.write(form)?;
    let attention = &form.decoder.as_ref()?.layers.first()?.attention;
    config["qk_layernorm"] = json!(attention.query_key_norm.is_some());
    // It has no key of its own there: heads share the width.
    config.as_object_mut()?.remove("head_dim");
    Some(config)
}

/// The gate and what it gates are one tensor.
fn phi3_names(form: &Form) -> Names {
    let own = [
        ("layers.#.ffn.gate", "@layers.#.mlp.gate_up_proj"),
        ("layers.#.ffn.up", "@layers.#.mlp.gate_up_proj"),
    ];
    let d_hidden =
        form.decoder.as_ref().and_then(|stack| stack.layers.first()).map(|layer| layer.feed_forward.d_hidden);
    let (d_hidden, d_model) = (d_hidden.unwrap_or(0), form.d_model);
    let half = |which: usize| Part {
        shape: vec![d_hidden.saturating_mul(2), d_model],
        axes: vec![(2, Kept::Some(which..which + 1)), (d_hidden, Kept::All), (d_model, Kept::All)],
    };
    let parts = vec![("layers.#.ffn.gate.weight", half(0)), ("layers.#.ffn.up.weight", half(1))];
    llama_like::named(form, &own).with_parts(parts)
}

fn read_phi3(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = LIKE_3.read(options, shapes)?;
    let window = options.size_or_null("sliding_window", None)?.map(llama_like::window);
    llama_like::change(&mut form, |layer| {
        layer.attention.fused = true;
        layer.attention.window = window;
    });
    Ok(form)
}

fn write_phi3(form: &Form) -> Option<Value> {
    let mut config = LIKE_3.write(form)?;
    config["sliding_window"] = json!(llama_like::window_of(form));
    if let Some(original) = config["rope_parameters"].get("original_max_position_embeddings").cloned() {
        config["original_max_position_embeddings"] = original;
    }
    config["pad_token_id"] = Value::Null;
    Some(config)
}
