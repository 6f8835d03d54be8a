//! Models that experiments train: one that is kept is trained once and shared; of others only what an observer records is kept.
//! Both show their progress, and stop on Ctrl-C.

use super::lab::Lab;
use crate::compute::Placement;
use crate::error::Interrupted;
use crate::model::{self, Opened};
use crate::run::{Reporting, RunConfig, RunFolder, interrupt_flag, train_in};
use anyhow::{Context as _, Result, bail};
use regard_nn::Module;
use regard_nn::tensor::Gradients;
use regard_nn::train::{self, Evaluation, Flow, Observer, Step, Task, TrainingEnd, train};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

impl Lab<'_> {
    /// Trains a task that was configured like this, and of which nothing is kept but what the observer takes down.
    pub fn train_task(
        &self,
        task: &mut dyn Task,
        config: &RunConfig,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let config = self.configured(config);
        self.trainings.add(&RunConfig { model: config.resolved(task.model())?, ..config.clone() })?;
        self.setup.placement.place_to_train(task.model_mut())?;
        let config = &config.train;
        let mut attended = Attended { lab: self, steps: config.steps, observer };
        match train(task, config, &mut train::Progress::new(config), &mut attended)? {
            TrainingEnd::Stopped => bail!(Interrupted::repeat()),
            TrainingEnd::Finished | TrainingEnd::Patience => Ok(()),
        }
    }

    /// A model trained as configured: one that was trained before, by any experiment, or a new one.
    pub fn train(&self, config: &RunConfig) -> Result<Trained> {
        let (config, placement) = (&self.configured(config), self.setup.placement);
        let folder = self.store.model(config, placement)?;
        let lock = {
            let mut locks = TRAINING.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(locks.get_or_insert_with(HashMap::new).entry(folder.clone()).or_default())
        };
        // Whoever wants the same model at the same time waits for it.
        let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        // So does another share.
        let _claim = self.share.map(|_| self.store.claim(&folder)).transpose()?;
        let reporting = Reporting::Fraction(&|share| self.progress.partly(share));
        if !train_in(&folder, config, placement, reporting)? {
            bail!(Interrupted::repeat());
        }
        // A model that was trained before reports no progress.
        self.progress.partly(1.0);
        // The sizes of the model are known only now: its vocabulary comes from the data.
        self.trainings.add(&RunFolder::config_in(&folder)?.unwrap_or_else(|| config.clone()))?;
        Trained::read(folder, placement)
    }

    /// A configuration in the precision of this laboratory.
    fn configured(&self, config: &RunConfig) -> RunConfig {
        let mut config = config.clone();
        config.train.precision = self.setup.placement.precision;
        config
    }
}

/// Shows how far a training is and heeds Ctrl-C, whoever else observes it.
struct Attended<'a> {
    lab: &'a Lab<'a>,
    steps: u64,
    observer: &'a mut dyn Observer,
}

impl Observer for Attended<'_> {
    fn gradients(&mut self, step: u64, model: &dyn Module, gradients: &Gradients) -> regard_nn::Result<()> {
        self.observer.gradients(step, model, gradients)
    }

    fn rate(&mut self, step: u64, scheduled: f32) -> f32 {
        self.observer.rate(step, scheduled)
    }

    fn stepped(
        &mut self,
        step: &Step,
        task: &dyn Task,
        progress: &train::Progress,
    ) -> regard_nn::Result<Flow> {
        self.lab.progress.partly(step.step as f64 / self.steps as f64);
        // First of all the observer: a last step is one, whether or not it was interrupted.
        let flow = self.observer.stepped(step, task, progress)?;
        Ok(if interrupt_flag().load(Ordering::Relaxed) { Flow::Stop } else { flow })
    }

    fn evaluated(
        &mut self,
        evaluation: &Evaluation,
        best: bool,
        task: &dyn Task,
        progress: &train::Progress,
    ) -> regard_nn::Result<()> {
        self.observer.evaluated(evaluation, best, task, progress)
    }
}

/// One lock for each folder that a model is being trained in.
static TRAINING: Mutex<Option<HashMap<PathBuf, Arc<Mutex<()>>>>> = Mutex::new(None);

/// A trained model and how it got there.
#[derive(Debug, Clone)]
pub struct Trained {
    /// Its folder.
    pub folder: PathBuf,
    /// The lines of its metrics.
    pub curve: Vec<Line>,
    /// Where it is opened.
    placement: Placement,
}

/// A line of metrics.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    /// After how many updates.
    pub step: u64,
    /// The mean training loss since the last line.
    pub train_loss: f64,
    /// The held-out loss, if it was measured.
    pub loss: Option<f64>,
    /// The held-out accuracy, if it was measured.
    pub accuracy: Option<f64>,
    /// The norm of the gradients.
    pub gradient_norm: f64,
    /// The tokens read so far.
    pub tokens: u64,
    /// The seconds it took so far: not the same twice.
    pub seconds: f64,
}

