//! Training of a model on data in memory, a while at a time, so that Python can show progress between.

use crate::arrays::{GivenReals, to_tensor};
use crate::error::problem;
use crate::fit_data::{Given, Held, Source};
use crate::model::Model;
use crate::work::work;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use regard::model::Opened;
use regard_nn::data::batches::DataPosition;
use regard_nn::models::{self, Predicts};
use regard_nn::tensor::Ids;
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::train::{
    self, Evaluation, Flow, Observer, Progress, Step, Task, TrainConfig, TrainingBatch, TrainingEnd,
};
use regard_nn::{Context, data::batches::IGNORED};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A model that is being trained.
#[pyclass(frozen, module = "regard._regard")]
pub struct Trainer {
    state: Mutex<State>,
    before: Arc<Opened>,
    name: String,
}

struct State {
    task: Fitting,
    config: TrainConfig,
    progress: Progress,
}

/// What one stretch of training gives: steps, evaluations, and why training ended if it did.
type Stretch<'py> = (Vec<(u64, f32, f32, f32)>, Vec<Bound<'py, PyDict>>, Option<&'static str>);

#[pymethods]
impl Trainer {
    /// Prepares a copy of a model for training: data, held-out data if there are any, and the settings in JSON.
    #[new]
    #[pyo3(signature = (model, data, held_out, pictures, held_pictures, settings))]
    fn new(
        py: Python<'_>,
        model: &Model,
        data: Given,
        held_out: Option<Given>,
        pictures: Option<GivenReals<'_>>,
        held_pictures: Option<GivenReals<'_>>,
        settings: &str,
    ) -> PyResult<Self> {
        let config: TrainConfig = crate::error::settings(settings)?;
        let pictures = pictures.as_ref().map(to_tensor).transpose()?;
        let held_pictures = held_pictures.as_ref().map(to_tensor).transpose()?;
        let before = Arc::clone(&model.opened);
        let state = work(py, |_| {
            config.check()?;
            let source = Source::new(&before, data, pictures, &config)?;
            let held_out =
                held_out.map(|given| Held::new(&before, given, held_pictures, &config)).transpose()?;
            let task = Fitting { model: before.model.duplicate(), source, held_out, last: None };
            Ok(State { task, progress: Progress::new(&config), config })
        })?;
        Ok(Self { state: Mutex::new(state), before, name: model.name.clone() })
    }

    /// Trains for so many seconds: to the next step after them, to the end, or until Ctrl-C.
    fn advance<'py>(&self, py: Python<'py>, seconds: f64) -> PyResult<Stretch<'py>> {
        let until =
            Duration::try_from_secs_f64(seconds).ok().and_then(|time| Instant::now().checked_add(time));
        let until = until.ok_or_else(|| problem("the time to train must be a number of seconds"))?;
        let (steps, evaluations, end) = work(py, |stop| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let State { task, config, progress } = &mut *state;
            let mut watch = Watch { stop, until, steps: Vec::new(), evaluations: Vec::new() };
            let end = train::train(task, config, progress, &mut watch)?;
            let measured = if task.held_out.is_some() { watch.evaluations } else { Vec::new() };
            Ok((watch.steps, measured, end))
        })?;
        let evaluations = evaluations.into_iter().map(|(step, evaluation)| {
            let row = PyDict::new(py);
            row.set_item("step", step)?;
            row.set_item("val_loss", evaluation.loss)?;
            for (name, value) in evaluation.measures {
                row.set_item(name, value)?;
            }
            Ok(row)
        });
        let end = match end {
            TrainingEnd::Finished => Some("finished"),
            TrainingEnd::Patience => Some("patience"),
            TrainingEnd::Stopped => None,
        };
        Ok((steps, evaluations.collect::<PyResult<_>>()?, end))
    }

    /// The model as it is now.
    fn model(&self) -> Model {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Opened { tokenizer, config, folder, .. } = &*self.before;
        let (tokenizer, config, folder) = (tokenizer.clone(), config.clone(), folder.clone());
        let opened = Opened { model: state.task.model.duplicate(), tokenizer, config, folder };
        Model::new(opened, self.name.clone())
    }
}

