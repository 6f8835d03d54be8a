//! The loop: what a step is made of does not depend on how its examples are cut into batches.

use crate::golden::agree;
use crate::numbers::ids;
use crate::zoo;
use regard_nn::data::batches::{Batches, Classification, DataPosition, IGNORED, Pictures, Tagging};
use regard_nn::data::idx::Images;
use regard_nn::models::{Bag, BagConfig, GptConfig, Inputs, Model, Transformer, VitConfig};
use regard_nn::tensor::Ids;
use regard_nn::tensor::random::Key;
use regard_nn::train::{
    Evaluation, OptimiserKind, Progress, Schedule, Supervised, Task, TrainConfig, TrainingBatch, train,
};
use regard_nn::{Context, Module, Result};

/// A model that reads the same eight texts in every step, in one batch or in two.
struct Texts {
    model: Transformer,
    /// How many texts each batch of a step has.
    batches: Vec<usize>,
    position: DataPosition,
}

impl Texts {
    fn new(batches: &[usize]) -> Self {
        let config = GptConfig { dropout: 0.3, ..zoo::gpt_config() };
        let model = Transformer::new(config.form(), 1).unwrap();
        Self { model, batches: batches.to_vec(), position: DataPosition::default() }
    }
}

impl Task for Texts {
    fn model(&self) -> &dyn Model {
        &self.model
    }

    fn model_mut(&mut self) -> &mut dyn Model {
        &mut self.model
    }

    fn next_batch(&mut self) -> Result<TrainingBatch> {
        let number = self.position.batch as usize % self.batches.len();
        let (first, examples) = (self.batches[..number].iter().sum::<usize>(), self.batches[number]);
        self.position.batch += 1;
        let (all, next) = (ids("text", zoo::VOCABULARY, [8, 5]), ids("next", zoo::VOCABULARY, [8, 5]));
        // The later a text, the fewer of its targets count.
        let target = |i: usize| if i % 5 > 5 - i / 10 { IGNORED } else { next.values()[i] };
        let places = first * 5..(first + examples) * 5;
        let targets: Vec<u32> = places.clone().map(target).collect();
        Ok(TrainingBatch {
            inputs: Inputs::ids(&Ids::new(&all.values()[places], [examples, 5])?),
            targets: Ids::new(&targets, [examples, 5])?,
            examples,
            tokens: examples * 5,
        })
    }

    fn evaluate(&self, _: &Context) -> Result<Evaluation> {
        Ok(Evaluation { loss: 0.0, measures: Vec::new() })
    }

    fn position(&self) -> DataPosition {
        self.position
    }

    fn seek(&mut self, position: DataPosition) -> Result<()> {
        self.position = position;
        Ok(())
    }
}

#[test]
fn small_batches_make_the_same_update_as_a_large_one() {
    let run = |batches: &[usize]| {
        let rate = Schedule { highest: 0.5, ..Schedule::default() };
        let (batch_size, accumulate) = (batches[0], batches.len());
        // Adam would make as much of the rounding of gradients that are 0 by rights as of all others.
        let optimiser = OptimiserKind::Sgd;
        let config =
            TrainConfig { steps: 4, batch_size, accumulate, rate, optimiser, ..TrainConfig::default() };
        let mut task = Texts::new(batches);
        let mut progress = Progress::new(&config);
        train(&mut task, &config, &mut progress, &mut ()).unwrap();
        assert_eq!((progress.step, progress.position.batch), (4, 4 * batches.len() as u64));
        task.model
    };
    let whole = run(&[8]);
    let fresh = whole.fresh(1).unwrap();
    let moved = fresh.parameters()[0].1.tensor().subtract(whole.parameters()[0].1.tensor()).unwrap();
    assert!(moved.values().iter().any(|value| value.abs() > 0.01), "something was learned");
    // Texts are numbered through all batches of a step, so that the same values are dropped.
    for batches in [&[4, 4][..], &[5, 3], &[2, 2, 2, 2]] {
        for ((name, got), (_, want)) in run(batches).parameters().iter().zip(whole.parameters()) {
            agree(&format!("{batches:?}: {name}"), got.tensor(), want.tensor(), 2e-5);
        }
    }
}

#[test]
fn a_model_that_predicts_something_else_is_refused() {
    let texts = || Classification::new(vec![vec![1, 2], vec![3]], vec![0, 1], 0).unwrap();
    let batches = || Batches::new(texts(), 2, Key::new(1)).unwrap();
    let refused = |model: Box<dyn Model>| {
        Supervised::new(model, batches(), batches()).map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(refused(zoo::named("gpt")), "training: a gpt cannot classify texts");
    assert_eq!(refused(zoo::named("tagger")), "training: a tagger cannot classify texts");
    assert_eq!(refused(zoo::named("vit")), "training: a vit cannot classify texts");
    let bag = Bag::new(BagConfig { vocabulary: 13, ..BagConfig::default() }, 1).unwrap();
    assert!(Supervised::new(Box::new(bag.clone()), batches(), batches()).is_ok());
    let words = || {
        let examples = Tagging::new(vec![vec![1, 2]], vec![vec![0, 1]], 0).unwrap();
        Batches::new(examples, 1, Key::new(1)).unwrap()
    };
    let error = Supervised::new(Box::new(bag), words(), words()).map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, "training: a bag cannot classify words");
}

#[test]
fn pictures_are_for_models_that_read_pictures() {
    let images = Images { rows: 6, columns: 4, pixels: vec![7; 48], labels: vec![0, 2] };
    let batches = || Batches::new(Pictures::new(images.clone(), (0.0, 1.0)), 2, Key::new(1)).unwrap();
    let vit = VitConfig { channels: 1, ..zoo::vit_config() };
    let vit = Box::new(Transformer::new(vit.form(), 1).unwrap());
    Supervised::new(vit, batches(), batches()).unwrap().evaluate(&Context::inference()).unwrap();
    for name in ["bert, classifier", "bag"] {
        let model = zoo::named(name);
        let expected = format!("training: a {} cannot classify pictures", model.kind());
        let error = Supervised::new(model, batches(), batches()).map(|_| ()).unwrap_err().to_string();
        assert_eq!(error, expected);
    }
}
