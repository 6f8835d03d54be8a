//! The configurations and names of CLIP's and SigLIP's towers, which make vectors of texts and of pictures.

use super::family::{Family, Shapes};
use super::names::Names;
use super::options::Options;
use super::part::{pooler_thirds, whole};
use super::vit::sides;
use crate::error::Result;
use crate::layers::{Activation, NormConfig};
use crate::models::form::{
    Attention, AttentionPooler, Deviations, Dropouts, FeedForward, Form, Input, Layer, Output, Patches,
    Pooling, Positions, Stack, Tokens, Vector,
};
use serde_json::{Value, json};

pub(super) const CLIP_TEXT: Family = Family {
    model_type: "clip_text_model",
    architectures: &["CLIPTextModel", "CLIPTextModelWithProjection"],
    prefix: "text_model.",
    read: |options, shapes| read_text(options, shapes, Kind::Clip),
    names: |form| names(form, "text_model."),
    write: write_clip_text,
};

pub(super) const CLIP_VISION: Family = Family {
    model_type: "clip_vision_model",
    architectures: &["CLIPVisionModel", "CLIPVisionModelWithProjection"],
    prefix: "vision_model.",
    read: |options, shapes| read_vision(options, shapes, Kind::Clip),
    names: |form| names(form, "vision_model."),
    write: write_clip_vision,
};

pub(super) const SIGLIP_TEXT: Family = Family {
    model_type: "siglip_text_model",
    architectures: &["SiglipTextModel"],
    prefix: "text_model.",
    read: |options, shapes| read_text(options, shapes, Kind::Siglip),
    names: |form| names(form, ""),
    write: write_siglip_text,
};

pub(super) const SIGLIP_VISION: Family = Family {
    model_type: "siglip_vision_model",
    architectures: &["SiglipVisionModel"],
    prefix: "vision_model.",
    read: |options, shapes| read_vision(options, shapes, Kind::Siglip),
    names: |form| names(form, ""),
    write: write_siglip_vision,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Clip,
    Siglip,
}

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@embeddings.token_embedding"),
    ("class", "@embeddings.class_embedding"),
    ("patches", "@embeddings.patch_embedding"),
    ("positions.table", "@embeddings.position_embedding"),
    ("input_norm", "@pre_layrnorm"),
    ("layers.#.attention_norm", "@encoder.layers.#.layer_norm1"),
    ("layers.#.attention.query", "@encoder.layers.#.self_attn.q_proj"),
    ("layers.#.attention.key", "@encoder.layers.#.self_attn.k_proj"),
    ("layers.#.attention.value", "@encoder.layers.#.self_attn.v_proj"),
    ("layers.#.attention.output", "@encoder.layers.#.self_attn.out_proj"),
    ("layers.#.ffn_norm", "@encoder.layers.#.layer_norm2"),
    ("layers.#.ffn.up", "@encoder.layers.#.mlp.fc1"),
    ("layers.#.ffn.down", "@encoder.layers.#.mlp.fc2"),
    ("attention_pooler.query", "@head.probe"),
    ("attention_pooler.attention.query.weight", "@head.attention.in_proj_weight"),
    ("attention_pooler.attention.key.weight", "@head.attention.in_proj_weight"),
    ("attention_pooler.attention.value.weight", "@head.attention.in_proj_weight"),
    ("attention_pooler.attention.query.bias", "@head.attention.in_proj_bias"),
    ("attention_pooler.attention.key.bias", "@head.attention.in_proj_bias"),
    ("attention_pooler.attention.value.bias", "@head.attention.in_proj_bias"),
    ("attention_pooler.attention.output", "@head.attention.out_proj"),
    ("attention_pooler.norm", "@head.layernorm"),
    ("attention_pooler.ffn.up", "@head.mlp.fc1"),
    ("attention_pooler.ffn.down", "@head.mlp.fc2"),
];

