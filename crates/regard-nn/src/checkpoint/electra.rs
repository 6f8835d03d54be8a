//! ELECTRA's configuration and names: the generator, which predicts masked words, and the discriminator, which tells
//! replaced words from original ones.

use super::bert::{BODY, names_of, read_body, write_body};
use super::family::{Family, Shapes};
use super::heads::Heads;
use super::names::Names;
use super::options::Options;
use crate::error::Result;
use crate::layers::Activation;
use crate::models::form::{Form, Input, Pooler, TokenClasses};
use serde_json::{Value, json};

pub(super) const ELECTRA: Family = Family {
    model_type: "electra",
    architectures: &[
        "ElectraForMaskedLM",
        "ElectraForPreTraining",
        "ElectraForQuestionAnswering",
        "ElectraForSequenceClassification",
        "ElectraForTokenClassification",
        "ElectraModel",
    ],
    prefix: "electra.",
    read,
    names,
    write,
};

const HEADS: &[(&str, &str)] = &[
    ("projection", "@embeddings_project"),
    ("token_head.transform", "generator_predictions.dense"),
    ("token_head.norm", "generator_predictions.LayerNorm"),
    ("token_head.bias", "generator_lm_head.bias"),
    ("pooler", "classifier.dense"),
    ("classifier", "classifier.out_proj"),
    ("spans", "qa_outputs"),
];

const DISCRIMINATOR: &[(&str, &str)] = &[
    ("token_classifier.transform", "discriminator_predictions.dense"),
    ("token_classifier.scores", "discriminator_predictions.dense_prediction"),
];

const TAGGER: &[(&str, &str)] = &[("token_classifier.scores", "classifier")];

fn names(form: &Form) -> Names {
    let of_tokens = if discriminates(form) { DISCRIMINATOR } else { TAGGER };
    names_of(form, &[BODY, HEADS, of_tokens].concat(), &[])
        .with_copies(&[("generator_lm_head.weight", "tokens.weight")])
}

/// Whether a form tells replaced words from original ones.
fn discriminates(form: &Form) -> bool {
    form.output.token_classes.is_some_and(|classes| classes.transform.is_some())
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let width = options.optional_size("embedding_size")?.unwrap_or(128);
    let (mut form, activation, norm) = read_body(options, 0)?;
    if let Input::Tokens(tokens) = &mut form.input {
        tokens.d_embedding = (width != form.d_model).then_some(width);
    }
    let classifier = "classifier.out_proj.weight";
    Heads {
        words: "generator_predictions.dense.weight",
        // Whatever the layers have.
        transform: (Activation::Gelu, norm),
        pooler: shapes.contains(classifier).then_some(Pooler::new(Activation::Gelu)),
        classifier,
        token_classifier: "classifier.weight",
        pair: None,
    }
    .put(&mut form, options, shapes);
    if shapes.contains("discriminator_predictions.dense.weight") {
        form.output.token_classes =
            Some(TokenClasses { classes: 1, transform: Some(Pooler::new(activation)) });
    }
    // A layer for summaries that its heads do not use.
    for key in ["type", "use_proj", "activation", "last_dropout", "first_dropout", "proj_to_labels"] {
        options.take::<Value>(&format!("summary_{key}"))?;
    }
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let mut config = write_body(form, "Electra")?;
    config["embedding_size"] = json!(form.d_embedding());
    if discriminates(form) {
        config["architectures"] = json!(["ElectraForPreTraining"]);
    }
    Some(config)
}
