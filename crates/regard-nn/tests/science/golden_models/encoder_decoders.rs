//! Encoder–decoders, which answer what they read.

use super::{Case, IGNORED};
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
