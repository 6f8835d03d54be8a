//! The training loop.
//!
//! ```text
//! until the last step:
//!     stop, if evaluations have not improved for too long
//!     compute loss and gradients of the next batches
//!     clip and update
//!     evaluate, if it is time
//! ```
//!
//! The loop uses no clock, terminal or file: an [`Observer`] is called after every step and every evaluation and decides
//! what to print and what to save. All random draws are keyed by the step, so a run resumed from a saved [`Progress`] gives
//! bit for bit the same result as an uninterrupted one.

pub mod parallel;
mod precision;
mod recorded;
mod schedule;
mod state;
mod tasks;

use parallel::{Alone, Group, SharedGradients};
pub use precision::Precision;
pub use recorded::{Outcome, Part, Recorder, Settings, update_now};
pub use schedule::{Decay, Schedule};
pub use state::{Progress, load_state, save_state};
pub use tasks::{LanguageModelling, Learn, Supervised, evaluate};
use tasks::{counted, settings};

use crate::context::Context;
use crate::data::batches::DataPosition;
use crate::error::{Error, Result};
use crate::models::{Inputs, Model};
use crate::parameter::Module;
use regard_tensor::optimiser::{Method, Optimiser, clip_scale, global_norm};
use regard_tensor::random::Key;
use regard_tensor::{Gradients, Ids, Tensor};
use serde::{Deserialize, Serialize};

/// The version of the training procedure. It increases whenever the same configuration trains a different model for a
/// reason other than the engine's [`NUMERICS`](regard_tensor::NUMERICS), such as different data from the same seed.
pub const REVISION: u32 = 2;

/// The training configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// The number of updates.
    pub steps: u64,
    /// The number of examples in a batch.
    pub batch_size: usize,
    /// The number of batches per update (gradient accumulation).
    pub accumulate: usize,
    /// The learning rate schedule.
    pub rate: Schedule,
    /// The optimiser.
    pub optimiser: OptimiserKind,
    /// Weight decay of matrices: their relative decrease per update is this times the learning rate.
    pub weight_decay: f32,
    /// The decay rate of the optimiser's running mean of gradients.
    pub beta1: f32,
    /// The decay rate of Adam's running mean of squared gradients; unused by SGD.
    pub beta2: f32,
    /// Whether each parameter's learning rate is multiplied by the root mean square of its values, as in T5's training.
    pub relative: bool,
    /// The global gradient norm at which gradients are clipped; 0 for no clipping.
    pub clip: f32,
    /// The number of steps between evaluations; 0 for one at the end only.
    pub evaluate_every: u64,
    /// Early stopping: the number of evaluations without improvement before training stops; 0 for never.
    pub patience: u64,
    /// The seed of all random draws: initial weights, order of the data, dropout.
    pub seed: u64,
    /// The type of the activations. Written only if it is not f32: configurations of earlier versions stay the same text.
    #[serde(skip_serializing_if = "Precision::is_f32")]
    pub precision: Precision,
}

/// The optimiser's update rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OptimiserKind {
    /// Stochastic gradient descent with momentum `beta1`.
    Sgd,
    /// Adam (Kingma & Ba, 2014).
    Adam,
    /// AdamW: Adam with decoupled weight decay (Loshchilov & Hutter, 2017).
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
            precision: Precision::F32,
        }
    }
}

impl TrainConfig {
    /// Returns an error if a setting is invalid.
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

/// One batch: the inputs of a model and its targets.
#[derive(Debug, Clone)]
pub struct TrainingBatch {
    /// The inputs.
    pub inputs: Inputs,
    /// The targets; those equal to [`IGNORED`](crate::data::batches::IGNORED) do not count.
    pub targets: Ids,
    /// The number of examples.
    pub examples: usize,
    /// The number of tokens or images.
    pub tokens: usize,
}

/// The result of an evaluation: the loss and the task's other measures.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The mean loss on held-out data.
    pub loss: f64,
    /// Other measures by name, such as accuracy, in a fixed order.
    pub measures: Vec<(String, f64)>,
}

