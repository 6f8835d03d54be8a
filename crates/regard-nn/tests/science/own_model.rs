//! A model that is not the library's own can be trained, probed, saved and read with it.

#[path = "../../examples/own_model.rs"]
#[allow(dead_code)]
mod example;

use regard_nn::models::Model;
use regard_nn::{Initial, checkpoint};

#[test]
fn the_example_learns_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let accuracy = example::run(folder.path()).unwrap();
    assert!(accuracy > 0.85, "{accuracy}");
    let config = checkpoint::read_config(folder.path()).unwrap();
    assert_eq!(config["model_type"], "regard-kernel");
    let error = checkpoint::load(folder.path()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("unknown variant `kernel`"), "only its author can build it: {error}");
    // A copy has parameters of its own.
    let model: Box<dyn Model> = Box::new(example::Kernel::build(&Initial::new(1)).unwrap());
    let mut copy = model.clone();
    copy.parameters_mut()[0].1.tensor_mut().set_values(&[0.0; 48 * 8]).unwrap();
    assert!(model.parameters()[0].1.tensor().values()[0] != 0.0);
}
