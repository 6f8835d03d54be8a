//! Llama's configuration and names.

use super::names::Names;
use super::options::{Options, object};
use super::{Plan, StoredWeights};
use crate::error::{Error, Result};
use crate::models::{Llama, LlamaConfig, Model};
use crate::position::RotaryScaling;
use serde_json::{Map, Value, json};

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

const PREFIX: &str = "model.";

fn names(prefix: &'static str, tied: bool) -> Names {
    let ignored = ["@layers.#.self_attn.rotary_emb.inv_freq", "@rotary_emb.inv_freq"];
    let names = Names::new(PAIRS, prefix, &ignored);
    if tied { names.with_copies(&[("lm_head.weight", "tokens.weight")]) } else { names }
}

pub(super) fn plan(mut options: Options, weights: &StoredWeights) -> Result<Plan> {
    let (rotary_base, rotary_scaling) = rotary(&mut options)?;
    let n_heads = options.size("num_attention_heads")?;
    let tied = options.take_or("tie_word_embeddings", false)?;
    let defaults = LlamaConfig::default();
    let d_model = options.size("hidden_size")?;
    // The usual width of a head goes without saying.
    let d_head =
        options.optional_size("head_dim")?.filter(|&width| Some(width) != d_model.checked_div(n_heads));
    let config = LlamaConfig {
        vocabulary: options.size("vocab_size")?,
        context: options.size("max_position_embeddings")?,
        n_layers: options.size("num_hidden_layers")?,
        n_heads,
        n_kv_heads: options.optional_size("num_key_value_heads")?.unwrap_or(n_heads),
        d_model,
        d_head,
        d_hidden: options.size("intermediate_size")?,
        activation: options.take_or("hidden_act", defaults.activation)?,
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
    options.finish()?;
    let prefix = if weights.any_starts_with(PREFIX) { PREFIX } else { "" };
    Ok(Plan {
        names: names(prefix, tied),
        build: Box::new(move |initial| Ok(Model::Llama(Llama::build(config.clone(), initial)?))),
    })
}

/// The base of the frequencies and their scaling, from the new form (`rope_parameters`) or the old (`rope_theta`,
/// `rope_scaling`).
fn rotary(options: &mut Options) -> Result<(f32, RotaryScaling)> {
    let theta = options.take::<f32>("rope_theta")?;
    let old = options.take::<Map<String, Value>>("rope_scaling")?;
    let new = options.take::<Map<String, Value>>("rope_parameters")?;
    if old.as_ref().is_some_and(|old| new.as_ref().is_some_and(|new| new != old)) {
        return Err(Error::checkpoint("config.json has both rope_scaling and rope_parameters: remove one"));
    }
    let Some(parameters) = new.or(old) else {
        return Ok((theta.unwrap_or(10_000.0), RotaryScaling::None));
    };
    let mut parameters = Options::new(parameters);
    let base = parameters.take::<f32>("rope_theta")?.or(theta).unwrap_or(10_000.0);
    let kind: Option<String> = parameters.take("rope_type")?;
    let older: Option<String> = parameters.take("type")?;
    let scaling = match kind.or(older).as_deref() {
        None | Some("default") => RotaryScaling::None,
        Some("linear") => RotaryScaling::Linear { factor: parameters.needed("factor")? },
        Some("llama3") => RotaryScaling::Llama3 {
            factor: parameters.needed("factor")?,
            low: parameters.needed("low_freq_factor")?,
            high: parameters.needed("high_freq_factor")?,
            original: parameters.size("original_max_position_embeddings")?,
        },
        Some(other) => {
            return Err(Error::checkpoint(format!(
                "config.json: rotary scaling {other:?} is not implemented; default, linear and llama3 are"
            )));
        }
    };
    parameters.only("partial_rotary_factor", 1.0)?;
    parameters.finish()?;
    if !(base > 0.0 && base.is_finite()) {
        return Err(Error::checkpoint(format!("config.json: rope_theta is {base}")));
    }
    Ok((base, scaling))
}

pub(super) fn written(config: &LlamaConfig) -> (Map<String, Value>, Names) {
    let mut rope = match config.rotary_scaling {
        RotaryScaling::None => json!({"rope_type": "default"}),
        RotaryScaling::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
        RotaryScaling::Llama3 { factor, low, high, original } => json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": original,
        }),
    };
    rope["rope_theta"] = json!(config.rotary_base);
    let value = json!({
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.context,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads,
        "hidden_size": config.d_model,
        "head_dim": config.d_head.or(config.d_model.checked_div(config.n_heads)),
        "intermediate_size": config.d_hidden,
        "hidden_act": config.activation,
        "rope_parameters": rope,
        "rope_theta": config.rotary_base,
        "rms_norm_eps": config.norm_epsilon,
        "initializer_range": config.deviation,
        "tie_word_embeddings": config.tied,
        "attention_bias": config.attention_bias,
        "mlp_bias": config.ffn_bias,
        "attention_dropout": config.dropout,
        "torch_dtype": "float32",
    });
    (object(value), names(PREFIX, config.tied))
}
