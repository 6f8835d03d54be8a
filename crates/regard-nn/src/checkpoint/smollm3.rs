//! SmolLM3: Llama in which every fourth layer has no positions.

use super::family::{Family, Shapes};
use super::llama_like::{self, LLAMA, Like};
use super::options::Options;
use crate::error::Result;
use crate::models::form::Form;
use serde_json::{Value, json};

pub(super) const SMOLLM3: Family = Family {
    model_type: "smollm3",
    architectures: &["SmolLM3ForCausalLM", "SmolLM3Model", "SmolLM3ForSequenceClassification"],
    prefix: "model.",
    read,
    names: llama_like::names,
    write,
};

const LIKE: Like = Like { class: "SmolLM3", tied: true, base: 2e6, n_kv_heads: Some(4), ..LLAMA };

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = LIKE.read(options, shapes)?;
    let interval = options.optional_size("no_rope_layer_interval")?.unwrap_or(4);
    // 1 where positions are.
    let listed = options.take::<Vec<u8>>("no_rope_layers")?;
    let rotated = |i: usize| match &listed {
        Some(listed) => listed.get(i).is_none_or(|&rotated| rotated != 0),
        None => !(i + 1).is_multiple_of(interval),
    };
    let used = options.take_or("use_sliding_window", false)?;
    let size = options.size_or_null("sliding_window", None)?;
    let sliding = llama_like::sliding_layers(options, &form, |i| used && size.is_some() && !rotated(i))?;
    llama_like::vary(&mut form, |i, layer| {
        layer.attention.window = size.filter(|_| sliding[i]).map(llama_like::window);
        if !rotated(i) {
            layer.attention.positions = None;
        }
    })?;
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let mut config = LIKE.write(form)?;
    let stack = form.decoder.as_ref()?;
    let types = llama_like::layer_types(form)?;
    let rotated = |i: usize| u8::from(stack.layer(i).attention.positions.is_some());
    config["no_rope_layers"] = (0..types.len()).map(rotated).collect();
    config["use_sliding_window"] = json!(llama_like::window_of(form).is_some());
    config["sliding_window"] = json!(llama_like::window_of(form));
    config["layer_types"] = json!(types);
    // transformers knows no key for this, but derives it.
    config["pad_token_id"] = Value::Null;
    Some(config)
}
