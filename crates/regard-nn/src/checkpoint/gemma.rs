//! Gemma 1 to 3: norms around 1, embeddings times √width; Gemma 2 adds soft caps, alternating windows and norms on both sides
//! of each sublayer, Gemma 3 norms of queries and keys and two bases of rotary frequencies in place of the caps.

use super::family::{Family, Shapes};
use super::llama_like::{self, LLAMA, Like};
use super::options::Options;
use super::rotary;
use crate::attention::{QueryKeyNorm, Scale};
use crate::block::Placement;
use crate::error::Result;
use crate::layers::{Activation, NormKind};
use crate::models::form::{AttentionPositions, Form, Input};
use serde_json::{Map, Value, json};

pub(super) const GEMMA: Family = Family {
    model_type: "gemma",
    architectures: &["GemmaForCausalLM", "GemmaModel", "GemmaForSequenceClassification"],
    prefix: "model.",
    read: read_gemma,
    names: llama_like::names,
    write: |form| LIKE.write(form),
};

pub(super) const GEMMA2: Family = Family {
    model_type: "gemma2",
    architectures: &["Gemma2ForCausalLM", "Gemma2Model", "Gemma2ForSequenceClassification"],
    prefix: "model.",
    read: read_gemma2,
    names: llama_like::names,
    write: |form| write(form, &LIKE_2),
};

pub(super) const GEMMA3: Family = Family {
    model_type: "gemma3_text",
    architectures: &["Gemma3ForCausalLM", "Gemma3TextModel"],
    prefix: "model.",
    read: read_gemma3,
    names: llama_like::names,
    write: write_gemma3,
};

const LIKE: Like = Like {
    class: "Gemma",
    tied: true,
    norm: (NormKind::RootMeanSquareAroundOne, "rms_norm_eps", 1e-6),
    activation: ("hidden_act", Activation::GeluNew),
    d_head: Some(256),
    feed_forward_bias: None,
    ..LLAMA
};
const LIKE_2: Like = Like {
    class: "Gemma2",
    activation: ("hidden_activation", Activation::GeluNew),
    placement: Placement::Sandwich,
    n_kv_heads: Some(4),
    ..LIKE
};
const LIKE_3: Like = Like { class: "Gemma3", ..LIKE_2 };

/// Embeddings are multiplied with √width.
fn scale_embeddings(form: &mut Form) {
    let scale = (form.d_model as f32).sqrt();
    if let Input::Tokens(tokens) = &mut form.input {
        tokens.scale = scale;
    }
}

fn read_gemma(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    // Older files have both; the newer key says which function was meant, and "gelu" always meant the approximation.
    let newer = options.take::<Activation>("hidden_activation")?;
    options.only("use_bidirectional_attention", false)?;
    let mut form = LIKE.read(options, shapes)?;
    scale_embeddings(&mut form);
    llama_like::change(&mut form, |layer| {
        let function = &mut layer.feed_forward.activation;
        *function = match newer.unwrap_or(*function) {
            Activation::Gelu => Activation::GeluNew,
            other => other,
        };
    });
    Ok(form)
}

/// What Gemma 2 and 3 share.
fn read_later(options: &mut Options, shapes: &Shapes, like: &Like, caps: [Option<f32>; 2]) -> Result<Form> {
    options.only("use_bidirectional_attention", false)?;
    // Old files have this beside the key that counts.
    options.take::<Value>("hidden_act")?;
    let mut form = like.read(options, shapes)?;
    scale_embeddings(&mut form);
    let scale = options.real("query_pre_attn_scalar", 256.0)?.powf(-0.5);
    let cap = options.real_or_null("attn_logit_softcapping", caps[0])?;
    let final_cap = options.real_or_null("final_logit_softcapping", caps[1])?;
    if let Some(scores) = &mut form.output.tokens {
        scores.soft_cap = final_cap;
    }
    llama_like::change(&mut form, |layer| {
        layer.attention.scale = Scale::Factor(scale);
        layer.attention.soft_cap = cap;
    });
    // It says how a cache is kept.
    options.take::<Value>("cache_implementation")?;
    Ok(form)
}

