//! Llama's configuration and names.

use super::family::{Family, Shapes};
use super::names::Names;
use super::options::Options;
use super::rotary;
use crate::error::Result;
use crate::layers::Activation;
use crate::models::LlamaConfig;
use crate::models::form::{AttentionPositions, Form};
use serde_json::{Value, json};

pub(super) const LLAMA: Family = Family {
    model_type: "llama",
    architectures: &["LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel"],
    prefix: "model.",
    read,
    names,
    write,
};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@embed_tokens"),
    ("layers.#.attention_norm", "@layers.#.input_layernorm"),
    ("layers.#.attention.query", "@layers.#.self_attn.q_proj"),
    ("layers.#.attention.key", "@layers.#.self_attn.k_proj"),
    ("layers.#.attention.value", "@layers.#.self_attn.v_proj"),
    ("layers.#.attention.output", "@layers.#.self_attn.o_proj"),
    ("layers.#.ffn_norm", "@layers.#.post_attention_layernorm"),
    ("layers.#.ffn.gate", "@layers.#.mlp.gate_proj"),
    ("layers.#.ffn.up", "@layers.#.mlp.up_proj"),
    ("layers.#.ffn.down", "@layers.#.mlp.down_proj"),
    ("norm", "@norm"),
    ("head", "lm_head"),
];

fn names(form: &Form) -> Names {
    let names = Names::new(PAIRS, &["@layers.#.self_attn.rotary_emb.inv_freq", "@rotary_emb.inv_freq"]);
    let tied = form.output.tokens.is_some_and(|scores| scores.tied);
    if tied { names.with_copies(&[("lm_head.weight", "tokens.weight")]) } else { names }
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let (rotary_base, rotary_scaling) = rotary::read(options)?;
    let n_heads = options.size("num_attention_heads")?;
    let tied = options.take_or("tie_word_embeddings", false)?;
    let d_model = options.size("hidden_size")?;
    let config = LlamaConfig {
        vocabulary: options.size("vocab_size")?,
        context: options.size("max_position_embeddings")?,
        n_layers: options.size("num_hidden_layers")?,
        n_heads,
        n_kv_heads: options.optional_size("num_key_value_heads")?.unwrap_or(n_heads),
        d_model,
        d_head: options.optional_size("head_dim")?,
        d_hidden: options.size("intermediate_size")?,
        activation: options.take_or("hidden_act", Activation::Silu)?,
        rotary_base,
        rotary_scaling,
        norm_epsilon: options.real("rms_norm_eps", 1e-6)?,
        deviation: options.real("initializer_range", 0.02)?,
        tied,
        attention_bias: options.take_or("attention_bias", false)?,
        ffn_bias: options.take_or("mlp_bias", false)?,
        dropout: options.real("attention_dropout", 0.0)?,
        checkpointing: false,
    };
    // It only says how a sum is split over machines.
    options.take::<Value>("pretraining_tp")?;
    options.only("partial_rotary_factor", 1.0)?;
    let mut form = config.form();
    // A bare model (LlamaModel) scores nothing.
    if !tied && !shapes.contains("lm_head.weight") && shapes.contains("embed_tokens.weight") {
        form.output.tokens = None;
    }
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let stack = form.decoder.as_ref()?;
    let layer = stack.layers.first()?;
    let Some(AttentionPositions::Rotary(rotary)) = layer.attention.positions else { return None };
    let (attention, feed_forward) = (&layer.attention, &layer.feed_forward);
    Some(json!({
        "architectures": [if form.output.tokens.is_some() { "LlamaForCausalLM" } else { "LlamaModel" }],
        "vocab_size": form.vocabulary(),
        "max_position_embeddings": form.context?,
        "num_hidden_layers": stack.n_layers,
        "num_attention_heads": attention.n_heads,
        "num_key_value_heads": attention.n_kv_heads,
        "hidden_size": form.d_model,
        "head_dim": attention.d_head,
        "intermediate_size": feed_forward.d_hidden,
        "hidden_act": feed_forward.activation,
        "rope_parameters": rotary::write(&rotary),
        "rope_theta": rotary.base,
        "rms_norm_eps": layer.norm.epsilon,
        "initializer_range": form.deviations.inner,
        "tie_word_embeddings": form.output.tokens.is_some_and(|scores| scores.tied),
        "attention_bias": attention.bias.query,
        "mlp_bias": feed_forward.bias,
        "attention_dropout": form.dropout.attention,
        "bos_token_id": null,
        "eos_token_id": null,
    }))
}