/// Names; a model with a projection beside its tower has the tower's name before the others.
fn names(form: &Form, tower: &'static str) -> Names {
    let (text, siglip) = (matches!(form.input, Input::Tokens(_)), tower.is_empty());
    let norm = if text { "@final_layer_norm" } else { "@post_layernorm" };
    let vector = match (text, siglip) {
        (_, true) => "@head",
        (true, false) => "text_projection",
        (false, false) => "visual_projection",
    };
    let pairs = [PAIRS, &[("norm", norm), ("vector", vector)]].concat();
    let mut parts = pooler_thirds(form.d_model);
    if !siglip {
        parts.push(("class", whole(vec![form.d_model])));
    }
    let names = Names::new(&pairs, &["@embeddings.position_ids"]).with_parts(parts);
    let projected = form.output.vector.is_some_and(|vector| vector.projection.is_some());
    if projected && !siglip { names.with_own_prefix(tower) } else { names }
}

/// Layers that all towers have.
fn read_stack(options: &mut Options, kind: Kind) -> Result<(usize, Stack)> {
    let (d_model, n_heads) = (options.size("hidden_size")?, options.size("num_attention_heads")?);
    let (activation, epsilon) = match kind {
        Kind::Clip => (Activation::QuickGelu, 1e-5),
        Kind::Siglip => (Activation::GeluNew, 1e-6),
    };
    let norm = NormConfig::layer(options.real("layer_norm_eps", epsilon)?);
    let layer = Layer {
        attention: Attention::new(d_model, n_heads),
        cross: None,
        feed_forward: FeedForward {
            bias: true,
            ..FeedForward::new(options.size("intermediate_size")?, options.take_or("hidden_act", activation)?)
        },
        norm,
        placement: crate::block::Placement::Pre,
        residual_scale: 1.0,
        layer_scale: None,
    };
    let n_layers = options.size("num_hidden_layers")?;
    Ok((d_model, Stack { norm: Some(norm), ..Stack::of(n_layers, layer) }))
}

fn read_text(options: &mut Options, shapes: &Shapes, kind: Kind) -> Result<Form> {
    let (d_model, mut stack) = read_stack(options, kind)?;
    let context = options.size("max_position_embeddings")?;
    stack.positions = Positions::Learned { context, offset: 0, skips_padding: false };
    let vocabulary = options.size("vocab_size")?;
    let end = options.take_or("eos_token_id", 49_407)?;
    options.take::<Value>("projection_dim")?;
    let width = options.optional_size("projection_size")?.unwrap_or(d_model);
    let (pooling, projection) = match kind {
        // The first models have the wrong id in their configurations.
        Kind::Clip if end == 2 => {
            (Pooling::Largest, shapes.rows("text_projection.weight").map(|to| (to, false)))
        }
        Kind::Clip => (Pooling::Token(end), shapes.rows("text_projection.weight").map(|to| (to, false))),
        Kind::Siglip => (Pooling::End, Some((width, true))),
    };
    let (encoder, decoder) = match kind {
        Kind::Clip => (None, Some(stack)),
        Kind::Siglip => (Some(stack), None),
    };
    Ok(Form {
        family: String::new(),
        d_model,
        context: Some(context),
        input: Input::Tokens(Tokens::new(vocabulary)),
        encoder,
        decoder,
        output: Output { pooling, vector: Some(Vector { projection }), ..Output::default() },
        dropout: Dropouts::default(),
        deviations: Deviations::all(options.real("initializer_range", 0.02)?),
        checkpointing: false,
    })
}

