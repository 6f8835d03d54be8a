//! OPT (Zhang et al., 2022): positions that begin at row 2; its second size has norms after the sums and narrow embeddings.

use super::decoder::Decoder;
use super::family::{Family, Shapes, with_labels};
use super::llama_like::{self, class, output};
use super::names::Names;
use super::options::Options;
use crate::attention::Biases;
use crate::block::Placement;
use crate::error::Result;
use crate::layers::{Activation, NormConfig};
use crate::models::form::{Attention, FeedForward, Form, Input, Positions, Projection};
use serde_json::{Value, json};

pub(super) const OPT: Family = Family {
    model_type: "opt",
    architectures: &["OPTForCausalLM", "OPTModel", "OPTForSequenceClassification"],
    prefix: "model.",
    read,
    names,
    write,
};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@decoder.embed_tokens"),
    ("positions.table", "@decoder.embed_positions"),
    ("projection", "@decoder.project_in"),
    ("layers.#.attention_norm", "@decoder.layers.#.self_attn_layer_norm"),
    ("layers.#.attention.query", "@decoder.layers.#.self_attn.q_proj"),
    ("layers.#.attention.key", "@decoder.layers.#.self_attn.k_proj"),
    ("layers.#.attention.value", "@decoder.layers.#.self_attn.v_proj"),
    ("layers.#.attention.output", "@decoder.layers.#.self_attn.out_proj"),
    ("layers.#.ffn_norm", "@decoder.layers.#.final_layer_norm"),
    ("layers.#.ffn.up", "@decoder.layers.#.fc1"),
    ("layers.#.ffn.down", "@decoder.layers.#.fc2"),
    ("norm", "@decoder.final_layer_norm"),
    ("token_head.projection", "@decoder.project_out"),
    ("head", "lm_head"),
    ("classifier", "score"),
];

/// The row of the table that the first position has.
const OFFSET: usize = 2;

fn names(form: &Form) -> Names {
    llama_like::tied(form, Names::new(PAIRS, &[]))
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let (d_model, n_heads) = (options.size("hidden_size")?, options.size("num_attention_heads")?);
    let context = options.size("max_position_embeddings")?;
    let decoder = Decoder {
        d_model,
        vocabulary: options.size("vocab_size")?,
        context: Some(context),
        n_layers: options.size("num_hidden_layers")?,
        deviation: options.real("init_std", 0.02)?,
        dropout: options.real("dropout", 0.1)?,
    };
    let bias = options.take_or("enable_bias", true)?;
    let attention = Attention { bias: Biases::all(bias), ..Attention::new(d_model, n_heads) };
    let activation = options.take_or("activation_function", Activation::Relu)?;
    let feed_forward = FeedForward { bias, ..FeedForward::new(options.size("ffn_dim")?, activation) };
    let mut form = decoder.form(
        (attention, feed_forward),
        NormConfig::layer(1e-5),
        output(options, shapes, "model.", true)?,
    );
    let before = options.take_or("do_layer_norm_before", true)?;
    let removed = options.take_or("_remove_final_layer_norm", false)?;
    if let Some(stack) = &mut form.decoder {
        stack.positions = Positions::Learned { context, offset: OFFSET, skips_padding: false };
        stack.norm = stack.norm.filter(|_| before && !removed);
    }
    llama_like::change(&mut form, |layer| {
        layer.placement = if before { Placement::Pre } else { Placement::Post };
    });
    let width = options.optional_size("word_embed_proj_dim")?.filter(|&width| width != d_model);
    if let (Some(width), Input::Tokens(tokens)) = (width, &mut form.input) {
        (tokens.d_embedding, tokens.projection) = (Some(width), Projection::BeforePositions);
        if let Some(scores) = &mut form.output.tokens {
            scores.projected = true;
        }
    }
    options.only("layer_norm_elementwise_affine", true)?;
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let stack = form.decoder.as_ref()?;
    let layer = stack.layers.first()?;
    let before = layer.placement == Placement::Pre;
    // Hidden states of another width than the embeddings' are projected in any case there.
    if form.output.tokens.is_none() && form.d_embedding() != form.d_model {
        return None;
    }
    let config = json!({
        "architectures": [class("OPT", form)],
        "vocab_size": form.vocabulary(),
        "max_position_embeddings": form.context?,
        "hidden_size": form.d_model,
        "num_hidden_layers": stack.n_layers,
        "num_attention_heads": layer.attention.n_heads,
        "ffn_dim": layer.feed_forward.d_hidden,
        "word_embed_proj_dim": form.d_embedding(),
        "do_layer_norm_before": before,
        "_remove_final_layer_norm": before && stack.norm.is_none(),
        "enable_bias": layer.attention.bias.query,
        "activation_function": layer.feed_forward.activation,
        "init_std": form.deviations.inner,
        "dropout": form.dropout.residual,
        "attention_dropout": form.dropout.attention,
        "tie_word_embeddings": form.output.tokens.is_some_and(|scores| scores.tied),
        "pad_token_id": null,
        "bos_token_id": null,
        "eos_token_id": null,
    });
    Some(with_labels(config, form.output.classes))
}
