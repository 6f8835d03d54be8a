//! DistilBERT's configuration and names.

use super::bert::names_of;
use super::family::{Family, Shapes, with_labels};
use super::heads::{Heads, architecture};
use super::names::Names;
use super::options::Options;
use crate::error::Result;
use crate::layers::{Activation, NormConfig};
use crate::models::BertConfig;
use crate::models::form::{Form, Pooler, Positions};
use serde_json::{Value, json};

pub(super) const DISTILBERT: Family = Family {
    model_type: "distilbert",
    architectures: &[
        "DistilBertForMaskedLM",
        "DistilBertForQuestionAnswering",
        "DistilBertForSequenceClassification",
        "DistilBertForTokenClassification",
        "DistilBertModel",
    ],
    prefix: "distilbert.",
    read,
    names,
    write,
};

const PAIRS: &[(&str, &str)] = &[
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
    ("token_classifier.scores", "classifier"),
    ("spans", "qa_outputs"),
];

fn names(form: &Form) -> Names {
    names_of(form, PAIRS, &[]).with_copies(&[("vocab_projector.weight", "tokens.weight")])
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
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
    let has_pooler = shapes.contains("pre_classifier.weight");
    Heads {
        words: "vocab_transform.weight",
        transform: (activation, NormConfig::layer(1e-12)),
        pooler: has_pooler.then_some(Pooler::new(Activation::Relu)),
        classifier: "classifier.weight",
        token_classifier: "classifier.weight",
        pair: None,
    }
    .put(&mut form, options, shapes);
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
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
    Some(with_labels(config, form.output.labels()))
}