/// A model and its training data.
pub trait Task {
    /// The model.
    fn model(&self) -> &dyn Model;

    /// The model, to update.
    fn model_mut(&mut self) -> &mut dyn Model;

    /// The next batch.
    fn next_batch(&mut self) -> Result<TrainingBatch>;

    /// Evaluates the model on held-out data.
    fn evaluate(&self, context: &Context) -> Result<Evaluation>;

    /// The current position in the data.
    fn position(&self) -> DataPosition;

    /// Continues from a position.
    fn seek(&mut self, position: DataPosition) -> Result<()>;
}

/// The results of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// Its number, from 1.
    pub step: u64,
    /// The mean training loss.
    pub loss: f32,
    /// The learning rate.
    pub rate: f32,
    /// The norm of all gradients before clipping.
    pub gradient_norm: f32,
    /// The number of examples.
    pub examples: usize,
    /// The number of tokens.
    pub tokens: usize,
}

/// Whether to continue training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Continue.
    Continue,
    /// Stop after this step.
    Stop,
}

/// Callbacks of a training run. All methods have default implementations that do nothing.
pub trait Observer {
    /// Called between the backward pass and the update of a step.
    fn gradients(&mut self, step: u64, model: &dyn Module, gradients: &Gradients) -> Result<()> {
        let _ = (step, model, gradients);
        Ok(())
    }

    /// Whether [`Observer::gradients`] does anything. If not, a device may record an update and replay it as a whole.
    fn sees_gradients(&self) -> bool {
        true
    }

    /// Called before each update: its learning rate, given the schedule's. Observers of ranks that train together must
    /// return the same one.
    fn rate(&mut self, step: u64, scheduled: f32) -> f32 {
        let _ = step;
        scheduled
    }

    /// Called after each update.
    fn stepped(&mut self, step: &Step, task: &dyn Task, progress: &Progress) -> Result<Flow> {
        let _ = (step, task, progress);
        Ok(Flow::Continue)
    }

    /// Called after each evaluation; `best` if it is the best so far.
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

/// Does nothing.
impl Observer for () {
    fn sees_gradients(&self) -> bool {
        false
    }
}

/// Why training ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainingEnd {
    /// All steps were done.
    Finished,
    /// Early stopping: evaluations had not improved for as long as [`TrainConfig::patience`] allows.
    Patience,
    /// The observer stopped it.
    Stopped,
}

/// Trains from the step of `progress` to the last one. Parameters of 16-bit types become f32 first.
pub fn train(
    task: &mut dyn Task,
    config: &TrainConfig,
    progress: &mut Progress,
    observer: &mut dyn Observer,
) -> Result<TrainingEnd> {
    train_together(task, config, progress, observer, &Alone)
}

/// Trains on several ranks, which share the [`TrainConfig::accumulate`] batches of each update. All ranks end with the same
/// model, that of [`train`]. If the observer of any rank stops, all do.
pub fn train_together(
    task: &mut dyn Task,
    config: &TrainConfig,
    progress: &mut Progress,
    observer: &mut dyn Observer,
    group: &dyn Group,
) -> Result<TrainingEnd> {
    config.check()?;
    if group.ranks() > config.accumulate {
        let problem = format!(
            "{} ranks need at least as many batches an update; accumulate is {}",
            group.ranks(),
            config.accumulate
        );
        return Err(Error::configuration("train", problem));
    }
    let mut shared = SharedGradients::default();
    task.model_mut().widen()?;
    group.connect(task.model().device())?;
    let key = Key::new(config.seed).site("train");
    let mut recorder = if observer.sees_gradients() { Recorder::off() } else { Recorder::new() };
    while progress.step < config.steps {
        if progress.patience_is_over(config) {
            return Ok(TrainingEnd::Patience);
        }
        let step = update_once(task, config, progress, (observer, &mut recorder), (group, &mut shared), key)?;
        let last = progress.step == config.steps;
        if last || config.evaluate_every > 0 && progress.step.is_multiple_of(config.evaluate_every) {
            let evaluation = task.evaluate(&Context::inference().with_precision(config.precision.into()))?;
            // A model with this loss is neither worth keeping nor worth training further.
            if !evaluation.loss.is_finite() {
                let loss = format!("{} on held-out data", evaluation.loss);
                return Err(Error::Diverged { step: progress.step, loss });
            }
            let best = progress.record(&evaluation);
            observer.evaluated(&evaluation, best, task, progress)?;
        }
        let stop = observer.stepped(&step, task, progress)? == Flow::Stop;
        if parallel::any(group, stop)? && !last {
            return Ok(TrainingEnd::Stopped);
        }
    }
    Ok(TrainingEnd::Finished)
}

