//! The observer of a run: progress, metrics, states, snapshots, and signals to stop.

use super::config::RunConfig;
use super::controls::{Attached, Controls, LatestStep};
use super::event_file::EventFile;
use super::folder::RunFolder;
use super::prepare::PreparedRun;
use crate::signals::interrupt_flag;
use crate::terminal;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use regard_nn::tokens::Tokenizer;
use regard_nn::train::parallel::Group;
use regard_nn::train::{Evaluation, Flow, Observer, Progress, Step, Task, save_state};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Totals that a run saves beside its parameters, so that its metrics continue when it is resumed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunningTotals {
    /// The summary of the training data; another data set cannot continue the run.
    pub data: String,
    /// Its checksum; runs of earlier versions have none.
    #[serde(default)]
    pub checksum: Option<u64>,
    /// The device that trains, by its name: other devices round differently. Runs of earlier versions have none.
    #[serde(default)]
    pub device: Option<String>,
    /// The time spent so far, in seconds.
    pub seconds: f64,
    /// The sum of losses since the last line of metrics, and their number.
    pub loss: (f64, u64),
    /// Examples and tokens read so far.
    pub read: (u64, u64),
    /// What the schedule's learning rates are multiplied by, if whoever watched the run changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_factor: Option<f32>,
}

/// Where a run reports its progress.
#[derive(Clone, Copy)]
pub enum Reporting<'a> {
    /// To the terminal: a bar, or lines where there is no terminal.
    Terminal,
    /// The fraction of finished steps, to a callback.
    Fraction(&'a dyn Fn(f64)),
    /// Nowhere.
    Silent,
}

impl Reporting<'_> {
    /// Prints a remark, if the run reports to the terminal.
    pub fn remark(self, text: impl std::fmt::Display) {
        if self.is_terminal() {
            terminal::remark(text);
        }
    }

    fn is_terminal(self) -> bool {
        matches!(self, Reporting::Terminal)
    }
}

/// Writes metrics, states and snapshots of a run, and reports its progress.
pub struct RunObserver<'a> {
    config: &'a RunConfig,
    configuration: String,
    folder: &'a RunFolder,
    config_fields: Map<String, Value>,
    tokenizer: Option<Tokenizer>,
    metrics: File,
    note: RunningTotals,
    started: Instant,
    /// The step that this process began from.
    first: u64,
    bar: Option<ProgressBar>,
    last_line: Instant,
    evaluation: Option<Evaluation>,
    stop: Arc<AtomicBool>,
    controls: Option<Arc<Controls>>,
    events: Option<EventFile>,
    reporting: Reporting<'a>,
    /// What the speed counts: tokens or images.
    unit: &'static str,
}

