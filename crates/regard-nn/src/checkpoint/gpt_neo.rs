//! GPT-Neo (Black et al., 2021): GPT with scores that are not scaled and windows in every other layer.

use super::decoder::Decoder;
use super::family::{Family, Shapes, with_labels};
use super::llama_like::{self, class, output};
use super::names::Names;
use super::options::Options;
use crate::attention::{Biases, Scale};
use crate::error::{Error, Result};
use crate::layers::{Activation, NormConfig};
use crate::models::form::{Attention, FeedForward, Form, Positions};
use serde_json::{Value, json};

pub(super) const GPT_NEO: Family = Family {
    model_type: "gpt_neo",
    architectures: &["GPTNeoForCausalLM", "GPTNeoModel", "GPTNeoForSequenceClassification"],
    prefix: "transformer.",
    read,
    names,
    write,
};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@wte"),
    ("positions.table", "@wpe"),
    ("layers.#.attention_norm", "@h.#.ln_1"),
    ("layers.#.attention.query", "@h.#.attn.attention.q_proj"),
    ("layers.#.attention.key", "@h.#.attn.attention.k_proj"),
    ("layers.#.attention.value", "@h.#.attn.attention.v_proj"),
    ("layers.#.attention.output", "@h.#.attn.attention.out_proj"),
    ("layers.#.ffn_norm", "@h.#.ln_2"),
    ("layers.#.ffn.up", "@h.#.mlp.c_fc"),
    ("layers.#.ffn.down", "@h.#.mlp.c_proj"),
    ("norm", "@ln_f"),
    ("head", "lm_head"),
    ("classifier", "score"),
];

fn names(form: &Form) -> Names {
    let ignored = ["@h.#.attn.attention.bias", "@h.#.attn.attention.masked_bias"];
    llama_like::tied(form, Names::new(PAIRS, &ignored))
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let (d_model, n_heads) = (options.size("hidden_size")?, options.size("num_heads")?);
    let (context, n_layers) = (options.size("max_position_embeddings")?, options.size("num_layers")?);
    let decoder = Decoder {
        d_model,
        vocabulary: options.size("vocab_size")?,
        context: Some(context),
        n_layers,
        deviation: options.real("initializer_range", 0.02)?,
        dropout: options.real("resid_dropout", 0.0)?,
    };
    let attention = Attention {
        bias: Biases { output: true, ..Biases::all(false) },
        scale: Scale::None,
        ..Attention::new(d_model, n_heads)
    };
    let d_hidden = options.optional_size("intermediate_size")?.unwrap_or(d_model.saturating_mul(4));
    let activation = options.take_or("activation_function", Activation::GeluNew)?;
    let feed_forward = FeedForward { bias: true, ..FeedForward::new(d_hidden, activation) };
    let norm = NormConfig::layer(options.real("layer_norm_epsilon", 1e-5)?);
    let mut form =
        decoder.form((attention, feed_forward), norm, output(options, shapes, "transformer.", true)?);
    if let Some(stack) = &mut form.decoder {
        stack.positions = Positions::Learned { context, offset: 0, skips_padding: false };
    }
    let window = llama_like::window(options.optional_size("window_size")?.unwrap_or(256));
    let local = local_layers(options, n_layers)?;
    llama_like::vary(&mut form, |i, layer| layer.attention.window = local[i].then_some(window))?;
    for key in ["type", "use_proj", "activation", "proj_to_labels", "first_dropout"] {
        options.take::<Value>(&format!("summary_{key}"))?;
    }
    options.take::<Value>("embed_dropout")?;
    options.take::<Value>("resid_dropout")?;
    Ok(form)
}

/// Which layers have a window: kinds of layers, each list repeated so many times, as `[[["global", "local"], 12]]`.
fn local_layers(options: &mut Options, n_layers: usize) -> Result<Vec<bool>> {
    // The same, spelled out.
    options.take::<Value>("attention_layers")?;
    let types = options.take::<Vec<(Vec<String>, usize)>>("attention_types")?;
    let types = types.unwrap_or_else(|| vec![(vec!["global".to_owned(), "local".to_owned()], 12)]);
    let mut local = Vec::new();
    for (kinds, times) in types {
        for _ in 0..times.min(n_layers + 1) {
            for kind in &kinds {
                local.push(match kind.as_str() {
                    "global" => false,
                    "local" => true,
                    other => {
                        let problem = format!("config.json: layers of type {other:?} are not implemented");
                        return Err(Error::checkpoint(problem));
                    }
                });
            }
            if local.len() > n_layers {
                break;
            }
        }
    }
    if local.len() != n_layers {
        let problem = format!("config.json: attention_types does not describe {n_layers} layers");
        return Err(Error::checkpoint(problem));
    }
    Ok(local)
}

fn write(form: &Form) -> Option<Value> {
    let stack = form.decoder.as_ref()?;
    let layer = stack.layers.first()?;
    let kind = |name: &&str| if *name == "sliding_attention" { "local" } else { "global" };
    let kinds: Vec<&str> = llama_like::layer_types(form)?.iter().map(kind).collect();
    let config = json!({
        "architectures": [class("GPTNeo", form)],
        "vocab_size": form.vocabulary(),
        "max_position_embeddings": form.context?,
        "hidden_size": form.d_model,
        "num_layers": stack.n_layers,
        "num_heads": layer.attention.n_heads,
        "intermediate_size": layer.feed_forward.d_hidden,
        "window_size": llama_like::window_of(form).unwrap_or(256),
        "attention_types": [[kinds, 1]],
        "activation_function": layer.feed_forward.activation,
        "layer_norm_epsilon": layer.norm.epsilon,
        "initializer_range": form.deviations.inner,
        "resid_dropout": form.dropout.residual,
        "embed_dropout": form.dropout.embeddings,
        "attention_dropout": form.dropout.attention,
        "tie_word_embeddings": form.output.tokens.is_some_and(|scores| scores.tied),
        "bos_token_id": null,
        "eos_token_id": null,
    });
    Some(with_labels(config, form.output.classes))
}
