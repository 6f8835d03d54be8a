//! Decoders whose configurations and names are Llama's but for a few differences: what they share, and a table of the rest.

use super::family::{Shapes, with_labels};
use super::names::Names;
use super::options::Options;
use super::rotary;
use crate::attention::Biases;
use crate::block::Placement;
use crate::error::{Error, Result};
use crate::layers::{Activation, NormConfig, NormKind};
use crate::models::form::{
    Attention, AttentionPositions, Deviations, Dropouts, FeedForward, Form, Input, Layer, Output, Pooling,
    Stack, TokenScores, Tokens, Window,
};
use serde_json::{Value, json};

/// In what a family differs from Llama.
#[derive(Debug, Clone, Copy)]
pub(super) struct Like {
    /// What its classes are called, up to `ForCausalLM`.
    pub class: &'static str,
    /// What its tensor names begin with.
    pub prefix: &'static str,
    /// Whether the embedding table scores tokens where the configuration does not say.
    pub tied: bool,
    /// The base of rotary frequencies where the configuration does not say.
    pub base: f32,
    /// The share of rotated features where the configuration does not say.
    pub partial: f64,
    /// The kind of norm, the key of its ε and that key's default.
    pub norm: (NormKind, &'static str, f32),
    /// The key of the activation and its default.
    pub activation: (&'static str, Activation),
    /// Whether the feed-forward layer is gated.
    pub gated: bool,
    /// The default width of a head, if it is not that of the model over the number of heads.
    pub d_head: Option<usize>,
    /// The default number of key-value heads, if not that of query heads.
    pub n_kv_heads: Option<usize>,
    /// The key that gives all of attention's projections biases, and its default.
    pub attention_bias: Option<(&'static str, bool)>,
    /// The key that gives the feed-forward layer biases, and its default.
    pub feed_forward_bias: Option<(&'static str, bool)>,
    /// Where the norms stand.
    pub placement: Placement,
}

/// Llama itself.
pub(super) const LLAMA: Like = Like {
    class: "Llama",
    prefix: "model.",
    tied: false,
    base: 10_000.0,
    partial: 1.0,
    norm: (NormKind::RootMeanSquare, "rms_norm_eps", 1e-6),
    activation: ("hidden_act", Activation::Silu),
    gated: true,
    d_head: None,
    n_kv_heads: None,
    attention_bias: Some(("attention_bias", false)),
    feed_forward_bias: Some(("mlp_bias", false)),
    placement: Placement::Pre,
};

/// Layers that differ are listed one by one: no model has more.
const MOST_LISTED: usize = 10_000;

impl Like {
    /// The form that a configuration describes: layers all alike, which a family may change.
    pub fn read(&self, options: &mut Options, shapes: &Shapes) -> Result<Form> {
        let (d_model, n_heads) = (options.size("hidden_size")?, options.size("num_attention_heads")?);
        let context = options.size("max_position_embeddings")?;
        let n_layers = options.size("num_hidden_layers")?;
        let n_kv_heads = options.size_or_null("num_key_value_heads", self.n_kv_heads)?.unwrap_or(n_heads);
        let d_head = options.size_or_null("head_dim", self.d_head)?.unwrap_or(d_model / n_heads);
        let defaults = rotary::Defaults { base: self.base, partial: self.partial, d_head, context };
        let positions = AttentionPositions::Rotary(rotary::read(options, defaults)?);
        let bias = |options: &mut Options, key: Option<(&str, bool)>| match key {
            Some((key, default)) => options.take_or(key, default),
            None => Ok(false),
        };
        let attention = Attention {
            n_kv_heads,
            d_head,
            bias: Biases::all(bias(options, self.attention_bias)?),
            positions: Some(positions),
            ..Attention::new(d_model, n_heads)
        };
        let (kind, key, epsilon) = self.norm;
        let norm =
            NormConfig { kind, epsilon: if key.is_empty() { epsilon } else { options.real(key, epsilon)? } };
        let (key, activation) = self.activation;
        let activation = options.take_or(key, activation)?;
        let feed_forward = FeedForward {
            gated: self.gated,
            bias: bias(options, self.feed_forward_bias)?,
            ..FeedForward::new(options.size("intermediate_size")?, activation)
        };
        let layer = Layer {
            attention,
            cross: None,
            feed_forward,
            norm,
            placement: self.placement,
            residual_scale: 1.0,
            layer_scale: None,
        };
        let deviation = options.real("initializer_range", 0.02)?;
        let dropout = options.real_or_null("attention_dropout", Some(0.0))?.unwrap_or(0.0);
        // It only says how a sum is split over machines.
        options.take::<Value>("pretraining_tp")?;
        Ok(Form {
            family: String::new(),
            d_model,
            context: Some(context),
            input: Input::Tokens(Tokens::new(options.size("vocab_size")?)),
            encoder: None,
            decoder: Some(Stack { norm: Some(norm), ..Stack::of(n_layers, layer) }),
            output: output(options, shapes, self.prefix, self.tied)?,
            dropout: Dropouts { attention: dropout, residual: dropout, ..Dropouts::default() },
            deviations: Deviations::by_depth(deviation, n_layers),
            checkpointing: false,
        })
    }

    /// The configuration of a form, as far as this family shares it with Llama. Where layers differ, it is that of the first
    /// with rotary positions.
    pub fn write(&self, form: &Form) -> Option<Value> {
        let stack = form.decoder.as_ref()?;
        let rotary = |layer: &Layer| match &layer.attention.positions {
            Some(AttentionPositions::Rotary(rotary)) => Some(rotary.clone()),
            _ => None,
        };
        let (layer, rotary) = stack.layers.iter().find_map(|layer| Some((layer, rotary(layer)?)))?;
        let (attention, feed_forward) = (&layer.attention, &layer.feed_forward);
        let mut config = json!({
            "architectures": [class(self.class, form)],
            "vocab_size": form.vocabulary(),
            "max_position_embeddings": form.context?,
            "num_hidden_layers": stack.n_layers,
            "num_attention_heads": attention.n_heads,
            "num_key_value_heads": attention.n_kv_heads,
            "hidden_size": form.d_model,
            "head_dim": attention.d_head,
            "intermediate_size": feed_forward.d_hidden,
            "rope_parameters": rotary::write(&rotary, attention.d_head),
            "rope_theta": rotary.base,
            "initializer_range": form.deviations.inner,
            "tie_word_embeddings": form.output.tokens.is_some_and(|scores| scores.tied),
            "attention_dropout": form.dropout.attention,
            "bos_token_id": null,
            "eos_token_id": null,
        });
        config[self.activation.0] = json!(feed_forward.activation);
        if !self.norm.1.is_empty() {
            config[self.norm.1] = json!(layer.norm.epsilon);
        }
        if let Some((key, _)) = self.attention_bias {
            config[key] = json!(attention.bias.query);
        }
        if let Some((key, _)) = self.feed_forward_bias {
            config[key] = json!(feed_forward.bias);
        }
        Some(with_labels(config, form.output.classes))
    }
}

/// What hidden states are turned into: scores of tokens, of classes by the last token, or nothing in a bare model.
pub(super) fn output(options: &mut Options, shapes: &Shapes, prefix: &str, tied: bool) -> Result<Output> {
    let tied = options.take_or("tie_word_embeddings", tied)?;
    if let Some(classes) = shapes.rows("score.weight") {
        return Ok(Output { classes: Some(classes), pooling: Pooling::Last, ..Output::default() });
    }
    let bare = !shapes.any_starts_with("lm_head.")
        && !shapes.any_starts_with("embed_out.")
        && !shapes.any_starts_with(prefix)
        && !(tied && (options.names_class("ForCausalLM") || options.names_class("LMHeadModel")));
    let tokens = (!bare).then(|| TokenScores::new(tied));
    Ok(Output { tokens, ..Output::default() })
}

/// The class of transformers that has a form's head.
pub(super) fn class(name: &str, form: &Form) -> String {
    match (form.output.tokens, form.output.classes) {
        (Some(_), _) => format!("{name}ForCausalLM"),
        (None, Some(_)) => format!("{name}ForSequenceClassification"),
        (None, None) => format!("{name}Model"),
    }
}

/// The layers of a form's decoder, each changed as its number demands.
pub(super) fn vary(form: &mut Form, change: impl Fn(usize, &mut Layer)) -> Result<()> {
    let Some(stack) = form.decoder.take() else { return Ok(()) };
    if stack.n_layers > MOST_LISTED {
        return Err(Error::checkpoint(format!("config.json: num_hidden_layers is {}", stack.n_layers)));
    }
    form.decoder = Some(stack.varied(change));
    Ok(())
}

/// All forms of layers of a form's decoder, changed alike.
pub(super) fn change(form: &mut Form, change: impl Fn(&mut Layer)) {
    form.decoder.iter_mut().flat_map(|stack| &mut stack.layers).for_each(change);
}

/// Which layers have a window, from `layer_types` or by a rule of the family where that is missing.
pub(super) fn sliding_layers(
    options: &mut Options,
    form: &Form,
    rule: impl Fn(usize) -> bool,
) -> Result<Vec<bool>> {
    let n_layers = form.decoder.as_ref().map_or(0, |stack| stack.n_layers);
    let Some(types) = options.take::<Vec<String>>("layer_types")? else {
        return Ok((0..n_layers.min(MOST_LISTED)).map(rule).collect());
    };
    if types.len() != n_layers {
        let problem = format!("config.json: layer_types has {} entries for {n_layers} layers", types.len());
        return Err(Error::checkpoint(problem));
    }
    let sliding = |name: &String| match name.as_str() {
        "sliding_attention" => Ok(true),
        "full_attention" => Ok(false),
        other => Err(Error::checkpoint(format!(
            "config.json: layers of type {other:?} are not implemented; full_attention and sliding_attention are"
        ))),
    };
    types.iter().map(sliding).collect()
}

/// The entries of `layer_types` for a form.
pub(super) fn layer_types(form: &Form) -> Option<Vec<&'static str>> {
    let stack = form.decoder.as_ref().filter(|stack| stack.n_layers <= MOST_LISTED)?;
    let name =
        |i| if stack.layer(i).attention.window.is_some() { "sliding_attention" } else { "full_attention" };
    Some((0..stack.n_layers).map(name).collect())
}

/// A window of so many tokens, the current one included.
pub(super) fn window(size: usize) -> Window {
    Window { before: size.saturating_sub(1), after: 0 }
}

/// The size of the first window among a form's layers.
pub(super) fn window_of(form: &Form) -> Option<usize> {
    form.decoder
        .iter()
        .flat_map(|stack| &stack.layers)
        .find_map(|layer| Some(layer.attention.window?.before + 1))
}

/// The names that all layers share.
const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@embed_tokens"),
    ("layers.#.attention.query", "@layers.#.self_attn.q_proj"),
    ("layers.#.attention.key", "@layers.#.self_attn.k_proj"),
    ("layers.#.attention.value", "@layers.#.self_attn.v_proj"),
    ("layers.#.attention.project", "@layers.#.self_attn.qkv_proj"),
    ("layers.#.attention.output", "@layers.#.self_attn.o_proj"),
    ("layers.#.attention.query_norm", "@layers.#.self_attn.q_norm"),
    ("layers.#.attention.key_norm", "@layers.#.self_attn.k_norm"),
    ("layers.#.attention.sink", "@layers.#.self_attn.sinks"),
    ("layers.#.ffn.gate", "@layers.#.mlp.gate_proj"),
    ("layers.#.ffn.up", "@layers.#.mlp.up_proj"),
    ("layers.#.ffn.down", "@layers.#.mlp.down_proj"),
    ("norm", "@norm"),
    ("head", "lm_head"),
    ("classifier", "score"),
];

/// Those of the norms, by where they stand.
fn norm_pairs(placement: Placement) -> &'static [(&'static str, &'static str)] {
    match placement {
        Placement::Sandwich => &[
            ("layers.#.attention_norm", "@layers.#.input_layernorm"),
            ("layers.#.attention_output_norm", "@layers.#.post_attention_layernorm"),
            ("layers.#.ffn_norm", "@layers.#.pre_feedforward_layernorm"),
            ("layers.#.ffn_output_norm", "@layers.#.post_feedforward_layernorm"),
        ],
        Placement::Output => &[
            ("layers.#.attention_output_norm", "@layers.#.post_attention_layernorm"),
            ("layers.#.ffn_output_norm", "@layers.#.post_feedforward_layernorm"),
        ],
        _ => &[
            ("layers.#.attention_norm", "@layers.#.input_layernorm"),
            ("layers.#.ffn_norm", "@layers.#.post_attention_layernorm"),
        ],
    }
}

/// Llama's names.
pub(super) fn names(form: &Form) -> Names {
    named(form, &[])
}

/// Llama's names, after some that a family has of its own.
pub(super) fn named(form: &Form, own: &[(&'static str, &'static str)]) -> Names {
    let placement = form.decoder.as_ref().and_then(|stack| stack.layers.first()).map(|layer| layer.placement);
    let pairs = [own, norm_pairs(placement.unwrap_or_default()), PAIRS].concat();
    tied(form, Names::new(&pairs, &["@layers.#.self_attn.rotary_emb.inv_freq", "@rotary_emb.inv_freq"]))
}

/// Names of a form whose embedding table may be repeated as the head.
pub(super) fn tied(form: &Form, names: Names) -> Names {
    match form.output.tokens.is_some_and(|scores| scores.tied) {
        true => names.with_copies(&[("lm_head.weight", "tokens.weight")]),
        false => names,
    }
}
