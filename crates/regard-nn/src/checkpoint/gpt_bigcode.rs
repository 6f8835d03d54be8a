//! GPT-BigCode (StarCoder; Li et al., 2023): GPT-2 in which all heads share one head of keys and values.

use super::decoder::Decoder;
use super::family::{Family, Shapes, with_labels};
use super::llama_like::{self, class, output};
use super::names::Names;
use super::options::Options;
use super::part::side_by_side;
use crate::attention::Scale;
use crate::error::Result;
use crate::layers::{Activation, NormConfig};
use crate::models::form::{Attention, FeedForward, Form, Positions};
use serde_json::{Value, json};

pub(super) const GPT_BIGCODE: Family = Family {
    model_type: "gpt_bigcode",
    architectures: &["GPTBigCodeForCausalLM", "GPTBigCodeModel", "GPTBigCodeForSequenceClassification"],
    prefix: "transformer.",
    read,
    names,
    write,
};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@wte"),
    ("positions.table", "@wpe"),
    ("layers.#.attention_norm", "@h.#.ln_1"),
    ("layers.#.attention.query", "@h.#.attn.c_attn"),
    ("layers.#.attention.key", "@h.#.attn.c_attn"),
    ("layers.#.attention.value", "@h.#.attn.c_attn"),
    ("layers.#.attention.output", "@h.#.attn.c_proj"),
    ("layers.#.ffn_norm", "@h.#.ln_2"),
    ("layers.#.ffn.up", "@h.#.mlp.c_fc"),
    ("layers.#.ffn.down", "@h.#.mlp.c_proj"),
    ("norm", "@ln_f"),
    ("head", "lm_head"),
    ("classifier", "score"),
];

fn names(form: &Form) -> Names {
    llama_like::tied(form, Names::new(PAIRS, &["@h.#.attn.bias"]).with_parts(side_by_side(form)))
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let (d_model, n_heads) = (options.size("n_embd")?, options.size("n_head")?);
    let context = options.size("n_positions")?;
    let decoder = Decoder {
        d_model,
        vocabulary: options.size("vocab_size")?,
        context: Some(context),
        n_layers: options.size("n_layer")?,
        deviation: options.real("initializer_range", 0.02)?,
        dropout: options.real("resid_pdrop", 0.1)?,
    };
    let scaled = options.take_or("scale_attn_weights", true)?;
    let attention = Attention {
        n_kv_heads: if options.take_or("multi_query", true)? { 1 } else { n_heads },
        scale: if scaled { Scale::InverseRoot } else { Scale::None },
        ..Attention::new(d_model, n_heads)
    };
    let d_hidden = options.optional_size("n_inner")?.unwrap_or(d_model.saturating_mul(4));
    let activation = options.take_or("activation_function", Activation::GeluNew)?;
    let feed_forward = FeedForward { bias: true, ..FeedForward::new(d_hidden, activation) };
    let norm = NormConfig::layer(options.real("layer_norm_epsilon", 1e-5)?);
    let mut form =
        decoder.form((attention, feed_forward), norm, output(options, shapes, "transformer.", true)?);
    if let Some(stack) = &mut form.decoder {
        stack.positions = Positions::Learned { context, offset: 0, skips_padding: false };
    }
    // How it is computed elsewhere, in types of fewer digits.
    let elsewhere = [
        "attention_softmax_in_fp32",
        "scale_attention_softmax_in_fp32",
        "num_key_value_heads",
        "inference_runner",
        "max_batch_size",
        "max_sequence_length",
        "pad_key_length",
        "pre_allocate_kv_cache",
        "validate_runner_input",
    ];
    for key in elsewhere {
        options.take::<Value>(key)?;
    }
    for key in ["type", "use_proj", "activation", "proj_to_labels", "first_dropout"] {
        options.take::<Value>(&format!("summary_{key}"))?;
    }
    options.only("add_cross_attention", false)?;
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let stack = form.decoder.as_ref()?;
    let layer = stack.layers.first()?;
    let config = json!({
        "architectures": [class("GPTBigCode", form)],
        "vocab_size": form.vocabulary(),
        "n_positions": form.context?,
        "n_embd": form.d_model,
        "n_layer": stack.n_layers,
        "n_head": layer.attention.n_heads,
        "n_inner": layer.feed_forward.d_hidden,
        "multi_query": layer.attention.n_kv_heads == 1,
        "activation_function": layer.feed_forward.activation,
        "layer_norm_epsilon": layer.norm.epsilon,
        "initializer_range": form.deviations.inner,
        "resid_pdrop": form.dropout.residual,
        "embd_pdrop": form.dropout.embeddings,
        "attn_pdrop": form.dropout.attention,
        "scale_attn_weights": layer.attention.scale == Scale::InverseRoot,
        "tie_word_embeddings": form.output.tokens.is_some_and(|scores| scores.tied),
        "bos_token_id": null,
        "eos_token_id": null,
    });
    Some(with_labels(config, form.output.classes))
}
