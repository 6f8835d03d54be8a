//! Encoders, which read in both directions.

use super::{Case, IGNORED, TOLERANCE, agree_where_present, of_texts};
use crate::golden::agree;
use crate::zoo::pool;
use regard_nn::models::Inputs;

fn bert(name: &str) {
    let case = Case::open(name);
    let (model, context) = (&*case.model, case.context());
    let types = case.golden.has("inputs/types").then(|| case.golden.ids("inputs/types"));
    let mask = case.mask();
    let inputs = Inputs { types, ..Inputs::masked(&case.ids(), Some(&mask)) };
    let hidden = model.hidden(&context, &inputs).unwrap();
    let last = model.attentions().len();
    agree_where_present("hidden", &hidden, &case.golden.tensor(&format!("hidden/{last}")), Some(&mask));
    if case.golden.has("pooled") {
        agree("pooled", &pool(model, &context, &hidden).unwrap(), &case.golden.tensor("pooled"), TOLERANCE);
    }
    if !case.golden.has("logits") {
        let upstream = |name: &str| case.golden.tensor(&format!("inputs/{name}_upstream"));
        let pooled = pool(model, &context, &hidden).unwrap().multiply(&upstream("pooled")).unwrap();
        let hidden = hidden.multiply(&upstream("hidden")).unwrap();
        let loss = pooled.sum_all().unwrap().add(&hidden.sum_all().unwrap()).unwrap();
        return case.check_loss(&loss);
    }
    let scores = model.scores(&context, &hidden).unwrap();
    let logits = if model.abilities().predicts_tokens() { scores } else { of_texts(&scores) };
    let loss = logits.cross_entropy(&case.golden.ids("inputs/labels"), IGNORED).unwrap();
    case.check(&logits, &loss, Some(&mask));
}

#[test]
fn bert_guessing_words() {
    bert("bert-mlm");
}

#[test]
fn bert_classifying() {
    bert("bert-classifier");
}

#[test]
fn bert_without_a_task() {
    bert("bert-base");
}

#[test]
fn roberta_guessing_words() {
    bert("roberta");
}

#[test]
fn roberta_classifying() {
    bert("roberta-classifier");
}

#[test]
fn distilbert_guessing_words() {
    bert("distilbert");
}

#[test]
fn distilbert_classifying() {
    bert("distilbert-classifier");
}
