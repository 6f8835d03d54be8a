//! gpt-oss: experts with a clamped gate, attention sinks, windows in every other layer.

use super::family::{Family, Shapes};
use super::llama_like::{self, LLAMA, Like};
use super::names::Names;
use super::options::Options;
use super::part::{Kept, Part};
use crate::attention::AttentionKind;
use crate::error::Result;
use crate::layers::{Activation, MixtureConfig, NormKind};
use crate::models::form::Form;
use serde_json::{Value, json};

pub(super) const GPT_OSS: Family = Family {
    model_type: "gpt_oss",
    architectures: &["GptOssForCausalLM", "GptOssModel", "GptOssForSequenceClassification"],
    prefix: "model.",
    read,
    names,
    write,
};

const LIKE: Like = Like {
    class: "GptOss",
    base: 150_000.0,
    norm: (NormKind::RootMeanSquare, "rms_norm_eps", 1e-5),
    d_head: Some(64),
    n_kv_heads: Some(8),
    attention_bias: Some(("attention_bias", true)),
    feed_forward_bias: None,
    ..LLAMA
};

fn names(form: &Form) -> Names {
    let own = [
        ("layers.#.ffn.router", "@layers.#.mlp.router"),
        ("layers.#.ffn.experts.#.gate.weight", "@layers.#.mlp.experts.gate_up_proj"),
        ("layers.#.ffn.experts.#.up.weight", "@layers.#.mlp.experts.gate_up_proj"),
        ("layers.#.ffn.experts.#.down.weight", "@layers.#.mlp.experts.down_proj"),
        ("layers.#.ffn.experts.#.gate.bias", "@layers.#.mlp.experts.gate_up_proj_bias"),
        ("layers.#.ffn.experts.#.up.bias", "@layers.#.mlp.experts.gate_up_proj_bias"),
        ("layers.#.ffn.experts.#.down.bias", "@layers.#.mlp.experts.down_proj_bias"),
    ];
    llama_like::named(form, &own).with_parts(parts(form))
}

/// All experts of a layer are one tensor, in which the columns of the gate and of what it gates take turns.
fn parts(form: &Form) -> Vec<(&'static str, Part)> {
    let feed_forward =
        form.decoder.as_ref().and_then(|stack| stack.layers.first()).map(|layer| layer.feed_forward);
    let Some((feed_forward, mixture)) = feed_forward.and_then(|ffn| Some((ffn, ffn.mixture?))) else {
        return Vec::new();
    };
    let (experts, hidden, width) = (mixture.experts, feed_forward.d_hidden, form.d_model);
    let expert = (experts, Kept::Number(1));
    let turn = |which: usize| (2, Kept::Some(which..which + 1));
    let weight = |which: usize| Part {
        shape: vec![experts, width, hidden.saturating_mul(2)],
        axes: vec![expert.clone(), (width, Kept::All), (hidden, Kept::All), turn(which)],
    };
    let bias = |which: usize| Part {
        shape: vec![experts, hidden.saturating_mul(2)],
        axes: vec![expert.clone(), (hidden, Kept::All), turn(which)],
    };
    let down = Part {
        shape: vec![experts, hidden, width],
        axes: vec![expert.clone(), (hidden, Kept::All), (width, Kept::All)],
    };
    let down_bias = Part { shape: vec![experts, width], axes: vec![expert.clone(), (width, Kept::All)] };
    vec![
        ("layers.#.ffn.experts.#.gate.weight", weight(0)),
        ("layers.#.ffn.experts.#.up.weight", weight(1)),
        ("layers.#.ffn.experts.#.down.weight", down),
        ("layers.#.ffn.experts.#.gate.bias", bias(0)),
        ("layers.#.ffn.experts.#.up.bias", bias(1)),
        ("layers.#.ffn.experts.#.down.bias", down_bias),
    ]
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    options.default_to("rope_parameters", "rope_scaling", usual_positions());
    let mut form = LIKE.read(options, shapes)?;
    let mixture = MixtureConfig {
        experts: options.optional_size("num_local_experts")?.unwrap_or(128),
        active: options.optional_size("num_experts_per_tok")?.unwrap_or(4),
        normalised: true,
        router_bias: true,
    };
    // The function in experts is fixed, whatever hidden_act says.
    options.only("swiglu_alpha", 1.702)?;
    options.take::<Value>("experts_per_token")?;
    options.take::<Value>("initial_context_length")?;
    let clamp = options.real("swiglu_limit", 7.0)?;
    let size = options.size_or_null("sliding_window", Some(128))?;
    let sliding = llama_like::sliding_layers(options, &form, |i| i.is_multiple_of(2))?;
    llama_like::vary(&mut form, |i, layer| {
        layer.attention.kind = AttentionKind::LearnedSink;
        layer.attention.window = size.filter(|_| sliding[i]).map(llama_like::window);
        let feed_forward = &mut layer.feed_forward;
        (feed_forward.activation, feed_forward.clamp) = (Activation::QuickGelu, Some(clamp));
        (feed_forward.bias, feed_forward.transposed) = (true, true);
        feed_forward.mixture = Some(mixture);
    })?;
    Ok(form)
}

/// YaRN from 4,096 tokens to 32 times as many.
fn usual_positions() -> Value {
    json!({
        "rope_type": "yarn",
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": false,
        "original_max_position_embeddings": 4096,
    })
}

fn write(form: &Form) -> Option<Value> {
    let mut config = LIKE.write(form)?;
    let feed_forward = form.decoder.as_ref()?.layers.first()?.feed_forward;
    let mixture = feed_forward.mixture?;
    config["hidden_act"] = json!("silu");
    config["num_local_experts"] = json!(mixture.experts);
    config["num_experts_per_tok"] = json!(mixture.active);
    config["swiglu_limit"] = json!(feed_forward.clamp?);
    config["sliding_window"] = json!(llama_like::window_of(form).unwrap_or(128));
    config["layer_types"] = json!(llama_like::layer_types(form)?);
    Some(config)
}
