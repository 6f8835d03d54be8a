//! MPT (MosaicML, 2023): ALiBi, norms without biases, one projection for queries, keys and values.

use super::decoder::Decoder;
use super::family::{Family, Shapes, with_labels};
use super::llama_like::{self, class, output};
use super::names::Names;
use super::options::Options;
use crate::attention::{Biases, Scale};
use crate::error::Result;
use crate::layers::{Activation, NormConfig, NormKind};
use crate::models::form::{Attention, AttentionPositions, FeedForward, Form};
use serde_json::{Map, Value, json};

pub(super) const MPT: Family = Family {
    model_type: "mpt",
    architectures: &["MptForCausalLM", "MPTForCausalLM", "MptModel", "MptForSequenceClassification"],
    prefix: "transformer.",
    read,
    names,
    write,
};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@wte"),
    ("layers.#.attention_norm", "@blocks.#.norm_1"),
    ("layers.#.attention.project", "@blocks.#.attn.Wqkv"),
    ("layers.#.attention.output", "@blocks.#.attn.out_proj"),
    ("layers.#.ffn_norm", "@blocks.#.norm_2"),
    ("layers.#.ffn.up", "@blocks.#.ffn.up_proj"),
    ("layers.#.ffn.down", "@blocks.#.ffn.down_proj"),
    ("norm", "@norm_f"),
    ("head", "lm_head"),
    ("classifier", "score"),
];

fn names(form: &Form) -> Names {
    llama_like::tied(form, Names::new(PAIRS, &[]))
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let (d_model, n_heads) = (options.size("d_model")?, options.size("n_heads")?);
    let decoder = Decoder {
        d_model,
        vocabulary: options.size("vocab_size")?,
        context: Some(options.size("max_seq_len")?),
        n_layers: options.size("n_layers")?,
        deviation: options.real("initializer_range", 0.02)?,
        dropout: options.real("resid_pdrop", 0.0)?,
    };
    let mut inner = Options::new(options.take_or("attn_config", Map::new())?);
    let attention = Attention {
        fused: true,
        bias: Biases::all(false),
        clip: inner.real_or_null("clip_qkv", None)?.filter(|&limit| limit != 0.0),
        scale: inner.real_or_null("softmax_scale", None)?.map_or(Scale::InverseRoot, Scale::Factor),
        positions: Some(AttentionPositions::Alibi),
        ..Attention::new(d_model, n_heads)
    };
    inner.only("attn_type", "multihead_attention")?;
    inner.only("alibi", true)?;
    inner.only("alibi_bias_max", 8)?;
    inner.only("qk_ln", false)?;
    inner.only("prefix_lm", false)?;
    inner.only("attn_uses_sequence_id", false)?;
    // Which code computes it.
    inner.take::<Value>("attn_impl")?;
    inner.finish()?;
    options.only("expansion_ratio", 4)?;
    let feed_forward = FeedForward::new(d_model.saturating_mul(4), Activation::Gelu);
    let epsilon = options.real("layer_norm_epsilon", 1e-5)?;
    let norm = NormConfig { kind: NormKind::LayerWithoutBias, epsilon };
    let form = decoder.form((attention, feed_forward), norm, output(options, shapes, "transformer.", true)?);
    options.only("no_bias", true)?;
    // transformers reads these and uses none of them.
    for key in ["learned_pos_emb", "init_device", "logit_scale", "embedding_fraction", "norm_type", "verbose"]
    {
        options.take::<Value>(key)?;
    }
    for key in ["emb_pdrop", "init_config", "tokenizer_name"] {
        options.take::<Value>(key)?;
    }
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let stack = form.decoder.as_ref()?;
    let layer = stack.layers.first()?;
    let scale = match layer.attention.scale {
        Scale::Factor(factor) => Some(factor),
        _ => None,
    };
    let config = json!({
        "architectures": [class("Mpt", form)],
        "vocab_size": form.vocabulary(),
        "max_seq_len": form.context?,
        "d_model": form.d_model,
        "n_layers": stack.n_layers,
        "n_heads": layer.attention.n_heads,
        "expansion_ratio": 4,
        "attn_config": {"clip_qkv": layer.attention.clip, "softmax_scale": scale},
        "layer_norm_epsilon": layer.norm.epsilon,
        "initializer_range": form.deviations.inner,
        "resid_pdrop": form.dropout.residual,
        "no_bias": true,
        "tie_word_embeddings": form.output.tokens.is_some_and(|scores| scores.tied),
    });
    Some(with_labels(config, form.output.classes))
}
