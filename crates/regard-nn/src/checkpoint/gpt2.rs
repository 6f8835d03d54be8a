//! GPT-2's configuration and names.

use super::names::Names;
use super::options::Options;
use super::{Plan, StoredWeights};
use crate::attention::AttentionKind;
use crate::block::NormPlacement;
use crate::error::Result;
use crate::models::{Gpt, GptConfig, Model};
use crate::position::Position;
use serde_json::{Map, Value, json};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@wte"),
    ("positions.table", "@wpe"),
    ("layers.#.attention_norm", "@h.#.ln_1"),
    ("layers.#.attention.project", "@h.#.attn.c_attn"),
    ("layers.#.attention.output", "@h.#.attn.c_proj"),
    ("layers.#.ffn_norm", "@h.#.ln_2"),
    ("layers.#.ffn.up", "@h.#.mlp.c_fc"),
    ("layers.#.ffn.down", "@h.#.mlp.c_proj"),
    ("norm", "@ln_f"),
    ("head", "lm_head"),
];

const PREFIX: &str = "transformer.";

fn names(prefix: &'static str, tied: bool) -> Names {
    let names = Names::new(PAIRS, prefix, &["@h.#.attn.bias", "@h.#.attn.masked_bias"]);
    if tied { names.with_copies(&[("lm_head.weight", "tokens.weight")]) } else { names }
}

pub(super) fn plan(mut options: Options, weights: &StoredWeights) -> Result<Plan> {
    let tied = options.take_or("tie_word_embeddings", true)?;
    let config = GptConfig {
        vocabulary: options.size("vocab_size")?,
        context: options.size("n_positions")?,
        n_layers: options.size("n_layer")?,
        n_heads: options.size("n_head")?,
        d_model: options.size("n_embd")?,
        d_hidden: options.optional_size("n_inner")?,
        dropout: options.real("resid_pdrop", 0.1)?,
        norm_epsilon: options.real("layer_norm_epsilon", 1e-5)?,
        deviation: options.real("initializer_range", 0.02)?,
        activation: options.take_or("activation_function", GptConfig::default().activation)?,
        scaled: options.take_or("scale_attn_weights", true)?,
        scale_by_layer: options.take_or("scale_attn_by_inverse_layer_idx", false)?,
        tied,
        ..GptConfig::default()
    };
    // What is drawn on top of the model for other tasks is not part of it.
    for key in ["type", "use_proj", "activation", "proj_to_labels", "first_dropout"] {
        options.take::<Value>(&format!("summary_{key}"))?;
    }
    options.only("add_cross_attention", false)?;
    options.finish()?;
    let prefix = if weights.any_starts_with(PREFIX) { PREFIX } else { "" };
    Ok(Plan {
        names: names(prefix, tied),
        build: Box::new(move |initial| Ok(Model::Gpt(Gpt::build(config.clone(), initial)?))),
    })
}

/// Whether a GPT is one that Hugging Face's GPT-2 can be.
pub(super) fn writes(config: &GptConfig) -> bool {
    config.positions == Position::Learned
        && config.norm == NormPlacement::Pre
        && config.attention == AttentionKind::Softmax
        && config.window.is_none()
}

pub(super) fn written(config: &GptConfig) -> (Map<String, Value>, Names) {
    let value = json!({
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": config.vocabulary,
        "n_positions": config.context,
        "n_layer": config.n_layers,
        "n_head": config.n_heads,
        "n_embd": config.d_model,
        "n_inner": config.d_hidden,
        "activation_function": config.activation,
        "layer_norm_epsilon": config.norm_epsilon,
        "initializer_range": config.deviation,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.dropout,
        "scale_attn_weights": config.scaled,
        "scale_attn_by_inverse_layer_idx": config.scale_by_layer,
        "tie_word_embeddings": config.tied,
        "torch_dtype": "float32",
    });
    (super::options::object(value), names(PREFIX, config.tied))
}
