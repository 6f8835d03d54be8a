//! The configurations and names of DINOv2, with registers and without.

use super::family::{Family, Shapes, with_labels};
use super::names::Names;
use super::options::Options;
use super::part::halves;
use super::vit;
use crate::error::Result;
use crate::layers::Activation;
use crate::models::form::{Form, Input, Pooling};
use serde_json::{Value, json};

pub(super) const DINOV2: Family = Family {
    model_type: "dinov2",
    architectures: &["Dinov2ForImageClassification", "Dinov2Model"],
    prefix: "dinov2.",
    read: |options, shapes| read(options, shapes, 0),
    names,
    write: |form| write(form, "Dinov2", false),
};

pub(super) const DINOV2_WITH_REGISTERS: Family = Family {
    model_type: "dinov2_with_registers",
    architectures: &["Dinov2WithRegistersForImageClassification", "Dinov2WithRegistersModel"],
    prefix: "dinov2_with_registers.",
    read: |options, shapes| {
        let registers = options.take_or("num_register_tokens", 4)?;
        read(options, shapes, registers)
    },
    names,
    write: |form| write(form, "Dinov2WithRegisters", true),
};

const PAIRS: &[(&str, &str)] = &[
    ("class", "@embeddings.cls_token"),
    ("registers", "@embeddings.register_tokens"),
    ("positions.table.weight", "@embeddings.position_embeddings"),
    ("patches", "@embeddings.patch_embeddings.projection"),
    ("layers.#.attention_norm", "@encoder.layer.#.norm1"),
    ("layers.#.attention.query", "@encoder.layer.#.attention.attention.query"),
    ("layers.#.attention.key", "@encoder.layer.#.attention.attention.key"),
    ("layers.#.attention.value", "@encoder.layer.#.attention.attention.value"),
    ("layers.#.attention.output", "@encoder.layer.#.attention.output.dense"),
    ("layers.#.attention_scale", "@encoder.layer.#.layer_scale1.lambda1"),
    ("layers.#.ffn_norm", "@encoder.layer.#.norm2"),
    ("layers.#.ffn.up", "@encoder.layer.#.mlp.fc1"),
    ("layers.#.ffn.down", "@encoder.layer.#.mlp.fc2"),
    ("layers.#.ffn_scale", "@encoder.layer.#.layer_scale2.lambda1"),
    ("norm", "@layernorm"),
    ("classifier", "classifier"),
];

/// The two halves of a fused projection.
const GATED: &[(&str, &str)] = &[
    ("layers.#.ffn.gate", "@encoder.layer.#.mlp.weights_in"),
    ("layers.#.ffn.up", "@encoder.layer.#.mlp.weights_in"),
    ("layers.#.ffn.down", "@encoder.layer.#.mlp.weights_out"),
];

fn names(form: &Form) -> Names {
    let layer = form.encoder.as_ref().and_then(|stack| stack.layers.first());
    let gated = layer.map(|layer| layer.feed_forward).filter(|feed_forward| feed_forward.gated);
    let pairs = if gated.is_some() { [GATED, PAIRS].concat() } else { PAIRS.to_vec() };
    let names =
        Names::new(&pairs, &["@embeddings.mask_token"]).with_leading_axis(&["positions.table.weight"]);
    match gated {
        Some(feed_forward) => names.with_parts(halves(form.d_model, feed_forward.d_hidden)),
        None => names,
    }
}

fn read(options: &mut Options, shapes: &Shapes, registers: usize) -> Result<Form> {
    let hidden: usize = options.peek("hidden_size").unwrap_or(0);
    let ratio = options.real("mlp_ratio", 4.0)?;
    let gated = options.take_or("use_swiglu_ffn", false)?;
    let wide = (hidden as f32 * ratio) as usize;
    // Two thirds, in whole eighths.
    let d_hidden = if gated { (wide * 2 / 3).next_multiple_of(8) } else { wide };
    options.take::<Value>("intermediate_size")?;
    options.default("layer_norm_eps", 1e-6);
    options.insert("intermediate_size", d_hidden);
    let scale = options.real("layerscale_value", 1.0)?;
    let mut form = vit::read_body(options, shapes)?;
    if let Input::Patches(patches) = &mut form.input {
        patches.registers = registers;
    }
    for layer in form.encoder.iter_mut().flat_map(|stack| &mut stack.layers) {
        layer.layer_scale = Some(scale);
        if gated {
            layer.feed_forward.gated = true;
            layer.feed_forward.activation = Activation::Silu;
        }
    }
    if form.output.classes.is_some() {
        form.output.pooling = Pooling::FirstAndMean;
    }
    // What a backbone for other models returns, and what training drops or hides.
    for key in [
        "out_features",
        "out_indices",
        "stage_names",
        "reshape_hidden_states",
        "drop_path_rate",
        "use_mask_token",
    ] {
        options.take::<Value>(key)?;
    }
    options.only("apply_layernorm", true)?;
    Ok(form)
}

fn write(form: &Form, body: &str, registers: bool) -> Option<Value> {
    let Input::Patches(patches) = &form.input else { return None };
    let layer = form.encoder.as_ref()?.layers.first()?;
    let feed_forward = layer.feed_forward;
    let mut config = vit::write_body(form)?;
    let task = if form.output.classes.is_some() { "ForImageClassification" } else { "Model" };
    config["architectures"] = json!([format!("{body}{task}")]);
    config["layerscale_value"] = json!(layer.layer_scale?);
    config["use_swiglu_ffn"] = json!(feed_forward.gated);
    if registers {
        config["num_register_tokens"] = json!(patches.registers);
    } else {
        config["use_mask_token"] = json!(false);
    }
    // Two thirds of 3/2 of the width, which is a number of whole eighths.
    let wide = if feed_forward.gated { feed_forward.d_hidden * 3 / 2 } else { feed_forward.d_hidden };
    if !wide.is_multiple_of(form.d_model) {
        return None;
    }
    config["mlp_ratio"] = json!(wide / form.d_model);
    let fields = config.as_object_mut()?;
    fields.remove("intermediate_size");
    if feed_forward.gated {
        fields.insert("hidden_act".to_owned(), json!("gelu"));
    }
    Some(with_labels(config, form.output.labels()))
}
