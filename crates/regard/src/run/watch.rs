//! Watching a run: progress, metrics, states, snapshots, and Ctrl-C.

use super::config::RunConfig;
use super::folder::RunFolder;
use super::material::Material;
use crate::terminal;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use regard_nn::tokens::Tokenizer;
use regard_nn::train::{Evaluation, Flow, Observer, Progress, Step, Task, save_state};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// What a run remembers beside its parameters, so that its metrics go on where they stopped.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// What was learned from; another data set cannot continue the run.
    pub data: String,
    /// Its checksum; runs of earlier versions have none.
    #[serde(default)]
    pub checksum: Option<u64>,
    /// The time spent so far, in seconds.
    pub seconds: f64,
    /// The sum of losses since the last line of metrics, and their number.
    pub loss: (f64, u64),
    /// Examples and tokens read so far.
    pub read: (u64, u64),
}

/// Whether a run tells how it is going.
#[derive(Clone, Copy)]
pub enum Voice<'a> {
    /// It does: a bar on a terminal, lines elsewhere.
    Aloud,
    /// It only tells the share of its steps that is done, to someone who shows it.
    Share(&'a dyn Fn(f64)),
    /// It does not.
    Silent,
}

impl Voice<'_> {
    /// A remark, if they are to be heard.
    pub fn remark(self, text: impl std::fmt::Display) {
        if self.is_aloud() {
            terminal::remark(text);
        }
    }

    fn is_aloud(self) -> bool {
        matches!(self, Voice::Aloud)
    }
}

/// The observer of a run at the command line.
pub struct Watch<'a> {
    config: &'a RunConfig,
    configuration: String,
    folder: &'a RunFolder,
    notes: Map<String, Value>,
    tokenizer: Option<Tokenizer>,
    metrics: File,
    note: Note,
    started: Instant,
    bar: Option<ProgressBar>,
    spoken: Instant,
    evaluation: Option<Evaluation>,
    stop: Arc<AtomicBool>,
    voice: Voice<'a>,
    /// What a model reads many of.
    unit: &'static str,
}

impl<'a> Watch<'a> {
    /// Watches a run from a step on.
    pub fn new(
        config: &'a RunConfig,
        folder: &'a RunFolder,
        material: &Material,
        note: Note,
        step: u64,
        voice: Voice<'a>,
    ) -> Result<Self> {
        let bar = (voice.is_aloud() && terminal::watched()).then(|| {
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
            folder.write_snapshot(0, material.task.model(), &material.notes, material.tokenizer.as_ref())?;
        }
        Ok(Self {
            config,
            configuration: toml::to_string(config)?,
            folder,
            notes: material.notes.clone(),
            tokenizer: material.tokenizer.clone(),
            metrics: folder.metrics_up_to(step)?,
            note,
            started: Instant::now(),
            bar,
            spoken: Instant::now(),
            evaluation: None,
            stop: interrupted(),
            voice,
            unit: match material.task.model().abilities().pictures() {
                Some(_) => "images",
                None => "tokens",
            },
        })
    }

    fn seconds(&self) -> f64 {
        self.note.seconds + self.started.elapsed().as_secs_f64()
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| terminal::remark(text)),
            None => self.voice.remark(text),
        }
    }

    fn save(&mut self, task: &dyn Task, progress: &Progress) -> regard_nn::Result<()> {
        let note = Note { seconds: self.seconds(), ..self.note.clone() };
        let note = serde_json::to_string(&note).unwrap_or_default();
        save_state(&self.folder.state(), task, progress, &self.configuration, &note)
    }

    /// Adds a line to the metrics: mean loss since the last one, and the evaluation if there was one.
    fn log(&mut self, step: &Step) -> std::io::Result<()> {
        let (sum, count) = std::mem::take(&mut self.note.loss);
        let evaluation = self.evaluation.take();
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
        self.metrics.flush()
    }

    fn show(&mut self, step: &Step) {
        if let Voice::Share(tell) = self.voice {
            tell(step.step as f64 / self.config.train.steps.max(1) as f64);
        }
        let speed = self.note.read.1 as f64 / self.seconds().max(1e-9);
        let loss = self.note.loss.0 / self.note.loss.1.max(1) as f64;
        let (rate, speed, unit) = (step.rate, terminal::thousands(speed as u64), self.unit);
        let text = format!("loss {loss:.4}  rate {rate:.1e}  {speed} {unit}/s");
        if let Some(bar) = &self.bar {
            bar.set_position(step.step);
            bar.set_message(text);
        } else if self.voice.is_aloud() && self.spoken.elapsed() > Duration::from_secs(5) {
            self.spoken = Instant::now();
            terminal::remark(format!("step {}/{}  {text}", step.step, self.config.train.steps));
        }
    }
}

impl Observer for Watch<'_> {
    fn sees_gradients(&self) -> bool {
        false
    }

    fn stepped(&mut self, step: &Step, task: &dyn Task, progress: &Progress) -> regard_nn::Result<Flow> {
        let last = step.step == self.config.train.steps;
        let stop = self.stop.load(Ordering::Relaxed);
        self.note.loss.0 += f64::from(step.loss);
        self.note.loss.1 += 1;
        self.note.read.0 += step.examples as u64;
        self.note.read.1 += step.tokens as u64;
        self.show(step);
        let keep = &self.config.run;
        let due = |every: u64| every > 0 && step.step.is_multiple_of(every);
        let (evaluated, snapshot) = (self.evaluation.is_some(), keep.snapshots.contains(&step.step));
        let saves = due(keep.save_every) || evaluated || last || stop;
        if due(keep.log_every) || evaluated || last {
            let path = self.folder.path().join("metrics.csv");
            self.log(step).map_err(|error| regard_nn::Error::Data {
                place: path.display().to_string(),
                problem: format!("cannot be written: {error}"),
            })?;
        }
        if snapshot {
            let written =
                self.folder.write_snapshot(step.step, task.model(), &self.notes, self.tokenizer.as_ref());
            written.map_err(|error| regard_nn::Error::Checkpoint(format!("{error:#}")))?;
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
            let written = self.folder.write_model(task.model(), &self.notes);
            written.map_err(|error| regard_nn::Error::Checkpoint(format!("{error:#}")))?;
        }
        let measures: Vec<String> =
            evaluation.measures.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
        let mark = if best { "  (best so far)" } else { "" };
        let step = progress.step;
        self.say(&format!(
            "step {step}  held-out loss {:.4}  {}{mark}",
            evaluation.loss,
            measures.join("  ")
        ));
        self.evaluation = Some(evaluation.clone());
        Ok(())
    }
}

/// A flag that Ctrl-C sets; pressed twice, it ends the program at once.
pub fn interrupted() -> Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let flag = FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let handler = Arc::clone(&flag);
        // Without a handler Ctrl-C ends the program, which loses no more than the steps since the last state.
        let _ = ctrlc::set_handler(move || {
            if handler.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
            terminal::remark("\nfinishing this step and saving; press again to end at once");
        });
        flag
    });
    Arc::clone(flag)
}