/// A model with its data.
struct Fitting {
    model: Box<dyn models::Model>,
    source: Source,
    held_out: Option<Held>,
    /// The last batch: without held-out data the loop evaluates on it, to see that the loss is still a number.
    last: Option<TrainingBatch>,
}

/// Cross-entropy of the targets that count.
const LOSS: CrossEntropy = CrossEntropy { ignored: Some(IGNORED), smoothing: 0.0 };

impl Task for Fitting {
    fn model(&self) -> &dyn models::Model {
        &*self.model
    }

    fn model_mut(&mut self) -> &mut dyn models::Model {
        &mut *self.model
    }

    fn next_batch(&mut self) -> regard_nn::Result<TrainingBatch> {
        let batch = self.source.next()?;
        if self.held_out.is_none() {
            self.last = Some(batch.clone());
        }
        Ok(batch)
    }

    fn evaluate(&self, context: &Context) -> regard_nn::Result<Evaluation> {
        let model = &*self.model;
        let Some(held_out) = &self.held_out else {
            let loss = match &self.last {
                Some(batch) => model.loss_of(context, &batch.inputs, &batch.targets, LOSS)?.item()?,
                None => 0.0,
            };
            return Ok(Evaluation { loss: f64::from(loss), measures: Vec::new() });
        };
        // Most next tokens cannot be known: their accuracy says little.
        let counts = model.abilities().predicts != Predicts::NextToken;
        let (mut sum, mut targets, mut correct) = (0.0, 0, 0);
        held_out.each(&mut |batch| {
            let hidden = model.hidden(context, &batch.inputs)?;
            let count = counted(&batch.targets);
            sum += f64::from(model.loss(context, &hidden, &batch.targets, LOSS)?.item()?) * count as f64;
            targets += count;
            if counts {
                let best = model.scores(context, &hidden)?.argmax(-1)?;
                let pairs = best.values().iter().zip(batch.targets.values());
                correct += pairs.filter(|(best, target)| best == target).count();
            }
            Ok(())
        })?;
        let share = |value: f64| value / targets.max(1) as f64;
        let accuracy = counts.then(|| ("accuracy".to_owned(), share(correct as f64)));
        Ok(Evaluation { loss: share(sum), measures: accuracy.into_iter().collect() })
    }

    fn position(&self) -> DataPosition {
        self.source.position()
    }

    fn seek(&mut self, position: DataPosition) -> regard_nn::Result<()> {
        self.source.seek(position)
    }
}

fn counted(targets: &Ids) -> usize {
    targets.values().iter().filter(|&&target| target != IGNORED).count()
}

/// Notes what happens, and stops after a time or a signal.
struct Watch<'a> {
    stop: &'a AtomicBool,
    until: Instant,
    steps: Vec<(u64, f32, f32, f32)>,
    evaluations: Vec<(u64, Evaluation)>,
}

impl Observer for Watch<'_> {
    fn sees_gradients(&self) -> bool {
        false
    }

    fn stepped(&mut self, step: &Step, _: &dyn Task, _: &Progress) -> regard_nn::Result<Flow> {
        self.steps.push((step.step, step.loss, step.rate, step.gradient_norm));
        let enough = self.stop.load(Ordering::Relaxed) || Instant::now() >= self.until;
        Ok(if enough { Flow::Stop } else { Flow::Continue })
    }

    fn evaluated(
        &mut self,
        evaluation: &Evaluation,
        _: bool,
        _: &dyn Task,
        progress: &Progress,
    ) -> regard_nn::Result<()> {
        self.evaluations.push((progress.step, evaluation.clone()));
        Ok(())
    }
}
