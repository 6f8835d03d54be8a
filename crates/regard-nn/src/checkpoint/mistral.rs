//! Mistral (Jiang et al., 2023): Llama with a window over the last tokens; Mixtral (Jiang et al., 2024): with experts.

use super::family::{Family, Shapes};
use super::llama_like::{self, LLAMA, Like};
use super::names::Names;
use super::options::Options;
use crate::error::Result;
use crate::layers::MixtureConfig;
use crate::models::form::Form;
use serde_json::{Value, json};

pub(super) const MISTRAL: Family = Family {
    model_type: "mistral",
    architectures: &["MistralForCausalLM", "MistralModel", "MistralForSequenceClassification"],
    prefix: "model.",
    read,
    names: llama_like::names,
    write,
};

pub(super) const MIXTRAL: Family = Family {
    model_type: "mixtral",
    architectures: &["MixtralForCausalLM", "MixtralModel", "MixtralForSequenceClassification"],
    prefix: "model.",
    read: read_mixtral,
    names: mixtral_names,
    write: write_mixtral,
};

const LIKE: Like =
    Like { class: "Mistral", n_kv_heads: Some(8), attention_bias: None, feed_forward_bias: None, ..LLAMA };

const LIKE_MIXTRAL: Like =
    Like { class: "Mixtral", base: 1e6, norm: (LLAMA.norm.0, LLAMA.norm.1, 1e-5), ..LIKE };

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = LIKE.read(options, shapes)?;
    with_window(options, &mut form, Some(4096))?;
    Ok(form)
}

/// The same window in all layers.
fn with_window(options: &mut Options, form: &mut Form, default: Option<usize>) -> Result<()> {
    let window = options.size_or_null("sliding_window", default)?.map(llama_like::window);
    llama_like::change(form, |layer| layer.attention.window = window);
    Ok(())
}

fn write(form: &Form) -> Option<Value> {
    let mut config = LIKE.write(form)?;
    config["sliding_window"] = json!(llama_like::window_of(form));
    Some(config)
}

fn mixtral_names(form: &Form) -> Names {
    let experts = [
        ("layers.#.ffn.router", "@layers.#.block_sparse_moe.gate"),
        ("layers.#.ffn.experts.#.gate", "@layers.#.block_sparse_moe.experts.#.w1"),
        ("layers.#.ffn.experts.#.up", "@layers.#.block_sparse_moe.experts.#.w3"),
        ("layers.#.ffn.experts.#.down", "@layers.#.block_sparse_moe.experts.#.w2"),
    ];
    llama_like::named(form, &experts)
}

fn read_mixtral(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = LIKE_MIXTRAL.read(options, shapes)?;
    with_window(options, &mut form, None)?;
    let mixture = MixtureConfig {
        experts: options.optional_size("num_local_experts")?.unwrap_or(8),
        active: options.optional_size("num_experts_per_tok")?.unwrap_or(2),
        normalised: true,
        router_bias: false,
    };
    llama_like::change(&mut form, |layer| layer.feed_forward.mixture = Some(mixture));
    options.only("router_jitter_noise", 0.0)?;
    Ok(form)
}

fn write_mixtral(form: &Form) -> Option<Value> {
    let mut config = LIKE_MIXTRAL.write(form)?;
    let mixture = form.decoder.as_ref()?.layers.first()?.feed_forward.mixture?;
    config["sliding_window"] = json!(llama_like::window_of(form));
    config["num_local_experts"] = json!(mixture.experts);
    config["num_experts_per_tok"] = json!(mixture.active);
    Some(config)
}
