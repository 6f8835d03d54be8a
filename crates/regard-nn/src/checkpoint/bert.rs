//! BERT's configuration and names, and the body that other families share with it.

use super::family::{Family, Shapes, with_labels};
use super::heads::{Heads, architecture};
use super::names::Names;
use super::options::Options;
use crate::error::{Error, Result};
use crate::layers::{Activation, NormConfig};
use crate::models::BertConfig;
use crate::models::form::{Form, Input, Pooler, Positions};
use serde_json::{Value, json};

pub(super) const BERT: Family = Family {
    model_type: "bert",
    architectures: &[
        "BertForMaskedLM",
        "BertForNextSentencePrediction",
        "BertForPreTraining",
        "BertForQuestionAnswering",
        "BertForSequenceClassification",
        "BertForTokenClassification",
        "BertModel",
    ],
    prefix: "bert.",
    read,
    names,
    write,
};

/// The body of BERT, RoBERTa and ELECTRA.
pub(super) const BODY: &[(&str, &str)] = &[
    ("tokens", "@embeddings.word_embeddings"),
    ("positions.table", "@embeddings.position_embeddings"),
    ("types", "@embeddings.token_type_embeddings"),
    ("embedding_norm", "@embeddings.LayerNorm"),
    ("layers.#.attention.query", "@encoder.layer.#.attention.self.query"),
    ("layers.#.attention.key", "@encoder.layer.#.attention.self.key"),
    ("layers.#.attention.value", "@encoder.layer.#.attention.self.value"),
    ("layers.#.attention.output", "@encoder.layer.#.attention.output.dense"),
    ("layers.#.attention_norm", "@encoder.layer.#.attention.output.LayerNorm"),
    ("layers.#.ffn.up", "@encoder.layer.#.intermediate.dense"),
    ("layers.#.ffn.down", "@encoder.layer.#.output.dense"),
    ("layers.#.ffn_norm", "@encoder.layer.#.output.LayerNorm"),
];

const HEADS: &[(&str, &str)] = &[
    ("pooler", "@pooler.dense"),
    ("token_head.transform", "cls.predictions.transform.dense"),
    ("token_head.norm", "cls.predictions.transform.LayerNorm"),
    ("token_head.bias", "cls.predictions.bias"),
    ("pair", "cls.seq_relationship"),
    ("classifier", "classifier"),
    ("token_classifier.scores", "classifier"),
    ("spans", "qa_outputs"),
];

/// Buffers that hold counting numbers.
pub(super) const COUNTS: [&str; 2] = ["@embeddings.position_ids", "@embeddings.token_type_ids"];

/// Names, without a pooler that nothing reads.
pub(super) fn names_of(form: &Form, pairs: &[(&'static str, &'static str)], more: &[&'static str]) -> Names {
    let unread: &[&'static str] = if form.output.pooler.is_none() { &["@pooler.dense"] } else { &[] };
    Names::new(pairs, &[&COUNTS, unread, more].concat())
}

fn names(form: &Form) -> Names {
    let unread: &[&'static str] = if form.output.pair.is_none() { &["cls.seq_relationship"] } else { &[] };
    names_of(form, &[BODY, HEADS].concat(), unread).with_copies(&[
        ("cls.predictions.decoder.weight", "tokens.weight"),
        ("cls.predictions.decoder.bias", "token_head.bias"),
        // A model that only tells whether a sentence follows another is a classifier.
        ("cls.seq_relationship.weight", "classifier.weight"),
        ("cls.seq_relationship.bias", "classifier.bias"),
    ])
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let (mut form, activation, norm) = read_body(options, 0)?;
    let follows = options.names_class("ForNextSentencePrediction");
    let has_pooler = shapes.contains_either("bert.", "pooler.dense.weight");
    Heads {
        words: "cls.predictions.transform.dense.weight",
        transform: (activation, norm),
        pooler: has_pooler.then_some(Pooler::new(Activation::Tanh)),
        classifier: if follows { "cls.seq_relationship.weight" } else { "classifier.weight" },
        token_classifier: "classifier.weight",
        pair: Some("cls.seq_relationship.weight"),
    }
    .put(&mut form, options, shapes);
    Ok(form)
}

/// The body, with positions that count from `offset`.
pub(super) fn read_body(options: &mut Options, offset: usize) -> Result<(Form, Activation, NormConfig)> {
    let rows = options.size("max_position_embeddings")?;
    let Some(context) = rows.checked_sub(offset).filter(|&context| context > 0) else {
        return Err(Error::checkpoint(format!(
            "config.json: {rows} positions are too few for a padding token of {}",
            offset - 1
        )));
    };
    let activation = options.take_or("hidden_act", Activation::Gelu)?;
    for (key, implemented) in [("is_decoder", false), ("add_cross_attention", false)] {
        options.only(key, implemented)?;
    }
    options.only("position_embedding_type", "absolute")?;
    options.only("embedding_size", Value::Null)?;
    options.only("tie_word_embeddings", true)?;
    let config = BertConfig {
        vocabulary: options.size("vocab_size")?,
        context,
        n_types: options.optional_size("type_vocab_size")?.unwrap_or(2),
        n_layers: options.size("num_hidden_layers")?,
        n_heads: options.size("num_attention_heads")?,
        d_model: options.size("hidden_size")?,
        d_hidden: options.size("intermediate_size")?,
        activation,
        norm_epsilon: options.real("layer_norm_eps", 1e-12)?,
        deviation: options.real("initializer_range", 0.02)?,
        dropout: options.real("hidden_dropout_prob", 0.1)?,
        classes: None,
        checkpointing: false,
    };
    let mut form = config.form();
    if let Some(stack) = &mut form.encoder {
        stack.positions = Positions::Learned { context, offset, skips_padding: offset > 0 };
    }
    Ok((form, activation, NormConfig::layer(config.norm_epsilon)))
}

fn write(form: &Form) -> Option<Value> {
    write_body(form, "Bert")
}

pub(super) fn write_body(form: &Form, body: &str) -> Option<Value> {
    let (stack, Input::Tokens(tokens)) = (form.encoder.as_ref()?, &form.input) else { return None };
    let Positions::Learned { context, offset, .. } = stack.positions else { return None };
    let layer = stack.layers.first()?;
    let config = json!({
        "architectures": architecture(form, body),
        "vocab_size": tokens.vocabulary,
        "num_hidden_layers": stack.n_layers,
        "num_attention_heads": layer.attention.n_heads,
        "hidden_size": form.d_model,
        "intermediate_size": layer.feed_forward.d_hidden,
        "hidden_act": layer.feed_forward.activation,
        "type_vocab_size": tokens.types,
        "max_position_embeddings": context + offset,
        "layer_norm_eps": layer.norm.epsilon,
        "initializer_range": form.deviations.inner,
        "hidden_dropout_prob": form.dropout.residual,
        "attention_probs_dropout_prob": form.dropout.attention,
    });
    Some(with_labels(config, form.output.labels()))
}
