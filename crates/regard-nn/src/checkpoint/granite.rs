//! Granite: Llama with factors of embeddings, scores, sublayers and logits.

use super::family::{Family, Shapes};
use super::llama_like::{self, LLAMA, Like};
use super::options::Options;
use crate::attention::Scale;
use crate::error::{Error, Result};
use crate::models::form::{Form, Input};
use serde_json::{Value, json};

pub(super) const GRANITE: Family = Family {
    model_type: "granite",
    architectures: &["GraniteForCausalLM", "GraniteModel"],
    prefix: "model.",
    read,
    names: llama_like::names,
    write,
};

const LIKE: Like = Like { class: "Granite", ..LLAMA };

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = LIKE.read(options, shapes)?;
    let attention = options.real("attention_multiplier", 1.0)?;
    let residual = options.real("residual_multiplier", 1.0)?;
    let logits = options.real("logits_scaling", 1.0)?;
    if logits == 0.0 {
        return Err(Error::checkpoint("config.json: logits_scaling is 0"));
    }
    if let Input::Tokens(tokens) = &mut form.input {
        tokens.scale = options.real("embedding_multiplier", 1.0)?;
    }
    if let Some(scores) = &mut form.output.tokens {
        scores.scale = 1.0 / logits;
    }
    llama_like::change(&mut form, |layer| {
        layer.attention.scale = Scale::Factor(attention);
        layer.residual_scale = residual;
    });
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let mut config = LIKE.write(form)?;
    let layer = form.decoder.as_ref()?.layers.first()?;
    let (Scale::Factor(attention), Input::Tokens(tokens)) = (layer.attention.scale, &form.input) else {
        return None;
    };
    config["attention_multiplier"] = json!(attention);
    config["residual_multiplier"] = json!(layer.residual_scale);
    config["embedding_multiplier"] = json!(tokens.scale);
    config["logits_scaling"] = json!(form.output.tokens.map_or(1.0, |scores| 1.0 / scores.scale));
    Some(config)
}
