//! Encoders, which read in both directions.

use super::{Case, IGNORED, TOLERANCE, agree_where_present, of_texts};
use crate::golden::agree;
use crate::zoo::pool;
use regard_nn::models::{Inputs, Predicts};
use regard_nn::tensor::Tensor;

fn bert(name: &str) {
    let case = Case::open(name);
    let (model, context) = (&*case.model, case.context());
    let types = case.golden.has("inputs/types").then(|| case.golden.ids("inputs/types"));
    let mask = case.mask();
    let inputs = Inputs { types, ..Inputs::masked(&case.ids(), Some(&mask)) };
    let hidden = model.hidden(&context, &inputs).unwrap();
    let last = model.attentions().len();
    if hidden.shape()[1] == mask.shape()[1] {
        agree_where_present("hidden", &hidden, &case.golden.tensor(&format!("hidden/{last}")), Some(&mask));
    }
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
    let labels = case.golden.ids("inputs/labels");
    let loss = match model.abilities().predicts {
        Predicts::Class => of_texts(&scores).cross_entropy(&labels, IGNORED).unwrap(),
        Predicts::Span => model.loss(&context, &hidden, &labels, IGNORED).unwrap(),
        _ => scores.cross_entropy(&labels, IGNORED).unwrap(),
    };
    let logits = match model.abilities().predicts {
        Predicts::Class => of_texts(&scores),
        Predicts::TokenClass if model.abilities().one_logit => scores.slice(2, 1, 1).unwrap(),
        _ => scores,
    };
    let loss = match case.golden.has("pair") {
        true => loss.add(&pair_loss(&case)).unwrap(),
        false => loss,
    };
    case.check(&logits, &loss, Some(&mask));
}

/// The loss of the classes of a pair of sentences, which are compared on the way.
fn pair_loss(case: &Case) -> Tensor {
    let pair = case.recorded("pair.logits");
    agree("pair", &pair, &case.golden.tensor("pair"), TOLERANCE);
    pair.cross_entropy(&case.golden.ids("inputs/pair_labels"), IGNORED).unwrap()
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

#[test]
fn bert_guessing_words_and_the_next_sentence() {
    bert("bert-pretraining");
}

#[test]
fn xlm_roberta_classifying_tokens() {
    bert("xlm-roberta");
}

#[test]
fn camembert_finding_answers() {
    bert("camembert");
}

#[test]
fn electra_guessing_words() {
    bert("electra-generator");
}

#[test]
fn electra_telling_replaced_words() {
    bert("electra-discriminator");
}

#[test]
fn electra_classifying() {
    bert("electra-classifier");
}

#[test]
fn albert_guessing_words_and_the_order_of_sentences() {
    bert("albert");
}

#[test]
fn albert_classifying() {
    bert("albert-classifier");
}

#[test]
fn mpnet_guessing_words() {
    bert("mpnet");
}

#[test]
fn deberta_guessing_words() {
    bert("deberta");
}

#[test]
fn deberta_classifying() {
    bert("deberta-classifier");
}

#[test]
fn deberta_classifying_tokens() {
    bert("deberta-tagger");
}

#[test]
fn modernbert_guessing_words() {
    bert("modernbert");
}

#[test]
fn modernbert_classifying() {
    bert("modernbert-classifier");
}

#[test]
fn modernbert_classifying_tokens() {
    bert("modernbert-tagger");
}
