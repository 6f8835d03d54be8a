//! GPT-2's configuration and names.

use super::family::{Family, Shapes, with_labels};
use super::names::Names;
use super::options::Options;
use crate::attention::Scale;
use crate::error::Result;
use crate::layers::Activation;
use crate::models::GptConfig;
use crate::models::form::{Form, Output, Pooling, Positions};
use serde_json::{Value, json};

pub(super) const GPT2: Family = Family {
    model_type: "gpt2",
    architectures: &["GPT2LMHeadModel", "GPT2Model", "GPT2ForSequenceClassification"],
    prefix: "transformer.",
    read,
    names,
    write,
};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@wte"),
    ("positions.table", "@wpe"),
    ("layers.#.attention_norm", "@h.#.ln_1"),
    ("layers.#.attention.project", "@h.#.attn.c_attn"),
    ("layers.#.attention.output", "@h.#.attn.c_proj"),
    ("layers.#.ffn_norm", "@h.#.ln_2"),
    ("layers.#.ffn.up", "@h.#.mlp.c_fc"),
    ("layers.#.ffn.down", "@h.#.mlp.c_proj"),
    ("norm", "@ln_f"),
    ("head", "lm_head"),
    ("classifier", "score"),
];

fn names(form: &Form) -> Names {
    let names = Names::new(PAIRS, &["@h.#.attn.bias", "@h.#.attn.masked_bias"]);
    let tied = form.output.tokens.is_some_and(|scores| scores.tied);
    if tied { names.with_copies(&[("lm_head.weight", "tokens.weight")]) } else { names }
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let config = GptConfig {
        vocabulary: options.size("vocab_size")?,
        context: options.size("n_positions")?,
        n_layers: options.size("n_layer")?,
        n_heads: options.size("n_head")?,
        d_model: options.size("n_embd")?,
        d_hidden: options.optional_size("n_inner")?,
        dropout: options.real("resid_pdrop", 0.1)?,
        norm_epsilon: options.real("layer_norm_epsilon", 1e-5)?,
        deviation: options.real("initializer_range", 0.02)?,
        activation: options.take_or("activation_function", Activation::GeluNew)?,
        scaled: options.take_or("scale_attn_weights", true)?,
        tied: options.take_or("tie_word_embeddings", true)?,
        ..GptConfig::default()
    };
    let mut form = config.form();
    let by_layer = options.take_or("scale_attn_by_inverse_layer_idx", false)?;
    for layer in form.decoder.iter_mut().flat_map(|stack| &mut stack.layers) {
        layer.attention.scale_by_layer = by_layer;
    }
    if let Some(classes) = shapes.rows("score.weight") {
        let (classes, pooling) = (Some(classes), Pooling::Last);
        form.output = Output { tokens: None, classes, pooling, ..form.output };
    }
    // A classifier on top for other tasks is no part of the model.
    for key in ["type", "use_proj", "activation", "proj_to_labels", "first_dropout"] {
        options.take::<Value>(&format!("summary_{key}"))?;
    }
    options.only("add_cross_attention", false)?;
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let stack = form.decoder.as_ref()?;
    let Positions::Learned { context, .. } = stack.positions else { return None };
    let layer = stack.layers.first()?;
    let class = match form.output.classes {
        Some(_) => "GPT2ForSequenceClassification",
        None => "GPT2LMHeadModel",
    };
    let config = json!({
        "architectures": [class],
        "vocab_size": form.vocabulary(),
        "n_positions": context,
        "n_layer": stack.n_layers,
        "n_head": layer.attention.n_heads,
        "n_embd": form.d_model,
        "n_inner": layer.feed_forward.d_hidden,
        "activation_function": layer.feed_forward.activation,
        "layer_norm_epsilon": layer.norm.epsilon,
        "initializer_range": form.deviations.inner,
        "resid_pdrop": form.dropout.residual,
        "embd_pdrop": form.dropout.embeddings,
        "attn_pdrop": form.dropout.attention,
        "scale_attn_weights": layer.attention.scale == Scale::InverseRoot,
        "scale_attn_by_inverse_layer_idx": layer.attention.scale_by_layer,
        "tie_word_embeddings": form.output.tokens.is_none_or(|scores| scores.tied),
        "bos_token_id": null,
        "eos_token_id": null,
    });
    Some(with_labels(config, form.output.classes))
}
