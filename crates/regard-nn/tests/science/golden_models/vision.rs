//! Vision models, which read pictures, and the text models that belong to them.

use super::{Case, IGNORED, of_texts};
use crate::golden::agree;
use regard_nn::models::Inputs;
use regard_nn::tensor::Tensor;

fn inputs(case: &Case) -> Inputs {
    match case.golden.has("inputs/pixels") {
        true => Inputs::pictures(&case.golden.tensor("inputs/pixels")),
        false => {
            let mask = case.golden.has("inputs/mask").then(|| case.mask());
            Inputs::masked(&case.ids(), mask.as_ref())
        }
    }
}

fn classifies(name: &str) {
    let case = Case::open(name);
    let logits = of_texts(&case.model.forward(&case.context(), &inputs(&case)).unwrap());
    let loss = logits.cross_entropy(&case.golden.ids("inputs/labels"), IGNORED).unwrap();
    case.check(&logits, &loss, None);
}

/// An output without labels: the loss is Σ output·upstream.
fn gives(name: &str, output: &str, got: impl Fn(&Case) -> Tensor) {
    let case = Case::open(name);
    let got = got(&case);
    agree(output, &got, &case.golden.tensor(output), super::TOLERANCE);
    let loss = got.multiply(&case.golden.tensor("inputs/upstream")).unwrap().sum_all().unwrap();
    case.check_sites();
    case.check_loss(&loss);
}

fn scores(case: &Case) -> Tensor {
    of_texts(&case.model.forward(&case.context(), &inputs(case)).unwrap())
}

#[test]
fn vit() {
    classifies("vit");
}

#[test]
fn deit() {
    classifies("deit");
}

#[test]
fn deit_with_two_classifiers() {
    gives("deit-teacher", "logits", scores);
}

#[test]
fn dinov2() {
    classifies("dinov2");
}

#[test]
fn dinov2_with_registers() {
    classifies("dinov2-registers");
}

#[test]
fn dinov2_with_gated_layers() {
    gives("dinov2-gated", "last", |case| case.model.hidden(&case.context(), &inputs(case)).unwrap());
}

#[test]
fn clip_reading_pictures() {
    gives("clip-vision", "vector", scores);
}

#[test]
fn clip_reading_texts() {
    gives("clip-text", "vector", scores);
}

#[test]
fn siglip_reading_pictures() {
    gives("siglip-vision", "vector", scores);
}

#[test]
fn siglip_reading_texts() {
    gives("siglip-text", "vector", scores);
}
