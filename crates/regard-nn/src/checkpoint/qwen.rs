//! Qwen 2 (biases of queries, keys and values), Qwen 3 (norms of queries and keys) and its mixture of experts.

use super::family::{Family, Shapes};
use super::llama_like::{self, LLAMA, Like};
use super::names::Names;
use super::options::Options;
use crate::attention::{Biases, QueryKeyNorm};
use crate::error::Result;
use crate::layers::MixtureConfig;
use crate::models::form::Form;
use serde_json::{Value, json};

pub(super) const QWEN2: Family = Family {
    model_type: "qwen2",
    architectures: &["Qwen2ForCausalLM", "Qwen2Model", "Qwen2ForSequenceClassification"],
    prefix: "model.",
    read: read_qwen2,
    names: llama_like::names,
    write: |form| write(form, &LIKE_2),
};

pub(super) const QWEN3: Family = Family {
    model_type: "qwen3",
    architectures: &["Qwen3ForCausalLM", "Qwen3Model", "Qwen3ForSequenceClassification"],
    prefix: "model.",
    read: read_qwen3,
    names: llama_like::names,
    write: |form| write(form, &LIKE_3),
};

pub(super) const QWEN3_MOE: Family = Family {
    model_type: "qwen3_moe",
    architectures: &["Qwen3MoeForCausalLM", "Qwen3MoeModel", "Qwen3MoeForSequenceClassification"],
    prefix: "model.",
    read: read_mixture,
    names: mixture_names,
    write: write_mixture,
};

const LIKE_2: Like =
    Like { class: "Qwen2", n_kv_heads: Some(32), attention_bias: None, feed_forward_bias: None, ..LLAMA };
const LIKE_3: Like =
    Like { class: "Qwen3", d_head: Some(128), attention_bias: LLAMA.attention_bias, ..LIKE_2 };
const LIKE_MIXTURE: Like = Like { class: "Qwen3Moe", n_kv_heads: Some(4), d_head: None, ..LIKE_3 };

fn read_qwen2(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = LIKE_2.read(options, shapes)?;
    llama_like::change(&mut form, |layer| {
        layer.attention.bias = Biases { output: false, ..Biases::all(true) };
    });
    windows(options, &mut form)?;
    Ok(form)
}

fn read_qwen3(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = LIKE_3.read(options, shapes)?;
    norm_queries(&mut form);
    windows(options, &mut form)?;
    Ok(form)
}

fn norm_queries(form: &mut Form) {
    llama_like::change(form, |layer| {
        layer.attention.query_key_norm = Some((QueryKeyNorm::Head, layer.norm));
    });
}

/// Layers from `max_window_layers` on may have a window.
fn windows(options: &mut Options, form: &mut Form) -> Result<()> {
    let used = options.take_or("use_sliding_window", false)?;
    let size = options.size_or_null("sliding_window", Some(4096))?.filter(|_| used);
    let first = options.take::<usize>("max_window_layers")?.unwrap_or(28);
    let sliding = llama_like::sliding_layers(options, form, |i| size.is_some() && i >= first)?;
    llama_like::vary(form, |i, layer| {
        layer.attention.window = size.filter(|_| sliding[i]).map(llama_like::window);
    })
}

fn write(form: &Form, like: &Like) -> Option<Value> {
    let mut config = like.write(form)?;
    config["use_sliding_window"] = json!(llama_like::window_of(form).is_some());
    config["sliding_window"] = json!(llama_like::window_of(form));
    config["layer_types"] = json!(llama_like::layer_types(form)?);
    Some(config)
}

fn mixture_names(form: &Form) -> Names {
    let experts = [
        ("layers.#.ffn.router", "@layers.#.mlp.gate"),
        ("layers.#.ffn.experts.#.gate", "@layers.#.mlp.experts.#.gate_proj"),
        ("layers.#.ffn.experts.#.up", "@layers.#.mlp.experts.#.up_proj"),
        ("layers.#.ffn.experts.#.down", "@layers.#.mlp.experts.#.down_proj"),
    ];
    llama_like::named(form, &experts)
}

/// Of the layers, every `decoder_sparse_step`-th has experts, but for those in `mlp_only_layers`.
fn read_mixture(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = LIKE_MIXTURE.read(options, shapes)?;
    norm_queries(&mut form);
    let used = options.take_or("use_sliding_window", false)?;
    let window = options.size_or_null("sliding_window", Some(4096))?.filter(|_| used);
    options.take::<Value>("max_window_layers")?;
    // It has two names; newer files have the second alone.
    let (older, newer) = (options.optional_size("num_experts")?, options.optional_size("num_local_experts")?);
    let mixture = MixtureConfig {
        experts: newer.or(older).unwrap_or(128),
        active: options.optional_size("num_experts_per_tok")?.unwrap_or(8),
        normalised: options.take_or("norm_topk_prob", false)?,
        router_bias: false,
    };
    let d_hidden = options.optional_size("moe_intermediate_size")?.unwrap_or(768);
    let step = options.optional_size("decoder_sparse_step")?.unwrap_or(1);
    let plain: Vec<usize> = options.take_or("mlp_only_layers", Vec::new())?;
    llama_like::vary(&mut form, |i, layer| {
        layer.attention.window = window.map(llama_like::window);
        if (i + 1).is_multiple_of(step) && !plain.contains(&i) {
            layer.feed_forward.mixture = Some(mixture);
            layer.feed_forward.d_hidden = d_hidden;
        }
    })?;
    Ok(form)
}

fn write_mixture(form: &Form) -> Option<Value> {
    let mut config = LIKE_MIXTURE.write(form)?;
    let stack = form.decoder.as_ref()?;
    let sparse =
        stack.layers.iter().find_map(|layer| Some((layer.feed_forward, layer.feed_forward.mixture?)));
    let plain = stack.layers.iter().find(|layer| layer.feed_forward.mixture.is_none());
    let (experts, mixture) = sparse?;
    let is_plain = |i: &usize| stack.layer(*i).feed_forward.mixture.is_none();
    let without: Vec<usize> =
        llama_like::layer_types(form).map(|all| (0..all.len()).filter(is_plain).collect())?;
    config["use_sliding_window"] = json!(llama_like::window_of(form).is_some());
    config["sliding_window"] = json!(llama_like::window_of(form));
    config["num_experts"] = json!(mixture.experts);
    config["num_experts_per_tok"] = json!(mixture.active);
    config["norm_topk_prob"] = json!(mixture.normalised);
    config["moe_intermediate_size"] = json!(experts.d_hidden);
    config["intermediate_size"] = json!(plain.map_or(experts.d_hidden, |layer| layer.feed_forward.d_hidden));
    config["decoder_sparse_step"] = json!(1);
    config["mlp_only_layers"] = json!(without);
    Some(config)
}
