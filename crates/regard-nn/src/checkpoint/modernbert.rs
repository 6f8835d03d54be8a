//! ModernBERT's configuration and names: local and global layers, each with rotary positions of its own.

use super::family::{Family, Shapes, with_labels};
use super::heads::architecture;
use super::names::Names;
use super::options::Options;
use super::part::halves;
use crate::attention::Biases;
use crate::block::Placement;
use crate::error::{Error, Result};
use crate::layers::{Activation, NormConfig, NormKind};
use crate::models::form::{
    Attention, AttentionPositions, Deviations, Dropouts, FeedForward, Form, Input, Layer, Output, Pooler,
    Pooling, Stack, TokenClasses, TokenScores, Tokens, Window,
};
use crate::position::RotaryConfig;
use serde_json::{Value, json};

pub(super) const MODERNBERT: Family = Family {
    model_type: "modernbert",
    architectures: &[
        "ModernBertForMaskedLM",
        "ModernBertForSequenceClassification",
        "ModernBertForTokenClassification",
        "ModernBertModel",
    ],
    prefix: "model.",
    read,
    names,
    write,
};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@embeddings.tok_embeddings"),
    ("embedding_norm", "@embeddings.norm"),
    ("layers.#.attention_norm", "@layers.#.attn_norm"),
    ("layers.#.attention.project", "@layers.#.attn.Wqkv"),
    ("layers.#.attention.output", "@layers.#.attn.Wo"),
    ("layers.#.ffn_norm", "@layers.#.mlp_norm"),
    ("layers.#.ffn.gate", "@layers.#.mlp.Wi"),
    ("layers.#.ffn.up", "@layers.#.mlp.Wi"),
    ("layers.#.ffn.down", "@layers.#.mlp.Wo"),
    ("norm", "@final_norm"),
    ("token_head.transform", "head.dense"),
    ("token_head.norm", "head.norm"),
    ("token_head.bias", "decoder.bias"),
    ("pooler", "head.dense"),
    ("pooler_norm", "head.norm"),
    ("classifier", "classifier"),
    ("token_classifier.transform", "head.dense"),
    ("token_classifier.norm", "head.norm"),
    ("token_classifier.scores", "classifier"),
];

/// The kinds of layers, by the names of the configuration. The first layer reads embeddings that are normed already.
const KINDS: [&str; 2] = ["full_attention", "sliding_attention"];

fn names(form: &Form) -> Names {
    let layer = form.encoder.as_ref().and_then(|stack| stack.layers.first());
    let d_hidden = layer.map_or(0, |layer| layer.feed_forward.d_hidden);
    Names::new(PAIRS, &[])
        .with_parts(halves(form.d_model, d_hidden))
        .with_copies(&[("decoder.weight", "tokens.weight")])
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let (d_model, n_heads) = (options.size("hidden_size")?, options.size("num_attention_heads")?);
    let n_layers = options.size("num_hidden_layers")?;
    let kind =
        if options.take_or("norm_bias", false)? { NormKind::Layer } else { NormKind::LayerWithoutBias };
    let norm = NormConfig { kind, epsilon: options.real("norm_eps", 1e-5)? };
    let kinds = layer_kinds(options, n_layers)?;
    let bases = bases(options)?;
    let reach = options.optional_size("local_attention")?.unwrap_or(128) / 2;
    let attention_bias = options.take_or("attention_bias", false)?;
    let feed_forward = FeedForward {
        gated: true,
        bias: options.take_or("mlp_bias", false)?,
        ..FeedForward::new(
            options.size("intermediate_size")?,
            options.take_or("hidden_activation", Activation::Gelu)?,
        )
    };
    let layer = |kind: usize, placement: Placement| Layer {
        attention: Attention {
            fused: true,
            bias: Biases::all(attention_bias),
            window: (kind == 1).then_some(Window { before: reach, after: reach }),
            positions: Some(AttentionPositions::Rotary(RotaryConfig {
                base: bases[kind],
                ..RotaryConfig::default()
            })),
            ..Attention::new(d_model, n_heads)
        },
        cross: None,
        feed_forward,
        norm,
        placement,
        residual_scale: 1.0,
        layer_scale: None,
    };
    let first = layer(kinds.first().copied().unwrap_or(0), Placement::PreFeedForward);
    let order = kinds.iter().enumerate().map(|(i, kind)| if i == 0 { 0 } else { kind + 1 });
    let stack = Stack {
        layers: vec![first, layer(0, Placement::Pre), layer(1, Placement::Pre)],
        order: order.collect(),
        norm: Some(norm),
        ..Stack::of(n_layers, layer(0, Placement::Pre))
    };
    let output = read_head(options, shapes, norm)?;
    // What training drops or leaves out, and how other programs run it.
    for key in [
        "embedding_dropout",
        "mlp_dropout",
        "sparse_prediction",
        "sparse_pred_ignore_index",
        "initializer_cutoff_factor",
        "deterministic_flash_attn",
        "reference_compile",
        "repad_logits_with_grad",
        "position_embedding_type",
    ] {
        options.take::<Value>(key)?;
    }
    options.only("tie_word_embeddings", true)?;
    Ok(Form {
        family: String::new(),
        d_model,
        context: options.optional_size("max_position_embeddings")?,
        input: Input::Tokens(Tokens { norm: Some(norm), ..Tokens::new(options.size("vocab_size")?) }),
        encoder: Some(stack),
        decoder: None,
        output,
        dropout: Dropouts::default(),
        deviations: Deviations::all(options.real("initializer_range", 0.02)?),
        checkpointing: false,
    })
}

