//! The configurations and names of T5, mT5 and UMT5.

use super::family::{Family, Shapes};
use super::names::Names;
use super::options::Options;
use crate::error::{Error, Result};
use crate::layers::Activation;
use crate::models::T5Config;
use crate::models::form::{AttentionPositions, Form, Input};
use serde_json::{Value, json};

pub(super) const T5: Family = Family {
    model_type: "t5",
    architectures: &["T5EncoderModel", "T5ForConditionalGeneration"],
    prefix: "",
    read: |options, shapes| read(options, shapes, &Variant::T5),
    names,
    write: |form| write(form, &Variant::T5),
};

/// T5 1.1 for a hundred languages.
pub(super) const MT5: Family = Family {
    model_type: "mt5",
    architectures: &["MT5EncoderModel", "MT5ForConditionalGeneration"],
    read: |options, shapes| read(options, shapes, &Variant::MT5),
    write: |form| write(form, &Variant::MT5),
    ..T5
};

/// The same with a table of relative positions in each layer.
pub(super) const UMT5: Family = Family {
    model_type: "umt5",
    architectures: &["UMT5EncoderModel", "UMT5ForConditionalGeneration"],
    read: |options, shapes| read(options, shapes, &Variant::UMT5),
    write: |form| write(form, &Variant::UMT5),
    ..T5
};

/// In what the families differ.
struct Variant {
    /// What its classes begin with.
    name: &'static str,
    /// The feed-forward layer that a configuration need not name.
    feed_forward: &'static str,
    /// When hidden states are scaled before they are scored.
    scales: Scales,
    /// Whether each layer has a table of relative positions.
    by_layer: bool,
}

/// When hidden states are scaled before they are scored.
#[derive(PartialEq, Eq)]
enum Scales {
    /// Where an option says so, or tied embeddings if it is missing.
    ByOption,
    /// Where the configuration calls embeddings tied, even if the file has a head of its own.
    IfTied,
    Never,
}

