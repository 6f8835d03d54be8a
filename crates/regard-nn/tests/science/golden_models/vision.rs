//! Vision models, which read pictures.

use super::{Case, IGNORED, of_texts};
use regard_nn::models::Inputs;

#[test]
fn vit() {
    let case = Case::open("vit");
    let inputs = Inputs::pictures(&case.golden.tensor("inputs/pixels"));
    let logits = of_texts(&case.model.forward(&case.context(), &inputs).unwrap());
    let loss = logits.cross_entropy(&case.golden.ids("inputs/labels"), IGNORED).unwrap();
    case.check(&logits, &loss, None);
}