/// The kind of each layer, as an index into [`KINDS`].
fn layer_kinds(options: &mut Options, n_layers: usize) -> Result<Vec<usize>> {
    let every = options.optional_size("global_attn_every_n_layers")?.unwrap_or(3);
    let Some(named) = options.take::<Vec<String>>("layer_types")? else {
        return Ok((0..n_layers).map(|layer| usize::from(layer % every != 0)).collect());
    };
    let known = named.iter().map(|name| KINDS.iter().position(|kind| kind == name));
    match known.collect::<Option<Vec<usize>>>() {
        Some(kinds) if kinds.len() == n_layers => Ok(kinds),
        _ => Err(Error::checkpoint(format!(
            "config.json: layer_types must name {n_layers} layers, each {}",
            KINDS.join(" or ")
        ))),
    }
}

/// The bases of rotary positions of the two kinds of layers.
fn bases(options: &mut Options) -> Result<[f32; 2]> {
    let older = [options.real("global_rope_theta", 160_000.0)?, options.real("local_rope_theta", 10_000.0)?];
    let Some(rotary) = options.take::<Value>("rope_parameters")? else { return Ok(older) };
    let mut bases = older;
    for (kind, base) in KINDS.iter().zip(&mut bases) {
        let Some(settings) = rotary.get(kind).and_then(Value::as_object) else { continue };
        let mut settings = Options::new(settings.clone());
        settings.only("rope_type", "default")?;
        *base = settings.real("rope_theta", *base)?;
        settings.finish()?;
    }
    Ok(bases)
}

/// The head: a layer with a norm before the scores of tokens or classes.
fn read_head(options: &mut Options, shapes: &Shapes, norm: NormConfig) -> Result<Output> {
    let activation = options.take_or("classifier_activation", Activation::Gelu)?;
    let bias = options.take_or("classifier_bias", false)?;
    let layer = Pooler { activation, bias, norm: Some(norm) };
    let pooling: String = options.take_or("classifier_pooling", "cls".to_owned())?;
    let pooling = match pooling.as_str() {
        "cls" => Pooling::First,
        "mean" => Pooling::Mean,
        other => {
            let problem = format!(
                "config.json: classifier_pooling is {other:?}, of which cls and mean are implemented"
            );
            return Err(Error::checkpoint(problem));
        }
    };
    let scores = TokenScores {
        bias: options.take_or("decoder_bias", true)?,
        transform: Some((activation, norm)),
        transform_bias: bias,
        ..TokenScores::new(true)
    };
    let classes = shapes.rows("classifier.weight");
    let mut output = Output::default();
    match classes {
        Some(classes) if options.names_class("ForTokenClassification") => {
            output.token_classes = Some(TokenClasses { classes, transform: Some(layer) });
        }
        Some(_) => {
            output.classes = classes;
            output.pooler = Some(layer);
            output.pooling = pooling;
        }
        None => output.tokens = shapes.contains("head.dense.weight").then_some(scores),
    }
    Ok(output)
}

fn write(form: &Form) -> Option<Value> {
    let (stack, Input::Tokens(tokens)) = (form.encoder.as_ref()?, &form.input) else { return None };
    let [_, global, local] = &stack.layers[..] else { return None };
    let base = |layer: &Layer| match &layer.attention.positions {
        Some(AttentionPositions::Rotary(rotary)) => Some(rotary.base),
        _ => None,
    };
    let kind = |layer: &Layer| KINDS[usize::from(layer.attention.window.is_some())];
    let kinds: Vec<&str> = (0..stack.n_layers).map(|i| kind(&stack.layers[stack.form_of(i)])).collect();
    let rotary = |base: f32| json!({"rope_type": "default", "rope_theta": base});
    let head = form.output.pooler.or(form.output.token_classes.and_then(|of_tokens| of_tokens.transform));
    let (activation, bias) = match (head, form.output.tokens) {
        (Some(head), _) => (head.activation, head.bias),
        (None, Some(scores)) => (scores.transform?.0, scores.transform_bias),
        (None, None) => (Activation::Gelu, false),
    };
    let config = json!({
        "architectures": architecture(form, "ModernBert"),
        "vocab_size": tokens.vocabulary,
        "hidden_size": form.d_model,
        "num_hidden_layers": stack.n_layers,
        "num_attention_heads": global.attention.n_heads,
        "intermediate_size": global.feed_forward.d_hidden,
        "hidden_activation": global.feed_forward.activation,
        "max_position_embeddings": form.context,
        "norm_eps": global.norm.epsilon,
        "norm_bias": global.norm.kind == NormKind::Layer,
        "attention_bias": global.attention.bias.query,
        "mlp_bias": global.feed_forward.bias,
        "layer_types": kinds,
        "local_attention": 2 * local.attention.window?.before,
        "rope_parameters": {KINDS[0]: rotary(base(global)?), KINDS[1]: rotary(base(local)?)},
        "classifier_activation": activation,
        "classifier_bias": bias,
        "classifier_pooling": if form.output.pooling == Pooling::Mean { "mean" } else { "cls" },
        "decoder_bias": form.output.tokens.is_none_or(|scores| scores.bias),
        "initializer_range": form.deviations.inner,
        "tie_word_embeddings": true,
        "pad_token_id": null,
        "bos_token_id": null,
        "eos_token_id": null,
        "cls_token_id": null,
        "sep_token_id": null,
    });
    Some(with_labels(config, form.output.labels()))
}
