//! Gradients with respect to any site, against finite differences.

use crate::golden::agree;
use crate::numbers::{distance, dot, ids, normal, slope};
use crate::zoo;
use saccade::models::{Gpt, GptConfig, Model};
use saccade::tensor::ops::CrossEntropy;
use saccade::tensor::{Ids, Pass, Tensor};
use saccade::{Context, Probe};

/// A model with wide weights: everything in it matters.
fn wide(config: GptConfig) -> Model {
    let mut model = Model::Gpt(Gpt::new(config, 1).unwrap());
    zoo::widen(&mut model);
    model
}

fn loss(model: &Model, probe: &Probe) -> Tensor {
    let (ids, next) = zoo::texts();
    let Model::Gpt(gpt) = model else { panic!() };
    gpt.loss(&Context::inference().with_probe(probe), &ids, &next).unwrap()
}

const SITES: [&str; 14] = [
    "embeddings",
    "layers.0.residual.before",
    "layers.0.residual.middle",
    "layers.1.residual.after",
    "layers.0.self.query",
    "layers.0.self.key",
    "layers.0.self.value",
    "layers.0.self.scores",
    "layers.1.self.weights",
    "layers.0.self.heads",
    "layers.0.self.output",
    "layers.1.ffn.hidden",
    "layers.0.ffn.output",
    "logits",
];

#[test]
fn every_site_has_the_gradient_of_finite_differences() {
    for mut specimen in zoo::all().into_iter().filter(|specimen| matches!(specimen.model, Model::Gpt(_))) {
        zoo::widen(&mut specimen.model);
        for site in SITES {
            let probe = Probe::new().track(site);
            let value = loss(&specimen.model, &probe);
            let at = probe.get(site).unwrap().unwrap();
            let gradients = value.gradients(&Pass::new().with_respect_to(&at)).unwrap();
            let gradient = gradients.get(&at).unwrap_or_else(|| panic!("{}: {site} has none", specimen.name));
            // Along the gradient, where the slope is its length, and across.
            let along = gradient.scale(1.0 / dot(&gradient, &gradient).sqrt()).unwrap();
            for direction in [along, normal("direction", at.shape()).scale(0.2).unwrap()] {
                let moved = slope(&at, &direction, 0.01, |value| {
                    loss(&specimen.model, &Probe::new().patch(site, value.clone())).item().unwrap()
                });
                let want = dot(&gradient, &direction);
                let error = (moved - want).abs() / want.abs().max(0.05);
                assert!(
                    error < 0.02,
                    "{}: {site}: {moved} by differences, {want} by gradient",
                    specimen.name
                );
            }
        }
    }
}

#[test]
fn tracking_changes_neither_the_loss_nor_the_gradients_of_parameters() {
    let model = wide(zoo::gpt_config());
    let Model::Gpt(gpt) = &model else { panic!() };
    let (ids, next) = zoo::texts();
    let plain = gpt.loss(&Context::differentiated(), &ids, &next).unwrap();
    let of_parameters = plain.backward().unwrap();
    let probe = Probe::new().track("layers.*.self.weights").track("layers.*.self.scores").track("embeddings");
    let tracked = gpt.loss(&Context::differentiated().with_probe(&probe), &ids, &next).unwrap();
    agree("loss", &tracked.detach(), &plain.detach(), 1e-6);
    let weights = probe.get("layers.0.self.weights").unwrap().unwrap();
    let gradients = tracked.gradients(&Pass::new().with_respect_to(&weights)).unwrap();
    assert!(gradients.get(&weights).is_some());
    for (name, parameter) in model.module().parameters() {
        let (got, want) =
            (gradients.get(parameter.tensor()).unwrap(), of_parameters.get(parameter.tensor()).unwrap());
        agree(&name, &got, &want, 1e-5);
    }
}

#[test]
fn one_pass_gives_the_gradients_of_several_losses() {
    let model = wide(zoo::gpt_config());
    let Model::Gpt(gpt) = &model else { panic!() };
    let text = ids("text", zoo::VOCABULARY, [2, 6]);
    let probe = Probe::new().track("layers.1.self.weights");
    let logits = gpt.forward(&Context::inference().with_probe(&probe), &text, None).unwrap();
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
    let model = wide(zoo::gpt_config());
    let probe = Probe::new().track("layers.1.self.weights").track("layers.0.residual.before");
    let value = loss(&model, &probe);
    let gradients = value.backward().unwrap();
    assert_eq!(gradients.len(), 1, "the earliest site is the only leaf");
    assert!(gradients.get(&probe.get("layers.0.residual.before").unwrap().unwrap()).is_some());
}
