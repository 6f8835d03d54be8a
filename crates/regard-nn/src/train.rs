//! Training: one visible loop.
//!
//! ```text
//! until the last step:
//!     evaluate, if it is time; stop, if it has not become better for too long
//!     loss and gradients of the next batches
//!     clip, update
//! ```
//!
//! The loop knows no clock, terminal or file: an [`Observer`] sees every step and every evaluation, and decides what to
//! show and what to keep. Everything drawn at random is keyed by the step, so that a run continued from a saved
//! [`Progress`] ends bit for bit where an uninterrupted one does.

mod recorded;
mod schedule;
mod state;
mod tasks;

pub use recorded::{Outcome, Part, Recorder, Settings, update_now};
pub use schedule::{Decay, Schedule};
pub use state::{Progress, load_state, save_state};
pub use tasks::{Learn, NextWord, Supervised, evaluate};
use tasks::{counted, settings};

use crate::context::Context;
use crate::data::batches::Position;
use crate::error::{Error, Result};
use crate::models::{Inputs, Model};
use crate::parameter::Module;
use regard_tensor::optimiser::{Method, Optimiser, clip_scale, global_norm};
use regard_tensor::random::Key;
use regard_tensor::{DataType, Gradients, Ids, Tensor};
use serde::{Deserialize, Serialize};

/// Raised whenever the same configuration would train another model, for a reason other than the engine's
/// [`NUMERICS`](regard_tensor::NUMERICS): other data from the same seed, another order, another loop.
pub const REVISION: u32 = 1;

/// How to train.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// The number of updates.
    pub steps: u64,
    /// The number of examples in a batch.
    pub batch_size: usize,
    /// The number of batches whose gradients make one update.
    pub accumulate: usize,
    /// The learning rate and how it changes.
    pub rate: Schedule,
    /// The optimiser.
    pub optimiser: OptimiserKind,
    /// The share by which matrices shrink at each update, times the rate.
    pub weight_decay: f32,
    /// How fast the optimiser's mean of gradients forgets.
    pub beta1: f32,
    /// How fast its mean of squares forgets (Adam), unused by SGD.
    pub beta2: f32,
    /// Whether each parameter's rate is multiplied by the root mean square of its values, as T5 was trained.
    pub relative: bool,
    /// The largest norm of all gradients together; 0 for no limit.
    pub clip: f32,
    /// Evaluate every so many steps; 0 for only at the end.
    pub evaluate_every: u64,
    /// Stop after so many evaluations that were no better than the best; 0 for never.
    pub patience: u64,
    /// What everything drawn depends on: initial weights, order of the data, dropout.
    pub seed: u64,
}

/// The rule of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimiserKind {
    /// Stochastic gradient descent with momentum `beta1`.
    Sgd,
    /// Adam (Kingma & Ba, 2014).
    Adam,
    /// Adam with weight decay apart from the gradient (Loshchilov & Hutter, 2017).
    Adamw,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            steps: 1000,
            batch_size: 32,
            accumulate: 1,
            rate: Schedule::default(),
            optimiser: OptimiserKind::Adamw,
            weight_decay: 0.01,
            beta1: 0.9,
            beta2: 0.999,
            relative: false,
            clip: 1.0,
            evaluate_every: 100,
            patience: 0,
            seed: 0,
        }
    }
}

impl TrainConfig {
    /// Fails if a setting makes no sense.
    pub fn check(&self) -> Result<()> {
        let share = |value: f32| (0.0..1.0).contains(&value);
        let problem = if self.batch_size == 0 || self.accumulate == 0 {
            "batch_size and accumulate must be at least 1"
        } else if !share(self.beta1) || !share(self.beta2) {
            "beta1 and beta2 must be at least 0 and below 1"
        } else if !(self.clip >= 0.0 && self.weight_decay >= 0.0) {
            "clip and weight_decay must be at least 0"
        } else {
            return self.rate.check();
        };
        Err(Error::configuration("train", problem))
    }

    fn optimiser(&self) -> Optimiser {
        let adam = |decoupled| Method::Adam { betas: (self.beta1, self.beta2), epsilon: 1e-8, decoupled };
        let method = match self.optimiser {
            OptimiserKind::Sgd => Method::Sgd { momentum: self.beta1 },
            OptimiserKind::Adam => adam(false),
            OptimiserKind::Adamw => adam(true),
        };
        Optimiser::new(method, self.weight_decay).relative(self.relative)
    }
}

