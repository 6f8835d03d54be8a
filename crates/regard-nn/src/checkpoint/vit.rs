//! ViT's configuration and names.

use super::family::{Family, Shapes, with_labels};
use super::names::Names;
use super::options::Options;
use crate::error::{Error, Result};
use crate::layers::Activation;
use crate::models::VitConfig;
use crate::models::form::{Form, Input};
use serde_json::{Value, json};

pub(super) const VIT: Family = Family {
    model_type: "vit",
    architectures: &["ViTForImageClassification", "ViTModel"],
    prefix: "vit.",
    read: read_body,
    names,
    write,
};

pub(super) const PAIRS: &[(&str, &str)] = &[
    ("class", "@embeddings.cls_token"),
    ("positions.table.weight", "@embeddings.position_embeddings"),
    ("patches", "@embeddings.patch_embeddings.projection"),
    ("layers.#.attention_norm", "@encoder.layer.#.layernorm_before"),
    ("layers.#.attention.query", "@encoder.layer.#.attention.attention.query"),
    ("layers.#.attention.key", "@encoder.layer.#.attention.attention.key"),
    ("layers.#.attention.value", "@encoder.layer.#.attention.attention.value"),
    ("layers.#.attention.output", "@encoder.layer.#.attention.output.dense"),
    ("layers.#.ffn_norm", "@encoder.layer.#.layernorm_after"),
    ("layers.#.ffn.up", "@encoder.layer.#.intermediate.dense"),
    ("layers.#.ffn.down", "@encoder.layer.#.output.dense"),
    ("norm", "@layernorm"),
    ("classifier", "classifier"),
];

fn names(_: &Form) -> Names {
    Names::new(PAIRS, &["@pooler.dense"]).with_leading_axis(&["positions.table.weight"])
}

/// The body of a ViT, with its classifier if the checkpoint has one.
pub(super) fn read_body(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let config = VitConfig {
        image: sides(options.take::<Value>("image_size")?.as_ref())?,
        patch: options.size("patch_size")?,
        channels: options.optional_size("num_channels")?.unwrap_or(3),
        classes: shapes.rows("classifier.weight").unwrap_or(0),
        n_layers: options.size("num_hidden_layers")?,
        n_heads: options.size("num_attention_heads")?,
        d_model: options.size("hidden_size")?,
        d_hidden: options.size("intermediate_size")?,
        activation: options.take_or("hidden_act", Activation::Gelu)?,
        attention_bias: options.take_or("qkv_bias", true)?,
        norm_epsilon: options.real("layer_norm_eps", 1e-12)?,
        deviation: options.real("initializer_range", 0.02)?,
        dropout: options.real("hidden_dropout_prob", 0.0)?,
        checkpointing: false,
    };
    // The pooler is no part of a classifier.
    options.take::<Value>("pooler_act")?;
    Ok(config.form())
}

/// One side, or height and width.
pub(super) fn sides(value: Option<&Value>) -> Result<[usize; 2]> {
    let side =
        |value: &Value| value.as_u64().filter(|&side| (1..1 << 20).contains(&side)).map(|side| side as usize);
    let sides = match value {
        Some(Value::Array(both)) if both.len() == 2 => side(&both[0]).zip(side(&both[1])),
        Some(one) => side(one).map(|side| (side, side)),
        None => None,
    };
    match sides {
        Some((height, width)) => Ok([height, width]),
        None => Err(Error::checkpoint("config.json: image_size must be one or two numbers of pixels")),
    }
}

fn write(form: &Form) -> Option<Value> {
    let mut config = write_body(form)?;
    let task = if form.output.classes.is_some() { "ViTForImageClassification" } else { "ViTModel" };
    config["architectures"] = json!([task]);
    Some(with_labels(config, form.output.labels()))
}

/// The body's part of a configuration.
pub(super) fn write_body(form: &Form) -> Option<Value> {
    let Input::Patches(patches) = form.input else { return None };
    let stack = form.encoder.as_ref()?;
    let layer = stack.layers.first()?;
    let [height, width] = patches.image;
    Some(json!({
        "image_size": if height == width { json!(height) } else { json!([height, width]) },
        "patch_size": patches.size,
        "num_channels": patches.channels,
        "num_hidden_layers": stack.n_layers,
        "num_attention_heads": layer.attention.n_heads,
        "hidden_size": form.d_model,
        "intermediate_size": layer.feed_forward.d_hidden,
        "hidden_act": layer.feed_forward.activation,
        "qkv_bias": layer.attention.bias.query,
        "layer_norm_eps": layer.norm.epsilon,
        "initializer_range": form.deviations.inner,
        "hidden_dropout_prob": form.dropout.residual,
        "attention_probs_dropout_prob": form.dropout.attention,
    }))
}
