//! Cohere's Command R (parallel blocks, neighbouring features rotated) and Cohere 2 (windows, layers without positions).

use super::family::{Family, Shapes};
use super::llama_like::{self, LLAMA, Like};
use super::options::Options;
use crate::attention::QueryKeyNorm;
use crate::block::Placement;
use crate::error::Result;
use crate::layers::NormKind;
use crate::models::form::{AttentionPositions, Form};
use serde_json::{Value, json};

pub(super) const COHERE: Family = Family {
    model_type: "cohere",
    architectures: &["CohereForCausalLM", "CohereModel"],
    prefix: "model.",
    read: read_cohere,
    names: llama_like::names,
    write: write_cohere,
};

pub(super) const COHERE2: Family = Family {
    model_type: "cohere2",
    architectures: &["Cohere2ForCausalLM", "Cohere2Model"],
    prefix: "model.",
    read: read_cohere2,
    names: llama_like::names,
    write: write_cohere2,
};

const LIKE: Like = Like {
    class: "Cohere",
    tied: true,
    base: 500_000.0,
    norm: (NormKind::LayerWithoutBias, "layer_norm_eps", 1e-5),
    feed_forward_bias: None,
    placement: Placement::ParallelShared,
    ..LLAMA
};
const LIKE_2: Like = Like { class: "Cohere2", base: 10_000.0, ..LIKE };

fn read(options: &mut Options, shapes: &Shapes, like: &Like) -> Result<Form> {
    let mut form = like.read(options, shapes)?;
    let scale = options.real("logit_scale", 0.0625)?;
    if let Some(scores) = &mut form.output.tokens {
        scores.scale = scale;
    }
    llama_like::change(&mut form, |layer| {
        if let Some(AttentionPositions::Rotary(rotary)) = &mut layer.attention.positions {
            rotary.interleaved = true;
        }
    });
    Ok(form)
}

fn write(form: &Form, like: &Like) -> Option<Value> {
    let mut config = like.write(form)?;
    config["logit_scale"] = json!(form.output.tokens.map_or(0.0625, |scores| scores.scale));
    Some(config)
}

fn read_cohere(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = read(options, shapes, &LIKE)?;
    let normed = options.take_or("use_qk_norm", false)?;
    llama_like::change(&mut form, |layer| {
        layer.attention.query_key_norm = normed.then_some((QueryKeyNorm::EachHead, layer.norm));
    });
    Ok(form)
}

fn write_cohere(form: &Form) -> Option<Value> {
    let mut config = write(form, &LIKE)?;
    let attention = &form.decoder.as_ref()?.layers.first()?.attention;
    config["use_qk_norm"] = json!(attention.query_key_norm.is_some());
    Some(config)
}

/// Layers with a window have rotary positions, the others none.
fn read_cohere2(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = read(options, shapes, &LIKE_2)?;
    let size = options.size_or_null("sliding_window", Some(4096))?;
    let pattern = options.optional_size("sliding_window_pattern")?.unwrap_or(4);
    let sliding = llama_like::sliding_layers(options, &form, |i| !(i + 1).is_multiple_of(pattern))?;
    llama_like::vary(&mut form, |i, layer| {
        layer.attention.window = size.filter(|_| sliding[i]).map(llama_like::window);
        if layer.attention.window.is_none() {
            layer.attention.positions = None;
        }
    })?;
    Ok(form)
}

fn write_cohere2(form: &Form) -> Option<Value> {
    let mut config = write(form, &LIKE_2)?;
    config["sliding_window"] = json!(llama_like::window_of(form)?);
    config["layer_types"] = json!(llama_like::layer_types(form)?);
    Some(config)
}