/// Accumulates the gradients of the next batches and makes one update.
fn update_once(
    task: &mut dyn Task,
    config: &TrainConfig,
    progress: &mut Progress,
    (observer, recorder): (&mut dyn Observer, &mut Recorder),
    (group, shared): (&dyn Group, &mut SharedGradients),
    key: Key,
) -> Result<Step> {
    let rate = observer.rate(progress.step + 1, config.rate.at(progress.step, config.steps));
    let mut step =
        Step { step: progress.step + 1, loss: 0.0, rate, gradient_norm: 0.0, examples: 0, tokens: 0 };
    let batches = (0..config.accumulate).map(|_| task.next_batch()).collect::<Result<Vec<_>>>()?;
    // Batches are weighted by their number of targets, so that several small ones give the same update as a large one.
    let targets: Vec<usize> = batches.iter().map(|batch| counted(&batch.targets)).collect();
    let all = targets.iter().sum::<usize>().max(1) as f32;
    let mut parts = Vec::with_capacity(batches.len());
    for (part, (batch, targets)) in batches.into_iter().zip(targets).enumerate() {
        let TrainingBatch { inputs, targets: answers, examples, tokens } = batch;
        step.examples += examples;
        step.tokens += tokens;
        let (share, first_example) = (targets as f32 / all, (part * config.batch_size) as u64);
        parts.push(Part { inputs, targets: answers, share, first_example });
    }
    let (key, clip) = (key.step(progress.step), config.clip);
    let how = Settings { key, rate, clip, precision: config.precision.into() };
    // A group of one whose device is connected takes the way of several, so that one GPU is enough to test it.
    let alone = group.ranks() == 1 && group.devices().is_none();
    if alone && let Some(outcome) = recorder.update(task.model_mut(), &mut progress.optimiser, &parts, how)? {
        (step.loss, step.gradient_norm) = (outcome.loss.item()?, outcome.norm.item()?);
        ensure_finite(&step)?;
        progress.step += 1;
        progress.position = task.position();
        return Ok(step);
    }
    let (gradients, loss) = match alone {
        true => gradients_of(task.model(), &parts, how)?,
        false => shared.of(group, task.model(), &parts, how)?,
    };
    step.loss = loss;
    ensure_finite(&step)?;
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

/// The gradients of all parts, summed in their order, and the sum of their losses.
fn gradients_of(model: &dyn Model, parts: &[Part], how: Settings) -> Result<(Gradients, f32)> {
    let (mut total, mut sum) = (Gradients::default(), 0.0);
    for part in parts {
        let context = Context::training(how.key, part.first_example).with_precision(how.precision);
        let loss = model.loss_of(&context, &part.inputs, &part.targets, settings())?.scale(part.share)?;
        sum += loss.item()?;
        total.add(loss.backward()?)?;
    }
    Ok((total, sum))
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

/// One update of a model from a loss: backward pass, optional clipping at a global norm, optimiser step. Returns the norm
/// of the gradients if they were clipped, without reading it to the host.
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
