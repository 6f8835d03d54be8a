//! The configurations and names of BART and Marian: post-norm encoder–decoders that differ in their positions.

use super::family::{Family, Shapes};
use super::names::Names;
use super::options::Options;
use crate::block::Placement;
use crate::error::Result;
use crate::layers::{Activation, NormConfig};
use crate::models::form::{
    Attention, Deviations, Dropouts, FeedForward, Form, Input, Layer, Output, Positions, Stack, TokenScores,
    Tokens,
};
use serde_json::{Value, json};

pub(super) const BART: Family = Family {
    model_type: "bart",
    architectures: &["BartForConditionalGeneration", "BartModel"],
    prefix: "model.",
    read: read_bart,
    names,
    write: write_bart,
};

pub(super) const MARIAN: Family = Family {
    model_type: "marian",
    architectures: &["MarianMTModel", "MarianModel"],
    prefix: "model.",
    read: read_marian,
    names,
    write: write_marian,
};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@shared"),
    ("encoder.positions.table", "@encoder.embed_positions"),
    ("encoder.input_norm", "@encoder.layernorm_embedding"),
    ("encoder.layers.#.attention.query", "@encoder.layers.#.self_attn.q_proj"),
    ("encoder.layers.#.attention.key", "@encoder.layers.#.self_attn.k_proj"),
    ("encoder.layers.#.attention.value", "@encoder.layers.#.self_attn.v_proj"),
    ("encoder.layers.#.attention.output", "@encoder.layers.#.self_attn.out_proj"),
    ("encoder.layers.#.attention_norm", "@encoder.layers.#.self_attn_layer_norm"),
    ("encoder.layers.#.ffn.up", "@encoder.layers.#.fc1"),
    ("encoder.layers.#.ffn.down", "@encoder.layers.#.fc2"),
    ("encoder.layers.#.ffn_norm", "@encoder.layers.#.final_layer_norm"),
    ("decoder.positions.table", "@decoder.embed_positions"),
    ("decoder.input_norm", "@decoder.layernorm_embedding"),
    ("decoder.layers.#.attention.query", "@decoder.layers.#.self_attn.q_proj"),
    ("decoder.layers.#.attention.key", "@decoder.layers.#.self_attn.k_proj"),
    ("decoder.layers.#.attention.value", "@decoder.layers.#.self_attn.v_proj"),
    ("decoder.layers.#.attention.output", "@decoder.layers.#.self_attn.out_proj"),
    ("decoder.layers.#.attention_norm", "@decoder.layers.#.self_attn_layer_norm"),
    ("decoder.layers.#.cross.query", "@decoder.layers.#.encoder_attn.q_proj"),
    ("decoder.layers.#.cross.key", "@decoder.layers.#.encoder_attn.k_proj"),
    ("decoder.layers.#.cross.value", "@decoder.layers.#.encoder_attn.v_proj"),
    ("decoder.layers.#.cross.output", "@decoder.layers.#.encoder_attn.out_proj"),
    ("decoder.layers.#.cross_norm", "@decoder.layers.#.encoder_attn_layer_norm"),
    ("decoder.layers.#.ffn.up", "@decoder.layers.#.fc1"),
    ("decoder.layers.#.ffn.down", "@decoder.layers.#.fc2"),
    ("decoder.layers.#.ffn_norm", "@decoder.layers.#.final_layer_norm"),
    ("token_head.bias", "final_logits_bias"),
];

fn names(form: &Form) -> Names {
    // Older files keep the fixed sines and cosines.
    let learned = form.encoder.iter().any(|stack| matches!(stack.positions, Positions::Learned { .. }));
    let waves = ["@encoder.embed_positions", "@decoder.embed_positions"];
    Names::new(PAIRS, if learned { &[] } else { &waves }).with_leading_axis(&["token_head.bias"]).with_copies(
        &[
            ("@encoder.embed_tokens.weight", "tokens.weight"),
            ("@decoder.embed_tokens.weight", "tokens.weight"),
            ("lm_head.weight", "tokens.weight"),
        ],
    )
}

/// What the norms of both families keep away from 0 by.
const NORM: f32 = 1e-5;

fn read_bart(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    // Switches of the first releases.
    for (key, implemented) in [
        ("normalize_before", false),
        ("normalize_embedding", true),
        ("add_final_layer_norm", false),
        ("static_position_embeddings", false),
        ("add_bias_logits", false),
    ] {
        options.only(key, implemented)?;
    }
    options.only("extra_pos_embeddings", 2)?;
    let context = options.size("max_position_embeddings")?;
    let positions = Positions::Learned { context, offset: 2, skips_padding: false };
    read(options, shapes, (context, positions), Some(NormConfig::layer(NORM)))
}

fn read_marian(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    for (key, implemented) in [
        ("share_encoder_decoder_embeddings", true),
        ("normalize_before", false),
        ("normalize_embedding", false),
        ("add_final_layer_norm", false),
        ("static_position_embeddings", true),
        ("add_bias_logits", false),
    ] {
        options.only(key, implemented)?;
    }
    let context = options.size("max_position_embeddings")?;
    read(options, shapes, (context, Positions::Sinusoidal { scale: 1.0, halves: true }), None)
}

