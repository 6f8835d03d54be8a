//! Gradients with respect to any site, against finite differences.

use crate::golden::agree;
use crate::numbers::{distance, dot, ids, slope};
use crate::zoo;
use regard_nn::models::{GptConfig, Inputs, Model, Transformer};
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::{Ids, Pass, Tensor};
use regard_nn::{Context, Module, Probe};

/// A model with wide weights: everything in it matters.
fn wide(config: &GptConfig) -> Transformer {
    let mut model = Transformer::new(config.form(), 1).unwrap();
    zoo::widen(&mut model);
    model
}

fn loss(model: &dyn Model, probe: &Probe) -> Tensor {
    zoo::loss(model, &Context::inference().with_probe(probe)).unwrap()
}

#[test]
fn every_site_of_every_model_has_the_gradient_of_finite_differences() {
    // After its attention, the words of the third sentiment model are so much alike that the largest of them changes
    // within any step.
    for mut specimen in zoo::all().into_iter().filter(|specimen| specimen.name != "sentiment, heads") {
        zoo::widen(&mut *specimen.model);
        let idle = Probe::new();
        loss(&*specimen.model, &idle);
        // What only tells who had the largest values has no gradient.
        let has_gradient =
            |site: &&String| (specimen.name, site.as_str()) != ("sentiment, max", "pool.weights");
        for site in idle.sites().iter().filter(has_gradient) {
            let what = format!("{}: {site}", specimen.name);
            let probe = Probe::new().track(site);
            let value = loss(&*specimen.model, &probe);
            let at = probe.get(site).unwrap().unwrap();
            let gradients = value.gradients(&Pass::new().with_respect_to(&at)).unwrap();
            let gradient = gradients.get(&at).unwrap_or_else(|| panic!("{what} has none"));
            // Along the gradient, where the slope is its length.
            let length = dot(&gradient, &gradient).sqrt();
            assert!(length > 1e-4, "{what}: {length}");
            let along = gradient.scale(1.0 / length).unwrap();
            let by_differences = |step: f32| {
                slope(&at, &along, step, |value| {
                    loss(&*specimen.model, &Probe::new().patch(site, value.clone())).item().unwrap()
                })
            };
            // A long step may cross the corner of a ReLU or a maximum, a short one drowns in rounding: one must do.
            let found = [0.002, 0.0005].map(by_differences);
            let error = found.iter().map(|slope| (slope - length).abs()).fold(f32::INFINITY, f32::min);
            assert!(
                error < 0.02 * length.max(0.02),
                "{what}: {found:?} by differences, {length} by gradient"
            );
        }
    }
}

#[test]
fn tracking_changes_neither_the_loss_nor_the_gradients_of_parameters() {
    let gpt = wide(&zoo::gpt_config());
    let plain = zoo::loss(&gpt, &Context::differentiated()).unwrap();
    let of_parameters = plain.backward().unwrap();
    let probe = Probe::new().track("layers.*.self.weights").track("layers.*.self.scores").track("embeddings");
    let tracked = zoo::loss(&gpt, &Context::differentiated().with_probe(&probe)).unwrap();
    agree("loss", &tracked.detach(), &plain.detach(), 1e-6);
    let weights = probe.get("layers.0.self.weights").unwrap().unwrap();
    let gradients = tracked.gradients(&Pass::new().with_respect_to(&weights)).unwrap();
    assert!(gradients.get(&weights).is_some());
    for (name, parameter) in gpt.parameters() {
        let (got, want) =
            (gradients.get(parameter.tensor()).unwrap(), of_parameters.get(parameter.tensor()).unwrap());
        agree(&name, &got, &want, 1e-5);
    }
}

#[test]
fn one_pass_gives_the_gradients_of_several_losses() {
    let gpt = wide(&zoo::gpt_config());
    let text = ids("text", zoo::VOCABULARY, [2, 6]);
    let probe = Probe::new().track("layers.1.self.weights");
    let logits = gpt.forward(&Context::inference().with_probe(&probe), &Inputs::ids(&text)).unwrap();
    let weights = probe.get("layers.1.self.weights").unwrap().unwrap();
    let loss = |target: u32| {
        let targets = Ids::new(&[target; 12], [2, 6]).unwrap();
        logits.cross_entropy(&targets, CrossEntropy::default()).unwrap()
    };
    let gradient = |target: u32, pass: Pass| {
        loss(target).gradients(&pass.with_respect_to(&weights)).unwrap().get(&weights).unwrap()
    };
    let first = gradient(1, Pass::new().keep_graph());
    let second = gradient(2, Pass::new().keep_graph());
    assert!(distance(&first, &second) > 1e-4, "two questions, two answers");
    agree("again", &gradient(1, Pass::new()), &first, 1e-7);
    // The last pass freed the graph.
    assert!(loss(2).gradients(&Pass::new()).is_err());
}

#[test]
fn weights_that_are_tracked_alone_are_a_leaf() {
    // In a pass without other gradients, only what follows the site is recorded.
    let model = wide(&zoo::gpt_config());
    let probe = Probe::new().track("layers.1.self.weights").track("layers.0.residual.before");
    let value = loss(&model, &probe);
    let gradients = value.backward().unwrap();
    assert_eq!(gradients.len(), 1, "the earliest site is the only leaf");
    assert!(gradients.get(&probe.get("layers.0.residual.before").unwrap().unwrap()).is_some());
}