fn read_vision(options: &mut Options, shapes: &Shapes, kind: Kind) -> Result<Form> {
    let (d_model, mut stack) = read_stack(options, kind)?;
    let patches = Patches {
        bias: kind == Kind::Siglip,
        class: kind == Kind::Clip,
        ..Patches::new(
            sides(options.take::<Value>("image_size")?.as_ref())?,
            options.size("patch_size")?,
            options.optional_size("num_channels")?.unwrap_or(3),
        )
    };
    let context = patches.count().saturating_add(patches.first());
    stack.positions = Positions::Learned { context, offset: 0, skips_padding: false };
    options.take::<Value>("projection_dim")?;
    let gathers = options.take_or("vision_use_head", true)? && kind == Kind::Siglip;
    let layer = &stack.layers[0];
    let pooler = AttentionPooler {
        n_heads: layer.attention.n_heads,
        d_hidden: layer.feed_forward.d_hidden,
        activation: layer.feed_forward.activation,
        norm: layer.norm,
    };
    let projection = shapes.rows("visual_projection.weight").map(|width| (width, false));
    let output = Output {
        attention_pooler: gathers.then_some(pooler),
        vector: (gathers || kind == Kind::Clip).then_some(Vector { projection }),
        ..Output::default()
    };
    if kind == Kind::Clip {
        stack.input_norm = stack.norm;
    }
    Ok(Form {
        family: String::new(),
        d_model,
        context: None,
        input: Input::Patches(patches),
        encoder: Some(stack),
        decoder: None,
        output,
        dropout: Dropouts::default(),
        deviations: Deviations::all(options.real("initializer_range", 0.02)?),
        checkpointing: false,
    })
}

fn write_stack(form: &Form) -> Option<Value> {
    let stack = form.last_stack()?;
    let layer = stack.layers.first()?;
    Some(json!({
        "hidden_size": form.d_model,
        "num_hidden_layers": stack.n_layers,
        "num_attention_heads": layer.attention.n_heads,
        "intermediate_size": layer.feed_forward.d_hidden,
        "hidden_act": layer.feed_forward.activation,
        "layer_norm_eps": layer.norm.epsilon,
        "initializer_range": form.deviations.inner,
    }))
}

fn write_text(form: &Form) -> Option<Value> {
    let mut config = write_stack(form)?;
    let Positions::Learned { context, .. } = form.last_stack()?.positions else { return None };
    config["vocab_size"] = json!(form.vocabulary());
    config["max_position_embeddings"] = json!(context);
    config["bos_token_id"] = Value::Null;
    config["pad_token_id"] = Value::Null;
    Some(config)
}

fn write_vision(form: &Form) -> Option<Value> {
    let mut config = write_stack(form)?;
    let Input::Patches(patches) = &form.input else { return None };
    let [height, width] = patches.image;
    config["image_size"] = if height == width { json!(height) } else { json!([height, width]) };
    config["patch_size"] = json!(patches.size);
    config["num_channels"] = json!(patches.channels);
    Some(config)
}

/// The class of one of CLIP's towers, and the width of its projection if it has one.
fn put_projection(config: &mut Value, form: &Form, name: &str) -> Option<()> {
    let projection = form.output.vector?.projection;
    let ending = if projection.is_some() { "WithProjection" } else { "" };
    config["architectures"] = json!([format!("{name}{ending}")]);
    if let Some((width, _)) = projection {
        config["projection_dim"] = json!(width);
    }
    Some(())
}

fn write_clip_text(form: &Form) -> Option<Value> {
    let mut config = write_text(form)?;
    config["eos_token_id"] = match form.output.pooling {
        Pooling::Token(end) => json!(end),
        Pooling::Largest => json!(2),
        _ => return None,
    };
    put_projection(&mut config, form, "CLIPTextModel")?;
    Some(config)
}

fn write_clip_vision(form: &Form) -> Option<Value> {
    let mut config = write_vision(form)?;
    put_projection(&mut config, form, "CLIPVisionModel")?;
    Some(config)
}

fn write_siglip_text(form: &Form) -> Option<Value> {
    let mut config = write_text(form)?;
    config["architectures"] = json!(["SiglipTextModel"]);
    config["projection_size"] = json!(form.output.vector?.projection?.0);
    config["eos_token_id"] = Value::Null;
    Some(config)
}

fn write_siglip_vision(form: &Form) -> Option<Value> {
    let mut config = write_vision(form)?;
    config["architectures"] = json!(["SiglipVisionModel"]);
    config["vision_use_head"] = json!(form.output.attention_pooler.is_some());
    Some(config)
}
