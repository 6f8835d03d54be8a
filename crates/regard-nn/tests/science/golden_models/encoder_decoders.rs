//! Encoder–decoders, which answer what they read.

use super::{Case, IGNORED, agree_where_present};
use regard_nn::models::Inputs;

fn t5(name: &str) {
    let case = Case::open(name);
    let target_mask = case.golden.mask("inputs/decoder_mask");
    let inputs = Inputs::masked(&case.ids(), Some(&case.mask()))
        .answered(&case.golden.ids("inputs/decoder_ids"), Some(&target_mask));
    let logits = case.model.forward(&case.context(), &inputs).unwrap();
    let loss = logits.cross_entropy(&case.golden.ids("inputs/labels"), IGNORED).unwrap();
    case.check(&logits, &loss, Some(&target_mask));
}

#[test]
fn t5_of_version_1_0() {
    t5("t5");
}

#[test]
fn t5_of_version_1_1() {
    t5("t5-gated");
}

#[test]
fn mt5_with_a_head_of_its_own() {
    t5("mt5");
}

#[test]
fn umt5_with_relative_positions_in_every_layer() {
    t5("umt5");
}

#[test]
fn bart() {
    t5("bart");
}

#[test]
fn marian_with_sines_before_cosines() {
    t5("marian");
}

#[test]
fn the_encoder_of_a_t5_alone() {
    let case = Case::open("t5-encoder");
    let mask = case.mask();
    let hidden = case.model.hidden(&case.context(), &Inputs::masked(&case.ids(), Some(&mask))).unwrap();
    agree_where_present("hidden", &hidden, &case.golden.tensor("hidden/2"), Some(&mask));
    let loss = hidden.multiply(&case.golden.tensor("inputs/hidden_upstream")).unwrap().sum_all().unwrap();
    case.check_sites();
    case.check_loss(&loss);
}
