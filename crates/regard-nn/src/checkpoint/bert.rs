//! The configurations and names of BERT, RoBERTa and DistilBERT.

use super::family::{Family, Shapes, with_labels};
use super::names::Names;
use super::options::Options;
use crate::error::{Error, Result};
use crate::layers::{Activation, NormConfig};
use crate::models::BertConfig;
use crate::models::form::{Form, Input, Pooler, Positions, TokenScores};
use serde_json::{Value, json};

pub(super) const BERT: Family = Family {
    model_type: "bert",
    architectures: &["BertForMaskedLM", "BertForPreTraining", "BertForSequenceClassification", "BertModel"],
    prefix: "bert.",
    read: read_bert,
    names: bert_names,
    write: write_bert,
};

pub(super) const ROBERTA: Family = Family {
    model_type: "roberta",
    architectures: &["RobertaForMaskedLM", "RobertaForSequenceClassification", "RobertaModel"],
    prefix: "roberta.",
    read: read_roberta,
    names: roberta_names,
    write: write_roberta,
};

pub(super) const DISTILBERT: Family = Family {
    model_type: "distilbert",
    architectures: &["DistilBertForMaskedLM", "DistilBertForSequenceClassification", "DistilBertModel"],
    prefix: "distilbert.",
    read: read_distilbert,
    names: distilbert_names,
    write: write_distilbert,
};

