//! BLOOM (Scao et al., 2022): ALiBi, and a norm of the embeddings.

use super::decoder::Decoder;
use super::family::{Family, Shapes, with_labels};
use super::llama_like::{self, class, output};
use super::names::Names;
use super::options::Options;
use super::part::side_by_side;
use crate::error::Result;
use crate::layers::{Activation, NormConfig};
use crate::models::form::{Attention, AttentionPositions, FeedForward, Form, Input};
use serde_json::{Value, json};

pub(super) const BLOOM: Family = Family {
    model_type: "bloom",
    architectures: &["BloomForCausalLM", "BloomModel", "BloomForSequenceClassification"],
    prefix: "transformer.",
    read,
    names,
    write,
};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@word_embeddings"),
    ("embedding_norm", "@word_embeddings_layernorm"),
    ("layers.#.attention_norm", "@h.#.input_layernorm"),
    ("layers.#.attention.query", "@h.#.self_attention.query_key_value"),
    ("layers.#.attention.key", "@h.#.self_attention.query_key_value"),
    ("layers.#.attention.value", "@h.#.self_attention.query_key_value"),
    ("layers.#.attention.output", "@h.#.self_attention.dense"),
    ("layers.#.ffn_norm", "@h.#.post_attention_layernorm"),
    ("layers.#.ffn.up", "@h.#.mlp.dense_h_to_4h"),
    ("layers.#.ffn.down", "@h.#.mlp.dense_4h_to_h"),
    ("norm", "@ln_f"),
    ("head", "lm_head"),
    ("classifier", "score"),
];

fn names(form: &Form) -> Names {
    llama_like::tied(form, Names::new(PAIRS, &[]).with_parts(side_by_side(form)))
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    for (older, newer) in
        [("n_embed", "hidden_size"), ("num_hidden_layers", "n_layer"), ("num_attention_heads", "n_head")]
    {
        options.rename(older, newer);
    }
    let (d_model, n_heads) = (options.size("hidden_size")?, options.size("n_head")?);
    let decoder = Decoder {
        d_model,
        vocabulary: options.size("vocab_size")?,
        context: None,
        n_layers: options.size("n_layer")?,
        deviation: options.real("initializer_range", 0.02)?,
        dropout: options.real("hidden_dropout", 0.0)?,
    };
    let attention =
        Attention { positions: Some(AttentionPositions::Alibi), ..Attention::new(d_model, n_heads) };
    let feed_forward =
        FeedForward { bias: true, ..FeedForward::new(d_model.saturating_mul(4), Activation::GeluNew) };
    let norm = NormConfig::layer(options.real("layer_norm_epsilon", 1e-5)?);
    let mut form =
        decoder.form((attention, feed_forward), norm, output(options, shapes, "transformer.", true)?);
    if let Input::Tokens(tokens) = &mut form.input {
        tokens.norm = Some(norm);
    }
    options.only("apply_residual_connection_post_layernorm", false)?;
    // How it was trained and is split over machines.
    let elsewhere = [
        "attention_softmax_in_fp32",
        "bias_dropout_fusion",
        "masked_softmax_fusion",
        "offset_alibi",
        "pretraining_tp",
        "seq_length",
        "skip_bias_add",
        "skip_bias_add_qkv",
        "slow_but_exact",
        "unk_token_id",
    ];
    for key in elsewhere {
        options.take::<Value>(key)?;
    }
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let stack = form.decoder.as_ref()?;
    let layer = stack.layers.first()?;
    let config = json!({
        "architectures": [class("Bloom", form)],
        "vocab_size": form.vocabulary(),
        "hidden_size": form.d_model,
        "n_layer": stack.n_layers,
        "n_head": layer.attention.n_heads,
        "layer_norm_epsilon": layer.norm.epsilon,
        "initializer_range": form.deviations.inner,
        "hidden_dropout": form.dropout.residual,
        "attention_dropout": form.dropout.attention,
        "tie_word_embeddings": form.output.tokens.is_some_and(|scores| scores.tied),
        "pad_token_id": null,
        "bos_token_id": null,
        "eos_token_id": null,
    });
    Some(with_labels(config, form.output.classes))
}
