//! Every model learns: gradients reach every parameter, a few examples are learned by heart, and the same seed gives the
//! same bits.

use crate::numbers::{distance, finite, same_bits};
use crate::zoo;
use regard_nn::models::form::Form;
use regard_nn::models::{
    BertConfig, GptConfig, Inputs, LlamaConfig, Model, T5Config, Transformer, VitConfig,
};
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::optimiser::{Method, Optimiser};
use regard_nn::tensor::random::Key;
use regard_nn::tensor::{DataType, Gradients, Ids, Tensor};
use regard_nn::train::{Part, Recorder, Settings};
use regard_nn::{Context, Error, Module, train};
use std::sync::atomic::AtomicBool;

/// Parameters whose gradient is 0 by rights: the softmax does not notice what is added to all scores of a query.
fn means_nothing(model: &str, name: &str) -> bool {
    name.ends_with("additive.score.bias") || name.ends_with("key.bias") && !model.starts_with("llama")
}

#[test]
fn gradients_reach_every_parameter() {
    for mut specimen in zoo::all() {
        zoo::widen(&mut *specimen.model);
        let loss = specimen.loss(&Context::differentiated()).unwrap();
        let gradients = loss.backward().unwrap();
        for (name, parameter) in specimen.model.parameters() {
            let what = format!("{}: {name}", specimen.name);
            if specimen.name.contains("frozen") && name.starts_with("attention.") {
                assert!(gradients.get(parameter.tensor()).is_none(), "{what} is not trained");
                continue;
            }
            let gradient =
                gradients.get(parameter.tensor()).unwrap_or_else(|| panic!("{what} has no gradient"));
            assert!(finite(&gradient), "{what}");
            let most = gradient.values().iter().fold(0.0, |most: f32, value| most.max(value.abs()));
            if means_nothing(specimen.name, &name) {
                assert!(most < 1e-6, "{what}: {most}");
            } else {
                assert!(most > 1e-5, "{what}: {most}");
            }
        }
        let plain = specimen.loss(&Context::inference()).unwrap();
        assert!(plain.backward().is_err(), "{}: a pass that only looks records nothing", specimen.name);
        same_bits(specimen.name, &plain, &loss.detach());
    }
}

/// The losses of some steps of training.
fn train(model: &mut dyn Model, steps: u64, rate: f32) -> Vec<f32> {
    let mut optimiser = Optimiser::new(Method::adam(), 0.0);
    let mut losses = Vec::new();
    for step in 0..steps {
        let context = Context::training(Key::new(1).step(step), 0);
        let loss = zoo::loss(model, &context).unwrap();
        losses.push(loss.item().unwrap());
        train::update(model, &loss, &mut optimiser, rate, Some(1.0)).unwrap();
    }
    losses
}

#[test]
fn every_model_learns_a_handful_of_examples_by_heart() {
    for mut specimen in zoo::all() {
        let losses = train(&mut *specimen.model, 400, 0.01);
        let best = losses.iter().copied().fold(f32::INFINITY, f32::min);
        assert!(losses[0] > 0.25, "{} knew it before: {}", specimen.name, losses[0]);
        assert!(best < 0.03, "{}: from {} to {best} at best", specimen.name, losses[0]);
    }
}

#[test]
fn the_same_seed_gives_the_same_bits_on_any_number_of_threads() {
    let bits = |threads: usize| -> Vec<(String, Vec<f32>)> {
        regard_nn::tensor::set_threads(threads);
        let config = GptConfig { dropout: 0.2, ..zoo::gpt_config() };
        let mut model = Transformer::new(config.form(), 4).unwrap();
        let losses = ("losses".to_owned(), train(&mut model, 5, 0.01));
        let parameters = model.parameters();
        let values = parameters.iter().map(|(name, parameter)| (name.clone(), parameter.tensor().to_vec()));
        [losses].into_iter().chain(values).collect()
    };
    let before = regard_nn::tensor::threads();
    let (one, again, two) = (bits(1), bits(1), bits(2));
    regard_nn::tensor::set_threads(before);
    assert!(one == again && one == two);
    for (first, second) in zoo::all().iter().zip(zoo::all()) {
        let pairs = first.model.parameters().into_iter().zip(second.model.parameters());
        for ((name, first), (_, second)) in pairs {
            same_bits(&name, first.tensor(), second.tensor());
        }
    }
    let tokens = |seed| {
        let gpt = Transformer::new(zoo::gpt_config().form(), seed).unwrap();
        gpt.token_embeddings().unwrap().tensor().clone()
    };
    assert!(distance(&tokens(1), &tokens(2)) > 0.01, "another seed draws other values");
}