/// BERT's and RoBERTa's body.
const BODY: &[(&str, &str)] = &[
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

const BERT_HEADS: &[(&str, &str)] = &[
    ("pooler", "@pooler.dense"),
    ("token_head.transform", "cls.predictions.transform.dense"),
    ("token_head.norm", "cls.predictions.transform.LayerNorm"),
    ("token_head.bias", "cls.predictions.bias"),
    ("classifier", "classifier"),
];

const ROBERTA_HEADS: &[(&str, &str)] = &[
    ("token_head.transform", "lm_head.dense"),
    ("token_head.norm", "lm_head.layer_norm"),
    ("token_head.bias", "lm_head.bias"),
    ("classifier", "classifier.out_proj"),
];

const DISTILBERT_PAIRS: &[(&str, &str)] = &[
    ("tokens", "@embeddings.word_embeddings"),
    ("positions.table", "@embeddings.position_embeddings"),
    ("embedding_norm", "@embeddings.LayerNorm"),
    ("layers.#.attention.query", "@transformer.layer.#.attention.q_lin"),
    ("layers.#.attention.key", "@transformer.layer.#.attention.k_lin"),
    ("layers.#.attention.value", "@transformer.layer.#.attention.v_lin"),
    ("layers.#.attention.output", "@transformer.layer.#.attention.out_lin"),
    ("layers.#.attention_norm", "@transformer.layer.#.sa_layer_norm"),
    ("layers.#.ffn.up", "@transformer.layer.#.ffn.lin1"),
    ("layers.#.ffn.down", "@transformer.layer.#.ffn.lin2"),
    ("layers.#.ffn_norm", "@transformer.layer.#.output_layer_norm"),
    ("token_head.transform", "vocab_transform"),
    ("token_head.norm", "vocab_layer_norm"),
    ("token_head.bias", "vocab_projector.bias"),
    ("pooler", "pre_classifier"),
    ("classifier", "classifier"),
];

/// Buffers that hold counting numbers.
const COUNTS: [&str; 2] = ["@embeddings.position_ids", "@embeddings.token_type_ids"];

/// Names, without a pooler that nothing reads.
fn names(form: &Form, pairs: &[(&'static str, &'static str)], more: &[&'static str]) -> Names {
    let unread: &[&'static str] = if form.output.pooler.is_none() { &["@pooler.dense"] } else { &[] };
    Names::new(pairs, &[&COUNTS, unread, more].concat())
}

fn bert_names(form: &Form) -> Names {
    names(form, &[BODY, BERT_HEADS].concat(), &["cls.seq_relationship"]).with_copies(&[
        ("cls.predictions.decoder.weight", "tokens.weight"),
        ("cls.predictions.decoder.bias", "token_head.bias"),
    ])
}

fn roberta_names(form: &Form) -> Names {
    // A classifier has a layer of its own before it; the pooler is that of a bare model.
    let pooler = if form.output.classes.is_some() { "classifier.dense" } else { "@pooler.dense" };
    names(form, &[BODY, ROBERTA_HEADS, &[("pooler", pooler)]].concat(), &[]).with_copies(&[
        ("lm_head.decoder.weight", "tokens.weight"),
        ("lm_head.decoder.bias", "token_head.bias"),
    ])
}

fn distilbert_names(form: &Form) -> Names {
    names(form, DISTILBERT_PAIRS, &[]).with_copies(&[("vocab_projector.weight", "tokens.weight")])
}

/// The heads that a checkpoint has, by one of the tensors of each.
struct Heads<'a> {
    words: &'a str,
    pooler: bool,
    pooler_activation: Activation,
    classifier: &'a str,
}

impl Heads<'_> {
    /// Puts the heads on a form whose masked words have this activation.
    fn put(&self, form: &mut Form, shapes: &Shapes, activation: Activation, norm: NormConfig) {
        let words = TokenScores { bias: true, transform: Some((activation, norm)), ..TokenScores::new(true) };
        form.output.tokens = shapes.contains(self.words).then_some(words);
        form.output.classes = shapes.rows(self.classifier);
        form.output.pooler = self.pooler.then_some(Pooler { activation: self.pooler_activation });
    }
}

fn read_bert(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let (mut form, activation, norm) = read_body(options, 0)?;
    Heads {
        words: "cls.predictions.transform.dense.weight",
        pooler: shapes.contains_either("bert.", "pooler.dense.weight"),
        pooler_activation: Activation::Tanh,
        classifier: "classifier.weight",
    }
    .put(&mut form, shapes, activation, norm);
    Ok(form)
}

fn read_roberta(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    // RoBERTa counts positions from the row after the padding's id.
    let padding: u32 = options.take_or("pad_token_id", 1)?;
    let (mut form, _, norm) = read_body(options, padding as usize + 1)?;
    let classifier = "classifier.out_proj.weight";
    Heads {
        words: "lm_head.dense.weight",
        pooler: shapes.contains_either("roberta.", "pooler.dense.weight") || shapes.contains(classifier),
        pooler_activation: Activation::Tanh,
        classifier,
    }
    .put(&mut form, shapes, Activation::Gelu, norm);
    Ok(form)
}

/// BERT's and RoBERTa's body, with positions that count from `offset`.
fn read_body(options: &mut Options, offset: usize) -> Result<(Form, Activation, NormConfig)> {
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

fn read_distilbert(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let activation = options.take_or("activation", Activation::Gelu)?;
    // A table of sines and cosines is stored like any other.
    options.take::<bool>("sinusoidal_pos_embds")?;
    options.only("tie_word_embeddings", true)?;
    let config = BertConfig {
        vocabulary: options.size("vocab_size")?,
        context: options.size("max_position_embeddings")?,
        n_types: 0,
        n_layers: options.size("n_layers")?,
        n_heads: options.size("n_heads")?,
        d_model: options.size("dim")?,
        d_hidden: options.size("hidden_dim")?,
        activation,
        norm_epsilon: 1e-12,
        deviation: options.real("initializer_range", 0.02)?,
        dropout: options.real("dropout", 0.1)?,
        classes: None,
        checkpointing: false,
    };
    let mut form = config.form();
    Heads {
        words: "vocab_transform.weight",
        pooler: shapes.contains("pre_classifier.weight"),
        pooler_activation: Activation::Relu,
        classifier: "classifier.weight",
    }
    .put(&mut form, shapes, activation, NormConfig::layer(1e-12));
    Ok(form)
}

fn architecture(form: &Form, body: &str) -> Value {
    let task = match (form.output.classes, form.output.tokens) {
        (Some(_), _) => "ForSequenceClassification",
        (None, Some(_)) => "ForMaskedLM",
        (None, None) => "Model",
    };
    json!([format!("{body}{task}")])
}

fn write_bert(form: &Form) -> Option<Value> {
    write_body(form, "Bert")
}

fn write_roberta(form: &Form) -> Option<Value> {
    let Positions::Learned { offset, .. } = form.encoder.as_ref()?.positions else { return None };
    let mut config = write_body(form, "Roberta")?;
    config["pad_token_id"] = json!(offset.checked_sub(1)?);
    Some(config)
}

fn write_body(form: &Form, body: &str) -> Option<Value> {
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
    Some(with_labels(config, form.output.classes))
}

fn write_distilbert(form: &Form) -> Option<Value> {
    let stack = form.encoder.as_ref()?;
    let Positions::Learned { context, .. } = stack.positions else { return None };
    let layer = stack.layers.first()?;
    let config = json!({
        "architectures": architecture(form, "DistilBert"),
        "vocab_size": form.vocabulary(),
        "n_layers": stack.n_layers,
        "n_heads": layer.attention.n_heads,
        "dim": form.d_model,
        "hidden_dim": layer.feed_forward.d_hidden,
        "activation": layer.feed_forward.activation,
        "max_position_embeddings": context,
        "initializer_range": form.deviations.inner,
        "dropout": form.dropout.residual,
        "attention_dropout": form.dropout.attention,
    });
    Some(with_labels(config, form.output.classes))
}