fn read(
    options: &mut Options,
    shapes: &Shapes,
    (context, positions): (usize, Positions),
    input_norm: Option<NormConfig>,
) -> Result<Form> {
    let d_model = options.size("d_model")?;
    let vocabulary = options.size("vocab_size")?;
    options.only("decoder_vocab_size", vocabulary)?;
    options.only("tie_word_embeddings", true)?;
    options.only("is_decoder", false)?;
    let activation = options.take_or("activation_function", Activation::Gelu)?;
    let mut stack = |part: &str, decodes: bool| -> Result<Stack> {
        let n_heads = options.size(&format!("{part}_attention_heads"))?;
        let layer = Layer {
            attention: Attention::new(d_model, n_heads),
            cross: decodes.then(|| Attention::new(d_model, n_heads)),
            feed_forward: FeedForward {
                bias: true,
                ..FeedForward::new(options.size(&format!("{part}_ffn_dim"))?, activation)
            },
            norm: NormConfig::layer(NORM),
            placement: Placement::Post,
            residual_scale: 1.0,
            layer_scale: None,
        };
        let n_layers = options.size(&format!("{part}_layers"))?;
        // The share of layers that training skips.
        options.take::<f32>(&format!("{part}_layerdrop"))?;
        Ok(Stack { positions, input_norm, ..Stack::of(n_layers, layer) })
    };
    let (encoder, decoder) = (stack("encoder", false)?, stack("decoder", true)?);
    // It repeats the number of the encoder's layers.
    options.take::<Value>("num_hidden_layers")?;
    let scaled = options.take_or("scale_embedding", false)?;
    let dropout = options.real("dropout", 0.1)?;
    let (attention, _) = (options.real("attention_dropout", 0.0)?, options.real("activation_dropout", 0.0)?);
    let bias = shapes.contains("final_logits_bias");
    let bare = options.names_class("Model") && !options.names_class("MTModel");
    let scores = TokenScores { bias, ..TokenScores::new(true) };
    let unread = ["classif_dropout", "force_bos_token_to_be_generated", "normalize_decoder_before"];
    unread.into_iter().try_for_each(|key| options.take::<Value>(key).map(|_| ()))?;
    Ok(Form {
        family: String::new(),
        d_model,
        context: Some(context),
        input: Input::Tokens(Tokens {
            scale: if scaled { (d_model as f32).sqrt() } else { 1.0 },
            start: Some(options.take_or("decoder_start_token_id", 2)?),
            ..Tokens::new(vocabulary)
        }),
        encoder: Some(encoder),
        decoder: Some(decoder),
        output: Output { tokens: (!bare).then_some(scores), ..Output::default() },
        dropout: Dropouts { embeddings: dropout, attention, residual: dropout, ..Dropouts::default() },
        deviations: Deviations::all(options.real("init_std", 0.02)?),
        checkpointing: false,
    })
}

fn write_bart(form: &Form) -> Option<Value> {
    let Positions::Learned { context, .. } = form.encoder.as_ref()?.positions else { return None };
    write(form, context, ["BartForConditionalGeneration", "BartModel"])
}

fn write_marian(form: &Form) -> Option<Value> {
    let mut config = write(form, form.context?, ["MarianMTModel", "MarianModel"])?;
    config["share_encoder_decoder_embeddings"] = json!(true);
    config["decoder_vocab_size"] = json!(form.vocabulary());
    Some(config)
}

fn write(form: &Form, context: usize, [whole, bare]: [&str; 2]) -> Option<Value> {
    let (encoder, decoder) = (form.encoder.as_ref()?, form.decoder.as_ref()?);
    let (reads, answers) = (encoder.layers.first()?, decoder.layers.first()?);
    let Input::Tokens(tokens) = &form.input else { return None };
    Some(json!({
        "architectures": [if form.output.tokens.is_some() { whole } else { bare }],
        "is_encoder_decoder": true,
        "vocab_size": form.vocabulary(),
        "d_model": form.d_model,
        "encoder_layers": encoder.n_layers,
        "decoder_layers": decoder.n_layers,
        "encoder_attention_heads": reads.attention.n_heads,
        "decoder_attention_heads": answers.attention.n_heads,
        "encoder_ffn_dim": reads.feed_forward.d_hidden,
        "decoder_ffn_dim": answers.feed_forward.d_hidden,
        "activation_function": reads.feed_forward.activation,
        "max_position_embeddings": context,
        "scale_embedding": tokens.scale != 1.0,
        "decoder_start_token_id": tokens.start?,
        "tie_word_embeddings": true,
        "dropout": form.dropout.residual,
        "attention_dropout": form.dropout.attention,
        "init_std": form.deviations.inner,
        "forced_eos_token_id": null,
        "pad_token_id": null,
        "bos_token_id": null,
        "eos_token_id": null,
    }))
}
