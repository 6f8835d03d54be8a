//! MPNet's configuration and names: BERT's body with a table of relative positions that all layers share.

use super::bert::{COUNTS, read_body, write_body};
use super::family::{Family, Shapes};
use super::heads::Heads;
use super::names::Names;
use super::options::Options;
use crate::error::Result;
use crate::layers::Activation;
use crate::models::form::{AttentionPositions, Form, Input, Pooler};
use serde_json::{Value, json};

pub(super) const MPNET: Family = Family {
    model_type: "mpnet",
    architectures: &[
        "MPNetForMaskedLM",
        "MPNetForQuestionAnswering",
        "MPNetForSequenceClassification",
        "MPNetForTokenClassification",
        "MPNetModel",
    ],
    prefix: "mpnet.",
    read,
    names,
    write,
};

const PAIRS: &[(&str, &str)] = &[
    ("tokens", "@embeddings.word_embeddings"),
    ("positions.table", "@embeddings.position_embeddings"),
    ("positions.relative", "@encoder.relative_attention_bias.weight"),
    ("embedding_norm", "@embeddings.LayerNorm"),
    ("layers.#.attention.query", "@encoder.layer.#.attention.attn.q"),
    ("layers.#.attention.key", "@encoder.layer.#.attention.attn.k"),
    ("layers.#.attention.value", "@encoder.layer.#.attention.attn.v"),
    ("layers.#.attention.output", "@encoder.layer.#.attention.attn.o"),
    ("layers.#.attention_norm", "@encoder.layer.#.attention.LayerNorm"),
    ("layers.#.ffn.up", "@encoder.layer.#.intermediate.dense"),
    ("layers.#.ffn.down", "@encoder.layer.#.output.dense"),
    ("layers.#.ffn_norm", "@encoder.layer.#.output.LayerNorm"),
    ("token_head.transform", "lm_head.dense"),
    ("token_head.norm", "lm_head.layer_norm"),
    ("token_head.bias", "lm_head.bias"),
    ("classifier", "classifier.out_proj"),
    ("token_classifier.scores", "classifier"),
    ("spans", "qa_outputs"),
];

/// The buckets of distances, the same in every configuration.
const BUCKETS: usize = 32;
const MAX_DISTANCE: usize = 128;

/// The id of padding, in every configuration.
const PADDING: usize = 1;

fn names(form: &Form) -> Names {
    // A classifier has a layer of its own before it; the pooler is that of a bare model.
    let pooler = if form.output.classes.is_some() { "classifier.dense" } else { "@pooler.dense" };
    let unread: &[&'static str] = if form.output.pooler.is_none() { &["@pooler.dense"] } else { &[] };
    Names::new(&[PAIRS, &[("pooler", pooler)]].concat(), &[&COUNTS, unread].concat()).with_copies(&[
        ("lm_head.decoder.weight", "tokens.weight"),
        ("lm_head.decoder.bias", "token_head.bias"),
    ])
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    options.only("pad_token_id", PADDING)?;
    options.only("relative_attention_num_buckets", BUCKETS)?;
    let (mut form, _, norm) = read_body(options, PADDING + 1)?;
    if let Input::Tokens(tokens) = &mut form.input {
        tokens.types = 0;
    }
    let relative =
        AttentionPositions::Relative { buckets: BUCKETS, max_distance: MAX_DISTANCE, by_layer: false };
    for layer in form.encoder.iter_mut().flat_map(|stack| &mut stack.layers) {
        layer.attention.positions = Some(relative.clone());
    }
    let classifier = "classifier.out_proj.weight";
    let has_pooler = shapes.contains_either("mpnet.", "pooler.dense.weight") || shapes.contains(classifier);
    Heads {
        words: "lm_head.dense.weight",
        transform: (Activation::Gelu, norm),
        pooler: has_pooler.then_some(Pooler::new(Activation::Tanh)),
        classifier,
        token_classifier: "classifier.weight",
        pair: None,
    }
    .put(&mut form, options, shapes);
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let mut config = write_body(form, "MPNet")?;
    config["relative_attention_num_buckets"] = json!(BUCKETS);
    config["pad_token_id"] = json!(PADDING);
    config.as_object_mut()?.remove("type_vocab_size");
    Some(config)
}