impl<'a> RunObserver<'a> {
    /// Observes a run from a step on.
    pub fn new(
        config: &'a RunConfig,
        folder: &'a RunFolder,
        prepared: &PreparedRun,
        note: RunningTotals,
        step: u64,
        reporting: Reporting<'a>,
    ) -> Result<Self> {
        let bar = (reporting.is_terminal() && terminal::is_terminal()).then(|| {
            let style = "{bar:30} {pos}/{len}  {msg}  {elapsed_precise} left {eta_precise}";
            let bar = ProgressBar::new(config.train.steps);
            bar.set_style(
                ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.set_position(step);
            bar.reset_eta();
            bar
        });
        if step == 0 && config.run.snapshots.contains(&0) {
            folder.write_snapshot(
                0,
                prepared.task.model(),
                &prepared.config_fields,
                prepared.tokenizer.as_ref(),
            )?;
        }
        Ok(Self {
            config,
            configuration: toml::to_string(config)?,
            folder,
            config_fields: prepared.config_fields.clone(),
            tokenizer: prepared.tokenizer.clone(),
            metrics: folder.metrics_up_to(step)?,
            note,
            started: Instant::now(),
            first: step,
            bar,
            last_line: Instant::now(),
            evaluation: None,
            stop: interrupt_flag(),
            controls: None,
            events: None,
            reporting,
            unit: match prepared.task.model().abilities().pictures() {
                Some(_) => "images",
                None => "tokens",
            },
        })
    }

    /// Accompanies the run: controls that it obeys, event files that it writes.
    pub fn attach(&mut self, attached: &Attached, task: &dyn Task) -> Result<()> {
        let first = self.first;
        self.events =
            attached.tensorboard.as_deref().map(|folder| EventFile::create(folder, first)).transpose()?;
        self.controls.clone_from(&attached.controls);
        let Some(controls) = &self.controls else { return Ok(()) };
        if let Some(factor) = self.note.rate_factor {
            controls.set_factor(factor);
        }
        let rate = self.config.train.rate.at(first, self.config.train.steps) * controls.factor();
        controls.report(LatestStep { step: first, rate, ..LatestStep::default() });
        // Whoever watches has something to look at from the beginning.
        if RunFolder::snapshots(self.folder.path()).is_empty() {
            self.keep(first, task)?;
        }
        Ok(())
    }

    fn keep(&self, step: u64, task: &dyn Task) -> Result<()> {
        self.folder.write_snapshot(step, task.model(), &self.config_fields, self.tokenizer.as_ref())
    }

    /// Waits as long as the run is paused. The model of this step is kept, so that it can be looked into.
    fn wait_while_paused(&mut self, step: &Step, task: &dyn Task) -> Result<()> {
        let Some(controls) = self.controls.clone() else { return Ok(()) };
        let speed = self.note.read.1 as f64 / self.seconds().max(1e-9);
        let loss = Some(self.note.loss.0 / self.note.loss.1.max(1) as f64);
        controls.report(LatestStep { step: step.step, loss, rate: step.rate, speed });
        if !controls.is_paused() {
            return Ok(());
        }
        let began = Instant::now();
        if !RunFolder::snapshots(self.folder.path()).contains(&step.step) {
            self.keep(step.step, task)?;
        }
        while controls.is_paused() && !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(30));
        }
        // Pauses are no time of training.
        self.started += began.elapsed();
        Ok(())
    }

    /// What the schedule's learning rates are multiplied by.
    fn rate_factor(&self) -> f32 {
        let own = self.note.rate_factor.unwrap_or(1.0);
        self.controls.as_ref().map_or(own, |controls| controls.factor())
    }

    fn seconds(&self) -> f64 {
        self.note.seconds + self.started.elapsed().as_secs_f64()
    }

    fn print(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| terminal::remark(text)),
            None => self.reporting.remark(text),
        }
    }

    fn save(&mut self, task: &dyn Task, progress: &Progress) -> regard_nn::Result<()> {
        let rate_factor = Some(self.rate_factor()).filter(|factor| factor.to_bits() != 1.0_f32.to_bits());
        let note = RunningTotals { seconds: self.seconds(), rate_factor, ..self.note.clone() };
        let note = serde_json::to_string(&note).unwrap_or_default();
        save_state(&self.folder.state(), task, progress, &self.configuration, &note)
    }

    /// Saves the last whole step, if training with other ranks failed after it.
    pub fn save_after_failure(&mut self, task: &dyn Task, progress: &Progress, group: &dyn Group) {
        if group.ranks() > 1 && progress.step > 0 && self.save(task, progress).is_ok() {
            let (step, folder) = (progress.step, terminal::quoted(self.folder.path()));
            self.print(&format!("step {step} is saved; continue with: regard train --resume --out {folder}"));
        }
    }

    /// Adds a line to the metrics: mean loss since the last one, and the evaluation if there was one.
    fn log(&mut self, step: &Step) -> std::io::Result<()> {
        let ((sum, count), evaluation) = (self.note.loss, &self.evaluation);
        let number = |value: Option<f64>| value.map(|value| format!("{value:.6}")).unwrap_or_default();
        let measure = |name: &str| {
            let measures =
                evaluation.as_ref().map(|evaluation| evaluation.measures.as_slice()).unwrap_or_default();
            number(measures.iter().find(|(known, _)| known == name).map(|(_, value)| *value))
        };
        writeln!(
            self.metrics,
            "{},{:.6},{},{:e},{:.2},{:.6},{},{},{},{}",
            step.step,
            sum / count.max(1) as f64,
            number(evaluation.as_ref().map(|evaluation| evaluation.loss)),
            step.rate,
            self.seconds(),
            step.gradient_norm,
            self.note.read.0,
            self.note.read.1,
            measure("accuracy"),
            measure("perplexity"),
        )?;
        self.metrics.flush()?;
        if let Some(events) = &mut self.events {
            let mut points = vec![
                ("loss/train", sum / count.max(1) as f64),
                ("learning_rate", f64::from(step.rate)),
                ("gradient_norm", f64::from(step.gradient_norm)),
                ("tokens", self.note.read.1 as f64),
            ];
            if let Some(evaluation) = &self.evaluation {
                points.push(("loss/held_out", evaluation.loss));
                points.extend(evaluation.measures.iter().map(|(name, value)| (name.as_str(), *value)));
            }
            events.add(step.step, &points)?;
        }
        // Only now: a line that could not be written is part of the next one.
        (self.note.loss, self.evaluation) = ((0.0, 0), None);
        Ok(())
    }

    fn show(&mut self, step: &Step) {
        if let Reporting::Fraction(callback) = self.reporting {
            callback(step.step as f64 / self.config.train.steps.max(1) as f64);
        }
        let speed = self.note.read.1 as f64 / self.seconds().max(1e-9);
        let loss = self.note.loss.0 / self.note.loss.1.max(1) as f64;
        let (rate, speed, unit) = (step.rate, terminal::thousands(speed as u64), self.unit);
        let text = format!("loss {loss:.4}  rate {rate:.1e}  {speed} {unit}/s");
        if let Some(bar) = &self.bar {
            bar.set_position(step.step);
            bar.set_message(text);
        } else if self.reporting.is_terminal() && self.last_line.elapsed() > Duration::from_secs(5) {
            self.last_line = Instant::now();
            let steps = self.config.train.steps;
            let share = |step: u64| step as f64 / steps.max(1) as f64;
            let now = share(step.step - self.first) / (1.0 - share(self.first)).max(1e-9);
            let left = terminal::left(self.started.elapsed(), now);
            terminal::remark(format!("step {}/{steps}  {text}{left}", step.step));
        }
    }
}

