//! OLMo (norms with nothing learned, projections cut off) and OLMo 2 (norms of outputs, of queries and of keys).

use super::family::{Family, Shapes};
use super::llama_like::{self, LLAMA, Like};
use super::options::Options;
use crate::attention::QueryKeyNorm;
use crate::block::Placement;
use crate::error::Result;
use crate::layers::NormKind;
use crate::models::form::Form;
use serde_json::{Value, json};

pub(super) const OLMO: Family = Family {
    model_type: "olmo",
    architectures: &["OlmoForCausalLM", "OlmoModel", "OlmoForSequenceClassification"],
    prefix: "model.",
    read: read_olmo,
    names: llama_like::names,
    write: write_olmo,
};

pub(super) const OLMO2: Family = Family {
    model_type: "olmo2",
    architectures: &["Olmo2ForCausalLM", "Olmo2Model", "Olmo2ForSequenceClassification"],
    prefix: "model.",
    read: read_olmo2,
    names: llama_like::names,
    write: |form| LIKE_2.write(form),
};

const LIKE: Like =
    Like { class: "Olmo", norm: (NormKind::LayerPlain, "", 1e-5), feed_forward_bias: None, ..LLAMA };
const LIKE_2: Like = Like {
    class: "Olmo2",
    norm: (NormKind::RootMeanSquare, "rms_norm_eps", 1e-5),
    placement: Placement::Output,
    feed_forward_bias: None,
    ..LLAMA
};

fn read_olmo(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = LIKE.read(options, shapes)?;
    let clip = options.real_or_null("clip_qkv", None)?;
    llama_like::change(&mut form, |layer| layer.attention.clip = clip);
    Ok(form)
}

fn write_olmo(form: &Form) -> Option<Value> {
    let mut config = LIKE.write(form)?;
    config["clip_qkv"] = json!(form.decoder.as_ref()?.layers.first()?.attention.clip);
    Some(config)
}

fn read_olmo2(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = LIKE_2.read(options, shapes)?;
    llama_like::change(&mut form, |layer| {
        layer.attention.query_key_norm = Some((QueryKeyNorm::All, layer.norm));
    });
    Ok(form)
}
