//! Decoders, which predict the next token.

use super::{Case, IGNORED, agree_where_present};
use regard_nn::models::Inputs;
use regard_nn::tensor::{Ids, Tensor};

/// A causal model's loss: each token is the target of the one before it.
fn causal_loss(logits: &Tensor, labels: &Ids) -> Tensor {
    let [batch, time] = labels.shape()[..] else { panic!() };
    let targets: Vec<u32> = labels.values().chunks(time).flat_map(|row| row[1..].to_vec()).collect();
    let targets = Ids::new(&targets, [batch, time - 1]).unwrap();
    logits.slice(1, 0, time - 1).unwrap().cross_entropy(&targets, IGNORED).unwrap()
}

fn causal(name: &str) {
    let case = Case::open(name);
    let (ids, mask) = (case.ids(), case.mask());
    let context = case.context();
    let hidden = case.model.hidden(&context, &Inputs::masked(&ids, Some(&mask))).unwrap();
    let last = case.model.attentions().len();
    agree_where_present("hidden", &hidden, &case.golden.tensor(&format!("hidden/{last}")), Some(&mask));
    let logits = case.model.scores(&context, &hidden).unwrap();
    case.check(&logits, &causal_loss(&logits, &case.golden.ids("inputs/labels")), Some(&mask));
}

#[test]
fn gpt2() {
    causal("gpt2");
}

#[test]
fn gpt2_with_scores_scaled_by_layer() {
    causal("gpt2-scale");
}

#[test]
fn llama_with_grouped_queries() {
    causal("llama");
}

#[test]
fn llama_tied_with_biases_and_scaled_rotary_positions() {
    causal("llama-tied");
}
