//! Your own model, with an attention that is not in the library: trained, probed and saved with the library.
//!
//! The weight of a key is a Gaussian of its distance from the query, divided by the sum over all keys:
//!
//! ```text
//! weight(q, k) = exp(−‖q − k‖²/2) / Σ exp(−‖q − k‖²/2)            (Nadaraya, 1964; Watson, 1964)
//! ```
//!
//! The task: six numbers, each in one of two colours, then a number whose colour is that of the nearest. The model has to
//! learn the order of the numbers. The example prints loss and accuracy on unseen texts before training and after it (with
//! the model saved and read back), and the weight of each number of a text, which decreases with its distance.

#![allow(clippy::print_stdout)] // examples print their results

use regard_nn::checkpoint::{self, StoredWeights};
use regard_nn::data::batches::{Batches, Classification};
use regard_nn::layers::{Embedding, Linear, LinearConfig};
use regard_nn::models::{Abilities, AttentionSite, Inputs, Model, Predicts};
use regard_nn::tensor::{Ids, Shape, Tensor, random::Key};
use regard_nn::train::{Progress, Schedule, Supervised, Task, TrainConfig, evaluate, train};
use regard_nn::{Context, Draw, Error, Initial, Module, Parameter, Probe, Result, module};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;

/// A token is a number plus 16 times its colour: 0, 1 or (for none) 2.
const NUMBERS: usize = 16;
const POINTS: usize = 6;
const WIDTH: usize = 8;

/// The model.
#[derive(Debug, Clone)]
pub struct Kernel {
    tokens: Embedding,
    key: Linear,
    classifier: Linear,
}

// Lists the parameters with their names: `tokens.weight`, `key.weight`, `key.bias`, …
module!(Kernel { tokens, key, classifier });

impl Kernel {
    /// Parameters come from `initial` by name: random, or read from a file.
    pub fn build(initial: &Initial) -> Result<Self> {
        let linear = |name: &str, outputs: usize| {
            Linear::new(&initial.part(name), LinearConfig::new(WIDTH, outputs), Draw::Normal(0.5))
        };
        let tokens = Embedding::new(&initial.part("tokens"), (3 * NUMBERS, WIDTH), Draw::Normal(1.0))?;
        Ok(Self { tokens, key: linear("key", WIDTH)?, classifier: linear("classifier", 2)? })
    }
}

impl Model for Kernel {
    fn kind(&self) -> &'static str {
        "kernel"
    }

    fn abilities(&self) -> Abilities {
        Abilities::new(Predicts::Class, 2)
    }

    /// The attention layers for the library's analysis (`AttentionSite::named`), if weights are (batch, heads, queries, keys).
    fn attentions(&self) -> Vec<AttentionSite<'_>> {
        Vec::new()
    }

    fn hidden(&self, context: &Context, inputs: &Inputs) -> Result<Tensor> {
        let ids = inputs.require_ids("kernel")?;
        let (batch, points) = (ids.shape()[0], ids.shape()[1] - 1);
        let x = self.tokens.forward(context, ids)?; // (B, N + 1, C)
        let (seen, query) = (x.slice(1, 0, points)?, x.slice(1, points, 1)?);
        let away = self.key.forward(context, &seen)?.subtract(&query)?; // k − q, (B, N, C)
        let scores = away.multiply(&away)?.sum(-1)?.scale(-0.5)?; // −‖q − k‖²/2, (B, N)
        // The softmax of these is the normalised Gaussian. `see` makes it a site that a probe can record or change.
        let weights = context.see("kernel.weights", scores.softmax()?)?;
        Ok(weights.reshape([batch, 1, points])?.matmul(&seen)?) // (B, 1, C)
    }

    fn scores(&self, context: &Context, hidden: &Tensor) -> Result<Tensor> {
        context.see("logits", self.classifier.forward(context, hidden)?) // (B, 1, 2)
    }

    fn token_embeddings(&self) -> Option<&Parameter> {
        Some(self.tokens.weight())
    }

    fn token_embeddings_mut(&mut self) -> Option<&mut Parameter> {
        Some(self.tokens.weight_mut())
    }

    fn fresh(&self, seed: u64) -> Result<Box<dyn Model>> {
        Ok(Box::new(Self::build(&Initial::new(seed))?))
    }

    fn duplicate(&self) -> Box<dyn Model> {
        Box::new(self.independent())
    }

    fn settings(&self) -> Result<(&'static str, Value)> {
        Ok(("kernel", json!({"numbers": NUMBERS, "width": WIDTH})))
    }
}

/// Random texts, and the colours of their last numbers. If two numbers are equally near, the smaller one decides.
fn texts(count: u64, seed: u64) -> Result<Classification> {
    let text = |i: u64| {
        let numbers = Key::new(seed).permutation(i, NUMBERS);
        let colour = |at: usize| Key::new(seed).site("colour").below(i, at as u64, 2);
        let away = |&at: &usize| (numbers[at].abs_diff(numbers[POINTS]), numbers[at]);
        let token = |at: usize| numbers[at] + NUMBERS * if at < POINTS { colour(at) } else { 2 };
        let nearest = (0..POINTS).min_by_key(away).unwrap_or(0);
        ((0..=POINTS).map(|at| token(at) as u32).collect(), colour(nearest))
    };
    let (texts, colours) = (0..count).map(text).unzip();
    Classification::new(texts, colours, 0)
}

/// Trains, probes, saves and reads back. Returns the accuracy on unseen texts.
pub fn run(folder: &Path) -> Result<f64> {
    let batches = |count, seed| Batches::new(texts(count, seed)?, 50, Key::new(seed));
    let unseen = batches(1000, 2)?;
    let accuracy = |model: &dyn Model| -> Result<f64> {
        let found = evaluate(model, &unseen, &Context::inference())?;
        println!("loss {:.3}, accuracy {:.1} % on unseen texts", found.loss, 100.0 * found.measures[0].1);
        Ok(found.measures[0].1)
    };
    let model = Kernel::build(&Initial::new(1))?;
    accuracy(&model)?;
    let mut task = Supervised::new(Box::new(model), batches(20_000, 1)?, unseen.clone())?;
    let rate = Schedule { highest: 0.01, ..Schedule::default() };
    let config = TrainConfig { steps: 1200, rate, evaluate_every: 0, ..TrainConfig::default() };
    train(&mut task, &config, &mut Progress::new(&config), &mut ())?;
    let (probe, seen) = (Probe::new().record("kernel.weights"), [7, 1, 12, 10, 4, 15]);
    let text = Ids::new(&[&seen[..], &[6 + 2 * NUMBERS as u32]].concat(), [1, POINTS + 1])?;
    task.model().forward(&Context::inference().with_probe(&probe), &Inputs::ids(&text))?;
    for (number, weight) in seen.iter().zip(probe.get("kernel.weights")?.expect("recorded").to_vec()) {
        println!("6 attends to {number:2}: {weight:.2} {}", "█".repeat((weight * 40.0) as usize));
    }
    checkpoint::save(task.model(), folder, &Map::new())?;
    let stored = StoredWeights::open(folder)?;
    let missing = |name: &str| Error::Checkpoint(format!("{name} is missing"));
    let read = move |name: &str, _: &Shape| stored.read(name)?.ok_or_else(|| missing(name));
    accuracy(&Kernel::build(&Initial::read(Arc::new(read)))?)
}

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "outputs/own-model".to_owned());
    run(Path::new(&folder)).map(drop)
}