impl Variant {
    const T5: Self = Self { name: "T5", feed_forward: "relu", scales: Scales::ByOption, by_layer: false };
    const MT5: Self =
        Self { name: "MT5", feed_forward: "gated-gelu", scales: Scales::Never, by_layer: false };
    const UMT5: Self = Self { name: "UMT5", scales: Scales::IfTied, by_layer: true, ..Self::MT5 };
}

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "shared"),
    ("encoder.positions.relative", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
    ("encoder.layers.#.attention_norm", "encoder.block.#.layer.0.layer_norm"),
    ("encoder.layers.#.attention.query", "encoder.block.#.layer.0.SelfAttention.q"),
    ("encoder.layers.#.attention.key", "encoder.block.#.layer.0.SelfAttention.k"),
    ("encoder.layers.#.attention.value", "encoder.block.#.layer.0.SelfAttention.v"),
    ("encoder.layers.#.attention.output", "encoder.block.#.layer.0.SelfAttention.o"),
    ("encoder.layers.#.ffn_norm", "encoder.block.#.layer.1.layer_norm"),
    ("encoder.norm", "encoder.final_layer_norm"),
    ("decoder.positions.relative", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
    ("decoder.layers.#.attention_norm", "decoder.block.#.layer.0.layer_norm"),
    ("decoder.layers.#.attention.query", "decoder.block.#.layer.0.SelfAttention.q"),
    ("decoder.layers.#.attention.key", "decoder.block.#.layer.0.SelfAttention.k"),
    ("decoder.layers.#.attention.value", "decoder.block.#.layer.0.SelfAttention.v"),
    ("decoder.layers.#.attention.output", "decoder.block.#.layer.0.SelfAttention.o"),
    ("decoder.layers.#.cross_norm", "decoder.block.#.layer.1.layer_norm"),
    ("decoder.layers.#.cross.query", "decoder.block.#.layer.1.EncDecAttention.q"),
    ("decoder.layers.#.cross.key", "decoder.block.#.layer.1.EncDecAttention.k"),
    ("decoder.layers.#.cross.value", "decoder.block.#.layer.1.EncDecAttention.v"),
    ("decoder.layers.#.cross.output", "decoder.block.#.layer.1.EncDecAttention.o"),
    ("decoder.layers.#.ffn_norm", "decoder.block.#.layer.2.layer_norm"),
    ("decoder.norm", "decoder.final_layer_norm"),
    ("head", "lm_head"),
];

const PLAIN: &[(&str, &str)] = &[
    ("encoder.layers.#.ffn.up", "encoder.block.#.layer.1.DenseReluDense.wi"),
    ("encoder.layers.#.ffn.down", "encoder.block.#.layer.1.DenseReluDense.wo"),
    ("decoder.layers.#.ffn.up", "decoder.block.#.layer.2.DenseReluDense.wi"),
    ("decoder.layers.#.ffn.down", "decoder.block.#.layer.2.DenseReluDense.wo"),
];

const GATED: &[(&str, &str)] = &[
    ("encoder.layers.#.ffn.gate", "encoder.block.#.layer.1.DenseReluDense.wi_0"),
    ("encoder.layers.#.ffn.up", "encoder.block.#.layer.1.DenseReluDense.wi_1"),
    ("encoder.layers.#.ffn.down", "encoder.block.#.layer.1.DenseReluDense.wo"),
    ("decoder.layers.#.ffn.gate", "decoder.block.#.layer.2.DenseReluDense.wi_0"),
    ("decoder.layers.#.ffn.up", "decoder.block.#.layer.2.DenseReluDense.wi_1"),
    ("decoder.layers.#.ffn.down", "decoder.block.#.layer.2.DenseReluDense.wo"),
];

/// A table in each layer.
const BY_LAYER: &[(&str, &str)] = &[
    ("encoder.positions.relative.#", "encoder.block.#.layer.0.SelfAttention.relative_attention_bias.weight"),
    ("decoder.positions.relative.#", "decoder.block.#.layer.0.SelfAttention.relative_attention_bias.weight"),
];

fn names(form: &Form) -> Names {
    let layers = || form.encoder.iter().flat_map(|stack| &stack.layers);
    let gated = layers().any(|layer| layer.feed_forward.gated);
    let by_layer = layers().any(|layer| {
        matches!(layer.attention.positions, Some(AttentionPositions::Relative { by_layer: true, .. }))
    });
    let tied = form.output.tokens.is_some_and(|scores| scores.tied);
    let tables = if by_layer { BY_LAYER } else { &[] };
    let mut pairs = [tables, PAIRS, if gated { GATED } else { PLAIN }].concat();
    // The names of parts do not begin with that of a stack where there is only one.
    if form.decoder.is_none() {
        pairs.retain(|(ours, _)| !ours.starts_with("decoder."));
        for (ours, _) in &mut pairs {
            *ours = ours.strip_prefix("encoder.").unwrap_or(ours);
        }
    }
    // A bias of the first releases that no layer reads.
    let ignored = ["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"];
    let copies = [
        ("encoder.embed_tokens.weight", "tokens.weight"),
        ("decoder.embed_tokens.weight", "tokens.weight"),
        ("lm_head.weight", "tokens.weight"),
    ];
    Names::new(&pairs, &ignored).with_copies(&copies[..if tied { 3 } else { 2 }])
}

fn read(options: &mut Options, shapes: &Shapes, variant: &Variant) -> Result<Form> {
    let (activation, gated) = projection(options, variant)?;
    let n_layers = options.size("num_layers")?;
    let said_tied = options.take_or("tie_word_embeddings", true)?;
    // Version 1.1 has a head of its own, whatever newer configurations say about tying.
    let by_option = variant.scales == Scales::ByOption;
    let scaled = match variant.scales {
        Scales::ByOption if options.is_null("scale_decoder_outputs") => false,
        Scales::ByOption => options.take_or("scale_decoder_outputs", said_tied)?,
        Scales::IfTied => said_tied,
        Scales::Never => false,
    };
    options.only("scale_decoder_outputs", false)?;
    let config = T5Config {
        vocabulary: options.size("vocab_size")?,
        n_layers,
        n_decoder_layers: options.optional_size("num_decoder_layers")?.unwrap_or(n_layers),
        n_heads: options.size("num_heads")?,
        d_model: options.size("d_model")?,
        d_head: options.size("d_kv")?,
        d_hidden: options.size("d_ff")?,
        activation,
        gated,
        buckets: options.optional_size("relative_attention_num_buckets")?.unwrap_or(32),
        max_distance: options.optional_size("relative_attention_max_distance")?.unwrap_or(128),
        norm_epsilon: options.real("layer_norm_epsilon", 1e-6)?,
        tied: said_tied && (by_option && scaled || !shapes.contains("lm_head.weight")),
        scale_output: scaled,
        start: options.take_or("decoder_start_token_id", 0)?,
        dropout: options.real("dropout_rate", 0.1)?,
        smoothing: 0.0,
        checkpointing: false,
    };
    options.only("is_decoder", false)?;
    let mut form = config.form();
    for layer in form.encoder.iter_mut().chain(&mut form.decoder).flat_map(|stack| &mut stack.layers) {
        if let Some(AttentionPositions::Relative { by_layer, .. }) = &mut layer.attention.positions {
            *by_layer = variant.by_layer;
        }
    }
    if options.names_class("EncoderModel") {
        form.decoder = None;
        form.output.tokens = None;
        if let Input::Tokens(tokens) = &mut form.input {
            tokens.start = None;
        }
    }
    Ok(form)
}

/// `relu`, `gated-gelu` and the like.
fn projection(options: &mut Options, variant: &Variant) -> Result<(Activation, bool)> {
    let text: String = options.take_or("feed_forward_proj", variant.feed_forward.to_owned())?;
    let (gated, name) = match text.strip_prefix("gated-") {
        Some(name) => (true, name),
        None => (false, text.as_str()),
    };
    // The original calls its approximation by the name of the exact function.
    let name = if text == "gated-gelu" { "gelu_new" } else { name };
    // These usually repeat what the first says; where they do not, they have the last word.
    let name = options.take_or("dense_act_fn", name.to_owned())?;
    let gated = options.take_or("is_gated_act", gated)?;
    let activation = serde_json::from_value(json!(name)).map_err(|_| {
        Error::checkpoint(format!("config.json: a feed-forward layer with {name:?} is not implemented"))
    })?;
    Ok((activation, gated))
}

fn write(form: &Form, variant: &Variant) -> Option<Value> {
    let encoder = form.encoder.as_ref()?;
    let layer = encoder.layers.first()?;
    let (attention, feed_forward) = (&layer.attention, &layer.feed_forward);
    let Some(AttentionPositions::Relative { buckets, max_distance, .. }) = attention.positions else {
        return None;
    };
    let Input::Tokens(tokens) = &form.input else { return None };
    // There, a gated GELU is always the approximate one.
    let function = match (feed_forward.gated, feed_forward.activation) {
        (true, Activation::GeluNew) => "gated-gelu".to_owned(),
        (true, Activation::Gelu) => return None,
        (gated, other) => {
            let name = json!(other);
            format!("{}{}", if gated { "gated-" } else { "" }, name.as_str().unwrap_or("relu"))
        }
    };
    let mut config = json!({
        "is_encoder_decoder": form.decoder.is_some(),
        "vocab_size": form.vocabulary(),
        "num_layers": encoder.n_layers,
        "num_heads": attention.n_heads,
        "d_model": form.d_model,
        "d_kv": attention.d_head,
        "d_ff": feed_forward.d_hidden,
        "feed_forward_proj": function,
        "relative_attention_num_buckets": buckets,
        "relative_attention_max_distance": max_distance,
        "layer_norm_epsilon": layer.norm.epsilon,
        "dropout_rate": form.dropout.residual,
    });
    match (&form.decoder, form.output.tokens) {
        (Some(decoder), Some(scores)) => {
            config["architectures"] = json!([format!("{}ForConditionalGeneration", variant.name)]);
            config["num_decoder_layers"] = json!(decoder.n_layers);
            config["tie_word_embeddings"] =
                json!(scores.tied || variant.scales == Scales::IfTied && scores.scale != 1.0);
            config["decoder_start_token_id"] = json!(tokens.start?);
            if variant.scales == Scales::ByOption {
                config["scale_decoder_outputs"] = json!(scores.scale != 1.0);
            }
        }
        (None, None) => config["architectures"] = json!([format!("{}EncoderModel", variant.name)]),
        _ => return None,
    }
    Some(config)
}