/// What a batch asks a model, and the right answers.
#[derive(Debug, Clone)]
pub struct Question {
    /// What the model reads.
    pub inputs: Inputs,
    /// What it should predict; targets equal to [`IGNORED`](crate::data::batches::IGNORED) do not count.
    pub targets: Ids,
    /// The number of examples.
    pub examples: usize,
    /// The number of tokens (or pictures) that are read.
    pub tokens: usize,
}

/// What an evaluation found: the loss, and whatever else the task measures, by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The mean loss on data that is not trained on.
    pub loss: f64,
    /// More measures, such as accuracy, in a fixed order.
    pub measures: Vec<(String, f64)>,
}

/// A model and the data that it learns from.
pub trait Task {
    /// The model.
    fn model(&self) -> &dyn Model;

    /// The model, to update.
    fn model_mut(&mut self) -> &mut dyn Model;

    /// The next batch.
    fn next_question(&mut self) -> Result<Question>;

    /// How good the model is on held-out data.
    fn evaluate(&self, context: &Context) -> Result<Evaluation>;

    /// How far the data has been read.
    fn position(&self) -> Position;

    /// Continues from a position.
    fn seek(&mut self, position: Position) -> Result<()>;
}

/// What happened in a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Its number, from 1.
    pub step: u64,
    /// The mean training loss.
    pub loss: f32,
    /// The learning rate.
    pub rate: f32,
    /// The norm of all gradients before clipping.
    pub gradient_norm: f32,
    /// The number of examples it read.
    pub examples: usize,
    /// The number of tokens it read.
    pub tokens: usize,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Stop after this.
    Stop,
}

/// Whoever watches a training run. All methods may be left out.
pub trait Observer {
    /// The gradients of a step by parameter, in fixed order, between the backward pass and the update.
    fn gradients(&mut self, step: u64, model: &dyn Module, gradients: &Gradients) -> Result<()> {
        let _ = (step, model, gradients);
        Ok(())
    }

    /// Whether [`Observer::gradients`] does anything. If not, a device may record an update and replay it as a whole.
    fn sees_gradients(&self) -> bool {
        true
    }

    /// After each update.
    fn stepped(&mut self, step: &Step, task: &dyn Task, progress: &Progress) -> Result<Flow> {
        let _ = (step, task, progress);
        Ok(Flow::Continue)
    }

    /// After each evaluation; `best` if it was the best so far.
    fn evaluated(
        &mut self,
        evaluation: &Evaluation,
        best: bool,
        task: &dyn Task,
        progress: &Progress,
    ) -> Result<()> {
        let _ = (evaluation, best, task, progress);
        Ok(())
    }
}

/// No observer.
impl Observer for () {
    fn sees_gradients(&self) -> bool {
        false
    }
}

/// Why training ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All steps are done.
    Finished,
    /// It has not become better for as long as patience lasts.
    Patience,
    /// The observer asked for it.
    Stopped,
}

/// Trains until the last step, from wherever `progress` stands.
pub fn train(
    task: &mut dyn Task,
    config: &TrainConfig,
    progress: &mut Progress,
    observer: &mut dyn Observer,
) -> Result<End> {
    config.check()?;
    let key = Key::new(config.seed).site("train");
    let mut recorder = if observer.sees_gradients() { Recorder::off() } else { Recorder::new() };
    while progress.step < config.steps {
        if progress.patience_is_over(config) {
            return Ok(End::Patience);
        }
        let step = update_once(task, config, progress, (observer, &mut recorder), key)?;
        let last = progress.step == config.steps;
        if last || config.evaluate_every > 0 && progress.step.is_multiple_of(config.evaluate_every) {
            let evaluation = task.evaluate(&Context::inference())?;
            // Neither the best model nor a state to go on from.
            if !evaluation.loss.is_finite() {
                let loss = format!("{} on held-out data", evaluation.loss);
                return Err(Error::Diverged { step: progress.step, loss });
            }
            let best = progress.note(&evaluation);
            observer.evaluated(&evaluation, best, task, progress)?;
        }
        if observer.stepped(&step, task, progress)? == Flow::Stop && !last {
            return Ok(End::Stopped);
        }
    }
    Ok(End::Finished)
}

