//! The configuration and names of DeBERTa v2 and v3: contents and relative positions are scored apart.

use super::bert::{COUNTS, read_body, write_body};
use super::family::{Family, Shapes};
use super::heads::Heads;
use super::names::Names;
use super::options::Options;
use crate::attention::{DisentangledConfig, Scale};
use crate::error::{Error, Result};
use crate::layers::{Activation, NormConfig};
use crate::models::form::{AttentionPositions, Form, Input, Pooler, Positions};
use serde_json::{Value, json};

pub(super) const DEBERTA: Family = Family {
    model_type: "deberta-v2",
    architectures: &[
        "DebertaV2ForMaskedLM",
        "DebertaV2ForQuestionAnswering",
        "DebertaV2ForSequenceClassification",
        "DebertaV2ForTokenClassification",
        "DebertaV2Model",
    ],
    prefix: "deberta.",
    read,
    names,
    write,
};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@embeddings.word_embeddings"),
    ("positions.table", "@embeddings.position_embeddings"),
    ("types", "@embeddings.token_type_embeddings"),
    ("embedding_norm", "@embeddings.LayerNorm"),
    ("positions.vectors", "@encoder.rel_embeddings.weight"),
    ("positions.norm", "@encoder.LayerNorm"),
    ("layers.#.attention.query", "@encoder.layer.#.attention.self.query_proj"),
    ("layers.#.attention.key", "@encoder.layer.#.attention.self.key_proj"),
    ("layers.#.attention.value", "@encoder.layer.#.attention.self.value_proj"),
    ("layers.#.attention.positions.query", "@encoder.layer.#.attention.self.pos_query_proj"),
    ("layers.#.attention.positions.key", "@encoder.layer.#.attention.self.pos_key_proj"),
    ("layers.#.attention.output", "@encoder.layer.#.attention.output.dense"),
    ("layers.#.attention_norm", "@encoder.layer.#.attention.output.LayerNorm"),
    ("layers.#.ffn.up", "@encoder.layer.#.intermediate.dense"),
    ("layers.#.ffn.down", "@encoder.layer.#.output.dense"),
    ("layers.#.ffn_norm", "@encoder.layer.#.output.LayerNorm"),
    ("pooler", "pooler.dense"),
    ("classifier", "classifier"),
    ("token_classifier.scores", "classifier"),
    ("spans", "qa_outputs"),
    ("token_head.transform", "cls.predictions.transform.dense"),
    ("token_head.norm", "cls.predictions.transform.LayerNorm"),
    ("token_head.bias", "cls.predictions.bias"),
];

