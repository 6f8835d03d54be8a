//! GPT-J (Wang & Komatsuzaki, 2021): parallel sublayers that share a norm, neighbouring features rotated, scores with biases.

use super::decoder::Decoder;
use super::family::{Family, Shapes, with_labels};
use super::llama_like::{self, class, output};
use super::names::Names;
use super::options::Options;
use crate::attention::Biases;
use crate::block::Placement;
use crate::error::Result;
use crate::layers::{Activation, NormConfig};
use crate::models::form::{Attention, AttentionPositions, FeedForward, Form};
use crate::position::RotaryConfig;
use serde_json::{Value, json};

pub(super) const GPT_J: Family = Family {
    model_type: "gptj",
    architectures: &["GPTJForCausalLM", "GPTJModel", "GPTJForSequenceClassification"],
    prefix: "transformer.",
    read,
    names,
    write,
};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@wte"),
    ("layers.#.attention_norm", "@h.#.ln_1"),
    ("layers.#.attention.query", "@h.#.attn.q_proj"),
    ("layers.#.attention.key", "@h.#.attn.k_proj"),
    ("layers.#.attention.value", "@h.#.attn.v_proj"),
    ("layers.#.attention.output", "@h.#.attn.out_proj"),
    ("layers.#.ffn.up", "@h.#.mlp.fc_in"),
    ("layers.#.ffn.down", "@h.#.mlp.fc_out"),
    ("norm", "@ln_f"),
    ("head", "lm_head"),
    ("token_head.bias", "lm_head.bias"),
    ("classifier", "score"),
];

fn names(form: &Form) -> Names {
    let ignored = ["@h.#.attn.bias", "@h.#.attn.masked_bias", "@h.#.attn.embed_positions"];
    llama_like::tied(form, Names::new(PAIRS, &ignored))
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let (d_model, n_heads) = (options.size("n_embd")?, options.size("n_head")?);
    let decoder = Decoder {
        d_model,
        vocabulary: options.size("vocab_size")?,
        context: Some(options.size("n_positions")?),
        n_layers: options.size("n_layer")?,
        deviation: options.real("initializer_range", 0.02)?,
        dropout: options.real("resid_pdrop", 0.0)?,
    };
    let width = options.size_or_null("rotary_dim", Some(64))?;
    let rotary = RotaryConfig { width, interleaved: true, ..RotaryConfig::default() };
    let attention = Attention {
        bias: Biases::all(false),
        positions: Some(AttentionPositions::Rotary(rotary)),
        ..Attention::new(d_model, n_heads)
    };
    let d_hidden = options.optional_size("n_inner")?.unwrap_or(d_model.saturating_mul(4));
    let activation = options.take_or("activation_function", Activation::GeluNew)?;
    let feed_forward = FeedForward { bias: true, ..FeedForward::new(d_hidden, activation) };
    let norm = NormConfig::layer(options.real("layer_norm_epsilon", 1e-5)?);
    let mut form =
        decoder.form((attention, feed_forward), norm, output(options, shapes, "transformer.", false)?);
    llama_like::change(&mut form, |layer| layer.placement = Placement::ParallelShared);
    if let Some(scores) = &mut form.output.tokens {
        scores.bias = true;
    }
    for key in ["type", "use_proj", "activation", "proj_to_labels", "first_dropout"] {
        options.take::<Value>(&format!("summary_{key}"))?;
    }
    options.only("scale_attn_weights", true)?;
    options.only("rotary", true)?;
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let stack = form.decoder.as_ref()?;
    let layer = stack.layers.first()?;
    let Some(AttentionPositions::Rotary(rotary)) = &layer.attention.positions else { return None };
    let config = json!({
        "architectures": [class("GPTJ", form)],
        "vocab_size": form.vocabulary(),
        "n_positions": form.context?,
        "n_embd": form.d_model,
        "n_layer": stack.n_layers,
        "n_head": layer.attention.n_heads,
        "n_inner": layer.feed_forward.d_hidden,
        "rotary_dim": rotary.width,
        "activation_function": layer.feed_forward.activation,
        "layer_norm_epsilon": layer.norm.epsilon,
        "initializer_range": form.deviations.inner,
        "resid_pdrop": form.dropout.residual,
        "embd_pdrop": form.dropout.embeddings,
        "attn_pdrop": form.dropout.attention,
        "tie_word_embeddings": form.output.tokens.is_some_and(|scores| scores.tied),
        "bos_token_id": null,
        "eos_token_id": null,
    });
    Some(with_labels(config, form.output.classes))
}