fn read_gemma2(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = read_later(options, shapes, &LIKE_2, [Some(50.0), Some(30.0)])?;
    let size = options.size_or_null("sliding_window", Some(4096))?;
    let sliding = llama_like::sliding_layers(options, &form, |i| i.is_multiple_of(2))?;
    llama_like::vary(&mut form, |i, layer| {
        layer.attention.window = size.filter(|_| sliding[i]).map(llama_like::window);
    })?;
    Ok(form)
}

fn write(form: &Form, like: &Like) -> Option<Value> {
    let mut config = like.write(form)?;
    let attention = &form.decoder.as_ref()?.layers.first()?.attention;
    let Scale::Factor(scale) = attention.scale else { return None };
    config["query_pre_attn_scalar"] = whole(scale.powi(-2));
    config["attn_logit_softcapping"] = json!(attention.soft_cap);
    config["final_logit_softcapping"] = json!(form.output.tokens.and_then(|scores| scores.soft_cap));
    config["sliding_window"] = json!(llama_like::window_of(form).unwrap_or(4096));
    config["layer_types"] = json!(llama_like::layer_types(form)?);
    Some(config)
}

/// A number that transformers takes as a whole one, if rounding left it almost so.
fn whole(value: f32) -> Value {
    let near = value.round();
    if (value - near).abs() < 1e-4 * near { json!(near as u64) } else { json!(value) }
}

fn read_gemma3(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let local_base = options.real("rope_local_base_freq", 10_000.0)?;
    let global_base = options.real("rope_theta", 1e6)?;
    let old: Map<String, Value> = options.take_or("rope_scaling", Map::new())?;
    let mut both: Map<String, Value> = options.take_or("rope_parameters", Map::new())?;
    let mut take = |name: &str| match both.remove(name) {
        Some(Value::Object(parameters)) => parameters,
        _ => Map::new(),
    };
    let (mut global, local) = (take("full_attention"), take("sliding_attention"));
    global.extend(old);
    Options::new(both).finish()?;
    let mut form = read_later(options, shapes, &LIKE_3, [None, None])?;
    let (context, d_head) = match (form.context, form.decoder.as_ref().and_then(|stack| stack.layers.first()))
    {
        (Some(context), Some(layer)) => (context, layer.attention.d_head),
        _ => return Ok(form),
    };
    let parse = |parameters, base| {
        let rotary =
            rotary::parse(parameters, None, rotary::Defaults { base, partial: 1.0, d_head, context });
        rotary.map(|rotary| Some(AttentionPositions::Rotary(rotary)))
    };
    let (global, local) = (parse(global, global_base)?, parse(local, local_base)?);
    let size = options.size_or_null("sliding_window", Some(4096))?;
    let pattern = options.optional_size("sliding_window_pattern")?;
    let older = options.optional_size("_sliding_window_pattern")?;
    let pattern = pattern.or(older).unwrap_or(6);
    let sliding = llama_like::sliding_layers(options, &form, |i| !(i + 1).is_multiple_of(pattern))?;
    llama_like::vary(&mut form, |i, layer| {
        layer.attention.window = size.filter(|_| sliding[i]).map(llama_like::window);
        layer.attention.positions = if sliding[i] { local.clone() } else { global.clone() };
        layer.attention.query_key_norm = Some((QueryKeyNorm::Head, layer.norm));
    })?;
    Ok(form)
}

fn write_gemma3(form: &Form) -> Option<Value> {
    let mut config = write(form, &LIKE_3)?;
    let layers = &form.decoder.as_ref()?.layers;
    let rope = |sliding: bool| {
        let layer = layers.iter().find(|layer| layer.attention.window.is_some() == sliding)?;
        match &layer.attention.positions {
            Some(AttentionPositions::Rotary(rotary)) => Some(rotary::write(rotary, layer.attention.d_head)),
            _ => None,
        }
    };
    config.as_object_mut()?.remove("rope_theta");
    config["rope_parameters"] = json!({"full_attention": rope(false), "sliding_attention": rope(true)});
    if form.output.tokens.is_none() {
        config["architectures"] = json!(["Gemma3TextModel"]);
    }
    Some(config)
}