impl Trained {
    fn read(folder: PathBuf, placement: Placement) -> Result<Self> {
        let number = |field: Option<&str>| field.and_then(|field| field.parse::<f64>().ok());
        let text = std::fs::read_to_string(folder.join("metrics.csv"))
            .with_context(|| format!("cannot read the metrics in {}", folder.display()))?;
        let line = |line: &str| {
            let fields: Vec<&str> = line.split(',').collect();
            let at = |index: usize| number(fields.get(index).copied());
            Some(Line {
                step: at(0)? as u64,
                train_loss: at(1)?,
                loss: at(2),
                seconds: at(4)?,
                gradient_norm: at(5)?,
                tokens: at(7)? as u64,
                accuracy: at(8),
            })
        };
        Ok(Self { curve: text.lines().skip(1).filter_map(line).collect(), folder, placement })
    }

    /// The held-out loss after so many updates, wherever it was measured.
    pub fn losses(&self) -> Vec<(u64, f64)> {
        self.curve.iter().filter_map(|line| Some((line.step, line.loss?))).collect()
    }

    /// The last held-out loss.
    pub fn loss(&self) -> Result<f64> {
        let last = self.curve.iter().rev().find_map(|line| line.loss);
        last.with_context(|| format!("{} was never evaluated", self.folder.display()))
    }

    /// The last held-out accuracy.
    pub fn accuracy(&self) -> Result<f64> {
        let last = self.curve.iter().rev().find_map(|line| line.accuracy);
        last.with_context(|| format!("{} has no accuracy", self.folder.display()))
    }

    /// The model as it was when it was best on held-out data.
    pub fn open(&self) -> Result<Opened> {
        model::open_on(&self.folder.display().to_string(), self.placement)
    }

    /// The model after so many updates, one of the run's `snapshots` (0: before the first).
    pub fn snapshot(&self, step: u64) -> Result<Opened> {
        model::open_on(&RunFolder::snapshot(&self.folder, step).display().to_string(), self.placement)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lab::tests::at_a_bench;
    use super::*;
    use crate::run::{Session, prepare, preset};

    fn tiny() -> RunConfig {
        let settings = ["data.texts=20", "train.steps=5", "train.batch_size=2", "data.length=8"];
        preset("words-gpt", &settings.map(str::to_owned)).unwrap()
    }

    /// Takes down losses, and calls the third step a divergence.
    struct Breaks(Vec<f32>);

    impl Observer for Breaks {
        fn stepped(&mut self, step: &Step, _: &dyn Task, _: &train::Progress) -> regard_nn::Result<Flow> {
            self.0.push(step.loss);
            match step.step {
                3 => Err(regard_nn::Error::Diverged { step: 3, loss: "planted".to_owned() }),
                _ => Ok(Flow::Continue),
            }
        }
    }

    #[test]
    fn a_task_is_watched_by_its_observer_and_its_errors_come_out_as_they_are() {
        let config = tiny();
        let mut material = prepare(&config, None, None).unwrap();
        at_a_bench(|lab| {
            lab.progress.begin("one task", 1.0);
            lab.progress.expect(1);
            let mut observer = Breaks(Vec::new());
            let error = lab.train_task(material.task.as_mut(), &config, &mut observer).unwrap_err();
            assert!(
                matches!(error.downcast_ref(), Some(regard_nn::Error::Diverged { step: 3, .. })),
                "{error}"
            );
            assert_eq!(observer.0.len(), 3);
            let after_three = lab.progress.reached();
            lab.train_task(material.task.as_mut(), &config, &mut ()).unwrap();
            assert!(after_three > 0.0 && lab.progress.reached() > after_three, "its steps are shown");
        });
    }

    #[test]
    fn a_model_that_is_kept_shows_its_steps_too() {
        at_a_bench(|lab| {
            lab.progress.begin("one model", 1.0);
            lab.progress.expect(1);
            assert_eq!(lab.progress.reached(), 0.0);
            lab.train(&tiny()).unwrap();
            assert!(lab.progress.reached() > 0.5);
        });
    }

    #[test]
    fn a_model_that_is_done_is_kept_without_what_it_would_go_on_from() {
        at_a_bench(|lab| {
            let first = lab.train(&tiny()).unwrap();
            assert!(!RunFolder::state_of(&first.folder).exists());
            first.open().unwrap();
            let resumed = Session::resume(&first.folder, Placement::CPU.into(), Reporting::Silent);
            assert!(resumed.is_err_and(|error| error.to_string().contains("is done")));
            let written = |name: &str| first.folder.join(name).metadata().unwrap().modified().unwrap();
            let before = written("model.safetensors");
            let again = lab.train(&tiny()).unwrap();
            assert_eq!(
                (again.folder.as_path(), written("model.safetensors")),
                (first.folder.as_path(), before)
            );
        });
    }
}