impl Observer for RunObserver<'_> {
    fn sees_gradients(&self) -> bool {
        false
    }

    fn rate(&mut self, _: u64, scheduled: f32) -> f32 {
        scheduled * self.rate_factor()
    }

    fn stepped(&mut self, step: &Step, task: &dyn Task, progress: &Progress) -> regard_nn::Result<Flow> {
        let last = step.step == self.config.train.steps;
        self.note.loss.0 += f64::from(step.loss);
        self.note.loss.1 += 1;
        self.note.read.0 += step.examples as u64;
        self.note.read.1 += step.tokens as u64;
        self.show(step);
        let unwritten = |error| regard_nn::Error::Checkpoint(format!("{error:#}"));
        if !last {
            self.wait_while_paused(step, task).map_err(unwritten)?;
        }
        let stop = self.stop.load(Ordering::Relaxed);
        let keep = &self.config.run;
        let due = |every: u64| every > 0 && step.step.is_multiple_of(every);
        let (evaluated, snapshot) = (self.evaluation.is_some(), keep.snapshots.contains(&step.step));
        let saves = due(keep.save_every) || evaluated || last || stop;
        if (due(keep.log_every) || evaluated || last)
            && let Err(error) = self.log(step)
        {
            // The steps are worth more than the line about them.
            let saved = self.save(task, progress);
            let kept = if saved.is_ok() { "; the state of this step is saved" } else { "" };
            let place = self.folder.path().join("metrics.csv").display().to_string();
            return Err(regard_nn::Error::Data {
                place,
                problem: format!("cannot be written: {error}{kept}"),
            });
        }
        if snapshot {
            self.keep(step.step, task).map_err(unwritten)?;
        }
        if saves {
            self.save(task, progress)?;
        }
        if (last || stop)
            && let Some(bar) = &self.bar
        {
            // A bar that is finished is full.
            if last { bar.finish() } else { bar.abandon() }
        }
        Ok(if stop { Flow::Stop } else { Flow::Continue })
    }

    fn evaluated(
        &mut self,
        evaluation: &Evaluation,
        best: bool,
        task: &dyn Task,
        progress: &Progress,
    ) -> regard_nn::Result<()> {
        if best {
            let written = self.folder.write_model(task.model(), &self.config_fields);
            written.map_err(|error| regard_nn::Error::Checkpoint(format!("{error:#}")))?;
        }
        let measures: Vec<String> =
            evaluation.measures.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
        let mark = if best { "  (best so far)" } else { "" };
        let step = progress.step;
        self.print(&format!(
            "step {step}  held-out loss {:.4}  {}{mark}",
            evaluation.loss,
            measures.join("  ")
        ));
        self.evaluation = Some(evaluation.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::prepare;
    use regard_nn::train::{load_state, train};

    #[test]
    fn metrics_that_cannot_be_written_cost_no_steps() {
        let folder = tempfile::tempdir().unwrap();
        let settings = ["data.texts=40", "data.limit=20", "train.steps=9", "run.log_every=4"];
        let config = crate::run::preset("bag", &settings.map(str::to_owned)).unwrap();
        let mut prepared = prepare(&config, None, None).unwrap();
        let run = RunFolder::create(folder.path(), &config).unwrap();
        let totals = RunningTotals::default();
        let mut observer = RunObserver::new(&config, &run, &prepared, totals, 0, Reporting::Silent).unwrap();
        // Opened to be read only: every write fails.
        observer.metrics = File::open(folder.path().join("metrics.csv")).unwrap();
        let mut progress = Progress::new(&config.train);
        let task = prepared.task.as_mut();
        let problem = train(task, &config.train, &mut progress, &mut observer).unwrap_err().to_string();
        assert!(problem.contains("metrics.csv") && problem.contains("is saved"), "{problem}");
        let configuration = toml::to_string(&config).unwrap();
        let (progress, note) = load_state(&run.state(), task, &config.train, &configuration).unwrap();
        assert_eq!(progress.step, 4);
        let note: RunningTotals = serde_json::from_str(&note).unwrap();
        assert_eq!(note.loss.1, 4, "the losses belong to the next line");
    }
}
