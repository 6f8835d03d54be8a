//! A seed gives the models that the recorded experiments were run with, and they compute what they computed then.

use crate::zoo;
use regard_nn::Context;

/// Losses with all parameters but those of norms ten times as large as drawn, as they were before models became forms.
const LOSSES: [(&str, f32); 23] = [
    ("gpt", 3.0219257),
    ("gpt, rotary, post-norm, untied", 2.625426),
    ("gpt, relative, learned sink", 2.9470358),
    ("gpt, alibi, additive, window", 2.8437777),
    ("gpt, sinusoidal, linear", 2.8337955),
    ("gpt, no positions, sigmoid, unscaled", 2.841609),
    ("bert", 2.7773535),
    ("bert, classifier", 1.2280364),
    ("bert, bare", 0.7486806),
    ("bert, like roberta", 2.8751643),
    ("bert, like distilbert", 1.1859051),
    ("t5", 17.385242),
    ("t5, gated", 18.186214),
    ("llama", 2.9034104),
    ("llama, tied, with biases", 2.7906675),
    ("vit", 1.6641948),
    ("sentiment, max", 1.157651),
    ("sentiment, additive", 1.7522354),
    ("sentiment, heads", 208.89075),
    ("bag", 6.4623117),
    ("bag, attention", 327.86572),
    ("bag, relative, frozen", 298.22388),
    ("tagger", 7170.034),
];

#[test]
fn a_seed_gives_the_same_models_as_ever() {
    let mut specimens = zoo::all();
    for (name, want) in LOSSES {
        let specimen = specimens.iter_mut().find(|specimen| specimen.name == name).unwrap();
        for (path, parameter) in specimen.model.parameters_mut() {
            if !path.contains("norm") {
                let larger: Vec<f32> = parameter.tensor().values().iter().map(|value| value * 10.0).collect();
                parameter.tensor_mut().set_values(&larger).unwrap();
            }
        }
        let got = specimen.loss(&Context::inference()).unwrap().item().unwrap();
        assert!((got - want).abs() < 1e-4 * want, "{name}: {got}, expected {want}");
    }
}
