//! ViT's configuration and names.

use super::names::Names;
use super::options::{Options, object};
use super::{Plan, StoredWeights};
use crate::error::{Error, Result};
use crate::models::{Model, Vit, VitConfig};
use serde_json::{Map, Value, json};

const PAIRS: &[(&str, &str)] = &[
    ("class", "@embeddings.cls_token"),
    ("positions", "@embeddings.position_embeddings"),
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

const PREFIX: &str = "vit.";

fn names(prefix: &'static str) -> Names {
    Names::new(PAIRS, prefix, &["@pooler.dense"])
}

pub(super) fn plan(mut options: Options, weights: &StoredWeights) -> Result<Plan> {
    let defaults = VitConfig::default();
    let config = VitConfig {
        image: sides(options.take::<Value>("image_size")?.as_ref())?,
        patch: options.size("patch_size")?,
        channels: options.optional_size("num_channels")?.unwrap_or(3),
        classes: weights.rows("classifier.weight").unwrap_or(0),
        n_layers: options.size("num_hidden_layers")?,
        n_heads: options.size("num_attention_heads")?,
        d_model: options.size("hidden_size")?,
        d_hidden: options.size("intermediate_size")?,
        activation: options.take_or("hidden_act", defaults.activation)?,
        attention_bias: options.take_or("qkv_bias", true)?,
        norm_epsilon: options.real("layer_norm_eps", 1e-12)?,
        deviation: options.real("initializer_range", 0.02)?,
        dropout: options.real("hidden_dropout_prob", 0.0)?,
        checkpointing: false,
    };
    options.ensure_labels(weights.rows("classifier.weight"))?;
    // The pooler is no part of a classifier.
    options.take::<Value>("pooler_act")?;
    options.finish()?;
    let prefix = if weights.any_starts_with(PREFIX) { PREFIX } else { "" };
    Ok(Plan {
        names: names(prefix),
        build: Box::new(move |initial| Ok(Model::Vit(Vit::build(config.clone(), initial)?))),
    })
}

/// One side, or height and width.
fn sides(value: Option<&Value>) -> Result<[usize; 2]> {
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

pub(super) fn written(config: &VitConfig) -> (Map<String, Value>, Names) {
    let [height, width] = config.image;
    let labels: Map<String, Value> =
        (0..config.classes).map(|class| (class.to_string(), json!(format!("LABEL_{class}")))).collect();
    let numbers: Map<String, Value> =
        (0..config.classes).map(|class| (format!("LABEL_{class}"), json!(class))).collect();
    let value = json!({
        "model_type": "vit",
        "architectures": [if config.classes > 0 { "ViTForImageClassification" } else { "ViTModel" }],
        "image_size": if height == width { json!(height) } else { json!([height, width]) },
        "patch_size": config.patch,
        "num_channels": config.channels,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_hidden,
        "hidden_act": config.activation,
        "qkv_bias": config.attention_bias,
        "layer_norm_eps": config.norm_epsilon,
        "initializer_range": config.deviation,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.dropout,
        "id2label": labels,
        "label2id": numbers,
        "torch_dtype": "float32",
    });
    (object(value), names(if config.classes > 0 { PREFIX } else { "" }))
}
