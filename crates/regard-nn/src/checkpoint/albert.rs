//! ALBERT's configuration and names: narrow embeddings, and one set of weights for all layers.

use super::bert::{COUNTS, read_body, write_body};
use super::family::{Family, Shapes};
use super::heads::Heads;
use super::names::Names;
use super::options::Options;
use crate::error::Result;
use crate::layers::Activation;
use crate::models::form::{Form, Input, Pooler};
use serde_json::{Value, json};

pub(super) const ALBERT: Family = Family {
    model_type: "albert",
    architectures: &[
        "AlbertForMaskedLM",
        "AlbertForPreTraining",
        "AlbertForQuestionAnswering",
        "AlbertForSequenceClassification",
        "AlbertForTokenClassification",
        "AlbertModel",
    ],
    prefix: "albert.",
    read,
    names,
    write,
};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@embeddings.word_embeddings"),
    ("positions.table", "@embeddings.position_embeddings"),
    ("types", "@embeddings.token_type_embeddings"),
    ("embedding_norm", "@embeddings.LayerNorm"),
    ("projection", "@encoder.embedding_hidden_mapping_in"),
    ("layers.0.attention.query", "@encoder.albert_layer_groups.0.albert_layers.0.attention.query"),
    ("layers.0.attention.key", "@encoder.albert_layer_groups.0.albert_layers.0.attention.key"),
    ("layers.0.attention.value", "@encoder.albert_layer_groups.0.albert_layers.0.attention.value"),
    ("layers.0.attention.output", "@encoder.albert_layer_groups.0.albert_layers.0.attention.dense"),
    ("layers.0.attention_norm", "@encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm"),
    ("layers.0.ffn.up", "@encoder.albert_layer_groups.0.albert_layers.0.ffn"),
    ("layers.0.ffn.down", "@encoder.albert_layer_groups.0.albert_layers.0.ffn_output"),
    ("layers.0.ffn_norm", "@encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm"),
    ("pooler", "@pooler"),
    ("token_head.transform", "predictions.dense"),
    ("token_head.norm", "predictions.LayerNorm"),
    ("token_head.bias", "predictions.bias"),
    ("pair", "sop_classifier.classifier"),
    ("classifier", "classifier"),
    ("token_classifier.scores", "classifier"),
    ("spans", "qa_outputs"),
];

fn names(form: &Form) -> Names {
    let unread: &[&'static str] = if form.output.pooler.is_none() { &["@pooler"] } else { &[] };
    let pair: &[&'static str] = if form.output.pair.is_none() { &["sop_classifier"] } else { &[] };
    Names::new(PAIRS, &[&COUNTS, unread, pair].concat()).with_copies(&[
        ("predictions.decoder.weight", "tokens.weight"),
        ("predictions.decoder.bias", "token_head.bias"),
    ])
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let width = options.optional_size("embedding_size")?.unwrap_or(128);
    // Groups of layers that each have weights of their own.
    options.only("num_hidden_groups", 1)?;
    options.only("inner_group_num", 1)?;
    let activation = options.take_or("hidden_act", Activation::GeluNew)?;
    let (mut form, _, norm) = read_body(options, 0)?;
    if let Input::Tokens(tokens) = &mut form.input {
        tokens.d_embedding = Some(width);
    }
    if let Some(stack) = &mut form.encoder {
        stack.shared = true;
        stack.layers[0].feed_forward.activation = activation;
    }
    Heads {
        words: "predictions.dense.weight",
        transform: (activation, norm),
        pooler: shapes.contains_either("albert.", "pooler.weight").then_some(Pooler::new(Activation::Tanh)),
        classifier: "classifier.weight",
        token_classifier: "classifier.weight",
        pair: Some("sop_classifier.classifier.weight"),
    }
    .put(&mut form, options, shapes);
    // What training drops before the classifier, and a switch that newer versions ignore.
    for key in ["classifier_dropout_prob", "down_scale_factor", "gap_size", "net_structure_type"] {
        options.take::<Value>(key)?;
    }
    options.only("num_memory_blocks", 0)?;
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    if !form.encoder.as_ref()?.shared {
        return None;
    }
    let mut config = write_body(form, "Albert")?;
    config["embedding_size"] = json!(form.d_embedding());
    config["num_hidden_groups"] = json!(1);
    config["inner_group_num"] = json!(1);
    Some(config)
}