fn names(form: &Form) -> Names {
    // A checkpoint for pre-training has a second head, which detects replaced words in another model.
    let unread: &[&'static str] = if form.output.pooler.is_none() { &["pooler.dense"] } else { &[] };
    Names::new(PAIRS, &[&COUNTS[..], unread, &["mask_predictions"]].concat()).with_copies(&[
        ("cls.predictions.decoder.weight", "tokens.weight"),
        ("cls.predictions.decoder.bias", "token_head.bias"),
        // The head by the names of the original.
        ("lm_predictions.lm_head.dense.weight", "token_head.transform.weight"),
        ("lm_predictions.lm_head.dense.bias", "token_head.transform.bias"),
        ("lm_predictions.lm_head.LayerNorm.weight", "token_head.norm.weight"),
        ("lm_predictions.lm_head.LayerNorm.bias", "token_head.norm.bias"),
        ("lm_predictions.lm_head.bias", "token_head.bias"),
    ])
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    options.default("layer_norm_eps", 1e-7);
    let (hidden, n_heads): (usize, usize) =
        (options.peek("hidden_size").unwrap_or(0), options.peek("num_attention_heads").unwrap_or(1));
    options.only("embedding_size", hidden)?;
    options.only("attention_head_size", hidden / n_heads.max(1))?;
    options.only("pooler_hidden_size", hidden)?;
    // A convolution beside the first layer.
    options.only("conv_kernel_size", 0)?;
    for key in ["conv_act", "conv_groups", "legacy", "pooler_dropout", "z_steps"] {
        options.take::<Value>(key)?;
    }
    let pooler = Pooler::new(options.take_or("pooler_hidden_act", Activation::Gelu)?);
    let types = options.take_or("type_vocab_size", 0)?;
    let added = options.take_or("position_biased_input", true)?;
    let (positions, kinds) = read_positions(options)?;
    let (mut form, activation, norm) = read_body(options, 0)?;
    if let Input::Tokens(tokens) = &mut form.input {
        tokens.types = types;
    }
    if let Some(stack) = &mut form.encoder {
        if !added {
            stack.positions = Positions::None;
        }
        for layer in &mut stack.layers {
            let variance = (layer.attention.d_head * (1 + kinds)) as f32;
            layer.attention.scale = Scale::Factor(1.0 / variance.sqrt());
            layer.attention.positions.clone_from(&positions);
        }
    }
    let legacy = "cls.predictions.transform.dense.weight";
    Heads {
        words: if shapes.contains(legacy) { legacy } else { "lm_predictions.lm_head.dense.weight" },
        transform: (activation, norm),
        pooler: shapes.contains("pooler.dense.weight").then_some(pooler),
        classifier: "classifier.weight",
        token_classifier: "classifier.weight",
        pair: None,
    }
    .put(&mut form, options, shapes);
    Ok(form)
}

/// Relative positions, and how many kinds of scores they have.
fn read_positions(options: &mut Options) -> Result<(Option<AttentionPositions>, usize)> {
    let kinds: Vec<String> = match options.take::<Value>("pos_att_type")? {
        Some(Value::String(text)) => text.split('|').map(|kind| kind.trim().to_lowercase()).collect(),
        Some(list) => serde_json::from_value(list).unwrap_or_else(|_| vec!["?".to_owned()]),
        None => Vec::new(),
    };
    if let Some(other) = kinds.iter().find(|kind| !["c2p", "p2c"].contains(&kind.as_str())) {
        let problem =
            format!("config.json: pos_att_type has {other:?}, of which only c2p and p2c are implemented");
        return Err(Error::checkpoint(problem));
    }
    let count = |options: &mut Options, key: &str| -> Result<Option<usize>> {
        Ok(options.take::<i64>(key)?.and_then(|count| usize::try_from(count).ok()).filter(|&count| count > 0))
    };
    let buckets = count(options, "position_buckets")?;
    let far = count(options, "max_relative_positions")?;
    let far = far.or(options.peek("max_position_embeddings")).unwrap_or(0);
    let shared = options.take_or("share_att_key", false)?;
    let normed: String = options.take_or("norm_rel_ebd", "none".to_owned())?;
    let norm = match normed.trim().to_lowercase().as_str() {
        "none" => None,
        "layer_norm" => Some(NormConfig::layer(options.peek("layer_norm_eps").unwrap_or(1e-7))),
        other => {
            let problem =
                format!("config.json: norm_rel_ebd is {other:?}, of which layer_norm is implemented");
            return Err(Error::checkpoint(problem));
        }
    };
    let relative = options.take_or("relative_attention", false)?;
    let has = |kind: &str| kinds.iter().any(|known| known == kind);
    let positions = AttentionPositions::Disentangled {
        span: buckets.unwrap_or(far),
        max_distance: buckets.map(|_| far),
        parts: DisentangledConfig {
            content_to_position: has("c2p"),
            position_to_content: has("p2c"),
            shared,
        },
        norm,
    };
    Ok((relative.then_some(positions), usize::from(has("c2p")) + usize::from(has("p2c"))))
}

fn write(form: &Form) -> Option<Value> {
    let stack = form.encoder.as_ref()?;
    let Some(AttentionPositions::Disentangled { span, max_distance, parts, norm }) =
        stack.layers.first()?.attention.positions
    else {
        return None;
    };
    // Positions that are not added are not limited either.
    let (added, context) = match stack.positions {
        Positions::Learned { context, .. } => (true, context),
        _ => (false, form.context?),
    };
    let learned = Positions::Learned { context, offset: 0, skips_padding: false };
    let mut whole = form.clone();
    whole.encoder.as_mut()?.positions = learned;
    let mut config = write_body(&whole, "DebertaV2")?;
    let kinds = [("c2p", parts.content_to_position), ("p2c", parts.position_to_content)];
    let kinds: Vec<&str> = kinds.into_iter().filter(|(_, has)| *has).map(|(kind, _)| kind).collect();
    config["relative_attention"] = json!(true);
    config["pos_att_type"] = json!(kinds);
    config["share_att_key"] = json!(parts.shared);
    config["norm_rel_ebd"] = json!(if norm.is_some() { "layer_norm" } else { "none" });
    config["position_buckets"] = max_distance.map_or(json!(-1), |_| json!(span));
    config["max_relative_positions"] = json!(max_distance.unwrap_or(span));
    config["position_biased_input"] = json!(added);
    if let Some(pooler) = form.output.pooler {
        config["pooler_hidden_act"] = json!(pooler.activation);
        config["pooler_hidden_size"] = json!(form.d_model);
    }
    Some(config)
}
