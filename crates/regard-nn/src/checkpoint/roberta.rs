//! The configurations and names of RoBERTa, XLM-RoBERTa and CamemBERT, which differ in their vocabularies only.

use super::bert::{BODY, names_of, read_body, write_body};
use super::family::{Family, Shapes};
use super::heads::Heads;
use super::names::Names;
use super::options::Options;
use crate::error::Result;
use crate::layers::Activation;
use crate::models::form::{Form, Pooler, Positions};
use serde_json::{Value, json};

pub(super) const ROBERTA: Family = Family {
    model_type: "roberta",
    architectures: &[
        "RobertaForMaskedLM",
        "RobertaForQuestionAnswering",
        "RobertaForSequenceClassification",
        "RobertaForTokenClassification",
        "RobertaModel",
    ],
    prefix: "roberta.",
    read,
    names,
    write: |form| write(form, "Roberta"),
};

pub(super) const XLM_ROBERTA: Family = Family {
    model_type: "xlm-roberta",
    architectures: &[
        "XLMRobertaForMaskedLM",
        "XLMRobertaForQuestionAnswering",
        "XLMRobertaForSequenceClassification",
        "XLMRobertaForTokenClassification",
        "XLMRobertaModel",
    ],
    write: |form| write(form, "XLMRoberta"),
    ..ROBERTA
};

pub(super) const CAMEMBERT: Family = Family {
    model_type: "camembert",
    architectures: &[
        "CamembertForMaskedLM",
        "CamembertForQuestionAnswering",
        "CamembertForSequenceClassification",
        "CamembertForTokenClassification",
        "CamembertModel",
    ],
    write: |form| write(form, "Camembert"),
    ..ROBERTA
};

const HEADS: &[(&str, &str)] = &[
    ("token_head.transform", "lm_head.dense"),
    ("token_head.norm", "lm_head.layer_norm"),
    ("token_head.bias", "lm_head.bias"),
    ("classifier", "classifier.out_proj"),
    ("token_classifier.scores", "classifier"),
    ("spans", "qa_outputs"),
];

fn names(form: &Form) -> Names {
    // A classifier has a layer of its own before it; the pooler is that of a bare model.
    let pooler = if form.output.classes.is_some() { "classifier.dense" } else { "@pooler.dense" };
    names_of(form, &[BODY, HEADS, &[("pooler", pooler)]].concat(), &[]).with_copies(&[
        ("lm_head.decoder.weight", "tokens.weight"),
        ("lm_head.decoder.bias", "token_head.bias"),
    ])
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    // Positions count from the row after the padding's id.
    let padding: u32 = options.take_or("pad_token_id", 1)?;
    let (mut form, _, norm) = read_body(options, padding as usize + 1)?;
    let classifier = "classifier.out_proj.weight";
    let has_pooler = shapes.contains_either("roberta.", "pooler.dense.weight") || shapes.contains(classifier);
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

fn write(form: &Form, body: &str) -> Option<Value> {
    let Positions::Learned { offset, .. } = form.encoder.as_ref()?.positions else { return None };
    let mut config = write_body(form, body)?;
    config["pad_token_id"] = json!(offset.checked_sub(1)?);
    Some(config)
}