/// The next batches' gradients, and one update with them.
fn update_once(
    task: &mut dyn Task,
    config: &TrainConfig,
    progress: &mut Progress,
    (observer, recorder): (&mut dyn Observer, &mut Recorder),
    key: Key,
) -> Result<Step> {
    let rate = config.rate.at(progress.step, config.steps);
    let mut step =
        Step { step: progress.step + 1, loss: 0.0, rate, gradient_norm: 0.0, examples: 0, tokens: 0 };
    let mut total: Option<Gradients> = None;
    let questions = (0..config.accumulate).map(|_| task.next_question()).collect::<Result<Vec<_>>>()?;
    // Batches count by their targets, so that several small ones make the same update as a large one.
    let targets: Vec<usize> = questions.iter().map(|question| counted(&question.targets)).collect();
    let all = targets.iter().sum::<usize>().max(1) as f32;
    let mut parts = Vec::with_capacity(questions.len());
    for (part, (question, targets)) in questions.into_iter().zip(targets).enumerate() {
        let Question { inputs, targets: answers, examples, tokens } = question;
        step.examples += examples;
        step.tokens += tokens;
        let (share, first_example) = (targets as f32 / all, (part * config.batch_size) as u64);
        parts.push(Part { inputs, targets: answers, share, first_example });
    }
    let (key, clip) = (key.step(progress.step), config.clip);
    let how = Settings { key, rate, clip, precision: DataType::F32 };
    if let Some(outcome) = recorder.update(task.model_mut(), &mut progress.optimiser, &parts, how)? {
        (step.loss, step.gradient_norm) = (outcome.loss.item()?, outcome.norm.item()?);
        ensure_finite(&step)?;
        progress.step += 1;
        progress.position = task.position();
        return Ok(step);
    }
    for Part { inputs, targets, share, first_example } in parts {
        let context = Context::training(key, first_example);
        let share = task.model().loss_of(&context, &inputs, &targets, settings())?.scale(share)?;
        step.loss += share.item()?;
        let gradients = share.backward()?;
        total = Some(match total {
            None => gradients,
            Some(mut total) => {
                total.add(gradients)?;
                total
            }
        });
    }
    ensure_finite(&step)?;
    let Some(gradients) = total else { return Ok(step) };
    observer.gradients(step.step, task.model(), &gradients)?;
    let mut updates = task.model_mut().updates(&gradients);
    let norm = global_norm(updates.iter().filter_map(|update| update.gradient))?;
    step.gradient_norm = norm.item()?;
    ensure_finite(&step)?;
    match config.clip > 0.0 {
        true => progress.optimiser.step(&mut updates, rate, &clip_scale(&norm, config.clip)?)?,
        false => progress.optimiser.step(&mut updates, rate, 1.0)?,
    }
    progress.step += 1;
    progress.position = task.position();
    Ok(step)
}

/// Fails if the loss or the gradients are infinite or not numbers.
fn ensure_finite(step: &Step) -> Result<()> {
    let Step { loss, gradient_norm, step, .. } = *step;
    let loss = match (loss.is_finite(), gradient_norm.is_finite()) {
        (true, true) => return Ok(()),
        (false, _) => loss.to_string(),
        (true, false) => format!("{loss}, and its gradient {gradient_norm},"),
    };
    Err(Error::Diverged { step, loss })
}

/// One update of a model from a loss: gradients, clipping at a global norm if asked for, optimiser. Returns the norm of
/// the gradients if it was needed, unread.
pub fn update(
    model: &mut (impl Module + ?Sized),
    loss: &Tensor,
    optimiser: &mut Optimiser,
    learning_rate: f32,
    clip: Option<f32>,
) -> Result<Option<Tensor>> {
    let gradients = loss.backward()?;
    let mut updates = model.updates(&gradients);
    let Some(limit) = clip else {
        optimiser.step(&mut updates, learning_rate, 1.0)?;
        return Ok(None);
    };
    let norm = global_norm(updates.iter().filter_map(|update| update.gradient))?;
    optimiser.step(&mut updates, learning_rate, &clip_scale(&norm, limit)?)?;
    Ok(Some(norm))
}