/// Every kind of model that can forget its values and compute them again, in both forms.
fn checkpointed() -> Vec<[Transformer; 2]> {
    let both = |build: &dyn Fn(bool) -> Form| {
        [false, true].map(|checkpointing| Transformer::new(build(checkpointing), 2).unwrap())
    };
    let dropout = 0.2;
    vec![
        both(&|checkpointing| GptConfig { checkpointing, dropout, ..zoo::gpt_config() }.form()),
        both(&|checkpointing| BertConfig { checkpointing, dropout, ..zoo::bert_config() }.form()),
        both(&|checkpointing| T5Config { checkpointing, dropout, ..zoo::t5_config() }.form()),
        both(&|checkpointing| LlamaConfig { checkpointing, dropout, ..zoo::llama_config() }.form()),
        both(&|checkpointing| VitConfig { checkpointing, dropout, ..zoo::vit_config() }.form()),
    ]
}

#[test]
fn forgetting_and_computing_again_changes_no_bit() {
    for models in checkpointed() {
        let context = Context::training(Key::new(9).step(3), 100);
        let [plain, again] = models.each_ref().map(|model| -> (Tensor, Gradients) {
            let loss = zoo::loss(model, &context).unwrap();
            let gradients = loss.backward().unwrap();
            (loss.detach(), gradients)
        });
        let kind = models[0].kind();
        same_bits(kind, &again.0, &plain.0);
        let without = zoo::loss(&models[0], &Context::differentiated()).unwrap();
        assert!(distance(&without.detach(), &plain.0) > 1e-6, "{kind}: something was dropped");
        let pairs = models[0].parameters().into_iter().zip(models[1].parameters());
        for ((name, first), (_, second)) in pairs {
            let gradient = |gradients: &Gradients, of: &Tensor| gradients.get(of).unwrap();
            same_bits(&name, &gradient(&again.1, second.tensor()), &gradient(&plain.1, first.tensor()));
        }
    }
}

#[test]
fn a_pass_can_be_cancelled() {
    let set = AtomicBool::new(true);
    let boxed = |model| Box::new(model) as Box<dyn Model>;
    let models = zoo::all()
        .into_iter()
        .map(|specimen| specimen.model)
        .chain(checkpointed().into_iter().flatten().map(boxed))
        .filter(|model| model.form().is_some());
    for model in models {
        for context in [Context::inference(), Context::training(Key::new(1), 0)] {
            let error = zoo::loss(&*model, &context.with_cancel(&set)).unwrap_err();
            assert_eq!(error, Error::Cancelled, "{}", model.kind());
        }
    }
}

#[test]
fn an_update_by_parts_has_the_bits_of_an_update_from_the_loss() {
    let config = GptConfig {
        vocabulary: 11,
        context: 8,
        n_layers: 2,
        n_heads: 2,
        d_model: 16,
        dropout: 0.1,
        ..GptConfig::default()
    };
    let ids = Ids::new(&[1, 2, 3, 4, 5, 6, 7, 8], [2, 4]).unwrap();
    let targets = Ids::new(&[2, 3, 4, 5, 6, 7, 8, 9], [2, 4]).unwrap();
    let (mut whole, mut parts) =
        (Transformer::new(config.form(), 1).unwrap(), Transformer::new(config.form(), 1).unwrap());
    let (mut for_whole, mut for_parts) =
        (Optimiser::new(Method::adamw(), 0.1), Optimiser::new(Method::adamw(), 0.1));
    let mut recorder = Recorder::new();
    for step in 0..4 {
        let (key, inputs) = (Key::new(3).step(step), Inputs::ids(&ids));
        let part = Part { inputs: inputs.clone(), targets: targets.clone(), share: 1.0, first_example: 0 };
        let how = Settings { key, rate: 1e-2, clip: 1.0, precision: DataType::F32 };
        // The CPU records nothing, and says so before anything has changed.
        let recorded = recorder.update(&mut parts, &mut for_parts, std::slice::from_ref(&part), how).unwrap();
        assert!(recorded.is_none() && recorder.nodes().is_none());
        let outcome = train::update_now(&mut parts, &mut for_parts, &[part], how).unwrap();
        let context = Context::training(key, 0);
        let loss = whole.loss_of(&context, &inputs, &targets, CrossEntropy::default()).unwrap();
        same_bits("loss", &outcome.loss, &loss);
        let norm = train::update(&mut whole, &loss, &mut for_whole, 1e-2, Some(1.0)).unwrap();
        same_bits("norm", &outcome.norm, &norm.unwrap());
    }
    for ((name, a), (_, b)) in whole.parameters().into_iter().zip(parts.parameters()) {
        same_bits(&name, b.tensor(), a.tensor());
    }
}
