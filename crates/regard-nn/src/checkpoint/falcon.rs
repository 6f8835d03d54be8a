//! Falcon (Almazrouei et al., 2023): one key-value head (7B) or a few (40B), parallel sublayers with one norm or two.

use super::decoder::Decoder;
use super::family::{Family, Shapes, with_labels};
use super::llama_like::{self, class, output};
use super::names::Names;
use super::options::Options;
use super::part::side_by_side;
use super::rotary;
use crate::attention::Biases;
use crate::block::Placement;
use crate::error::Result;
use crate::layers::{Activation, NormConfig};
use crate::models::form::{Attention, AttentionPositions, FeedForward, Form};
use serde_json::{Value, json};

pub(super) const FALCON: Family = Family {
    model_type: "falcon",
    architectures: &["FalconForCausalLM", "FalconModel", "FalconForSequenceClassification"],
    prefix: "transformer.",
    read,
    names,
    write,
};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@word_embeddings"),
    ("layers.#.attention.query", "@h.#.self_attention.query_key_value"),
    ("layers.#.attention.key", "@h.#.self_attention.query_key_value"),
    ("layers.#.attention.value", "@h.#.self_attention.query_key_value"),
    ("layers.#.attention.output", "@h.#.self_attention.dense"),
    ("layers.#.ffn.up", "@h.#.mlp.dense_h_to_4h"),
    ("layers.#.ffn.down", "@h.#.mlp.dense_4h_to_h"),
    ("norm", "@ln_f"),
    ("head", "lm_head"),
    ("classifier", "score"),
];

fn names(form: &Form) -> Names {
    let placement = form.decoder.as_ref().and_then(|stack| stack.layers.first()).map(|layer| layer.placement);
    let norms = match placement {
        Some(Placement::Parallel) => {
            [("layers.#.attention_norm", "@h.#.ln_attn"), ("layers.#.ffn_norm", "@h.#.ln_mlp")]
        }
        _ => [
            ("layers.#.attention_norm", "@h.#.input_layernorm"),
            ("layers.#.ffn_norm", "@h.#.post_attention_layernorm"),
        ],
    };
    let pairs = [&norms[..], PAIRS].concat();
    llama_like::tied(form, Names::new(&pairs, &[]).with_parts(side_by_side(form)))
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    for (older, newer) in
        [("n_embed", "hidden_size"), ("n_layer", "num_hidden_layers"), ("n_head", "num_attention_heads")]
    {
        options.rename(older, newer);
    }
    let (d_model, n_heads) = (options.size("hidden_size")?, options.size("num_attention_heads")?);
    let context = options.optional_size("max_position_embeddings")?.unwrap_or(2048);
    let decoder = Decoder {
        d_model,
        vocabulary: options.size("vocab_size")?,
        context: Some(context),
        n_layers: options.size("num_hidden_layers")?,
        deviation: options.real("initializer_range", 0.02)?,
        dropout: options.real_or_null("hidden_dropout", None)?.unwrap_or(0.0),
    };
    options.only("alibi", false)?;
    let grouped = options.take_or("new_decoder_architecture", false)?;
    let shared = options.take_or("multi_query", true)?;
    let parallel = options.take_or("parallel_attn", true)?;
    let n_kv_heads = options.optional_size("num_kv_heads")?.unwrap_or(n_heads);
    let two_norms = options.optional_size("num_ln_in_parallel_attn")?.unwrap_or(2) == 2;
    let bias = options.take_or("bias", false)?;
    let d_head = d_model / n_heads;
    let defaults = rotary::Defaults { base: 10_000.0, partial: 1.0, d_head, context };
    let attention = Attention {
        n_kv_heads: match (grouped, shared) {
            (true, _) => n_kv_heads,
            (false, true) => 1,
            (false, false) => n_heads,
        },
        bias: Biases::all(bias),
        positions: Some(AttentionPositions::Rotary(rotary::read(options, defaults)?)),
        ..Attention::new(d_model, n_heads)
    };
    let d_hidden = options.optional_size("ffn_hidden_size")?.unwrap_or(d_model.saturating_mul(4));
    let activation = options.take_or("activation", Activation::Gelu)?;
    let feed_forward = FeedForward { bias, ..FeedForward::new(d_hidden, activation) };
    let norm = NormConfig::layer(options.real("layer_norm_epsilon", 1e-5)?);
    let mut form =
        decoder.form((attention, feed_forward), norm, output(options, shapes, "transformer.", true)?);
    let placement = match (grouped, parallel) {
        (true, _) if two_norms => Placement::Parallel,
        (true, _) | (false, true) => Placement::ParallelShared,
        (false, false) => Placement::Pre,
    };
    llama_like::change(&mut form, |layer| layer.placement = placement);
    options.take::<Value>("apply_residual_connection_post_layernorm")?;
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let stack = form.decoder.as_ref()?;
    let layer = stack.layers.first()?;
    let (attention, placement) = (&layer.attention, layer.placement);
    let Some(AttentionPositions::Rotary(rotary)) = &attention.positions else { return None };
    // The newer architecture has both norms, or as many key-value heads as it likes.
    let alone = attention.n_kv_heads == 1;
    let grouped = placement == Placement::Parallel || !(alone || attention.n_kv_heads == attention.n_heads);
    let config = json!({
        "architectures": [class("Falcon", form)],
        "vocab_size": form.vocabulary(),
        "max_position_embeddings": form.context?,
        "hidden_size": form.d_model,
        "num_hidden_layers": stack.n_layers,
        "num_attention_heads": attention.n_heads,
        "num_kv_heads": attention.n_kv_heads,
        "new_decoder_architecture": grouped,
        "multi_query": alone,
        "parallel_attn": placement.is_parallel(),
        "num_ln_in_parallel_attn": grouped.then_some(if placement == Placement::Parallel { 2 } else { 1 }),
        "alibi": false,
        "bias": attention.bias.query,
        "ffn_hidden_size": layer.feed_forward.d_hidden,
        "activation": layer.feed_forward.activation,
        "rope_parameters": rotary::write(rotary, attention.d_head),
        "layer_norm_epsilon": layer.norm.epsilon,
        "initializer_range": form.deviations.inner,
        "hidden_dropout": form.dropout.residual,
        "attention_dropout": form.dropout.attention,
        "tie_word_embeddings": form.output.tokens.is_some_and(|scores| scores.tied),
        "bos_token_id": null,
        "eos_token_id": null,
    });
    Some(with_labels(config, form.output.classes))
}
