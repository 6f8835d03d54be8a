//! Progress of long computations and downloads: a bar on a terminal, a line every few seconds elsewhere.

use crate::terminal;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Progress is shown only for what takes longer than this.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time between two lines.
const BETWEEN: Duration = Duration::from_secs(10);

thread_local! {
    static STOP: Cell<Option<&'static AtomicBool>> = const { Cell::new(None) };
}

/// Unwinds from a computation that was stopped.
pub struct Stopped;

/// While it lives, computations on this thread stop at their next step once a flag is set, by unwinding with [`Stopped`]: for
/// programs that go on afterwards, such as Python's interpreter. (The program itself ends by Ctrl-C.)
pub struct Stoppable(Option<&'static AtomicBool>);

impl Stoppable {
    /// Begins to heed a flag.
    pub fn by(flag: &'static AtomicBool) -> Self {
        Self(STOP.replace(Some(flag)))
    }
}

impl Drop for Stoppable {
    fn drop(&mut self) {
        STOP.set(self.0);
    }
}

/// Progress of a computation with a known number of steps. Without a terminal, nothing is printed in the first two seconds.
pub struct StepProgress {
    name: String,
    total: u64,
    started: Instant,
    bar: Option<ProgressBar>,
    steps: Mutex<Steps>,
}

struct Steps {
    done: u64,
    /// When to print the next line, counted from the start.
    next_line: Duration,
}

impl StepProgress {
    /// Begins a computation of `total` steps, with a name such as "measuring heads".
    pub fn new(name: impl Into<String>, total: u64) -> Self {
        let name = name.into();
        let bar = terminal::is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg}  {bar:30} {pos}/{len}  left {eta_precise}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(total).with_style(style).with_message(name.clone())
        });
        let steps = Mutex::new(Steps { done: 0, next_line: PATIENCE });
        Self { name, total, started: Instant::now(), bar, steps }
    }

    /// Counts a finished step.
    pub fn step(&self) {
        if STOP.get().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            resume_unwind(Box::new(Stopped));
        }
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.done += 1;
        let elapsed = self.started.elapsed();
        if let Some(bar) = &self.bar {
            bar.set_position(steps.done);
        } else if elapsed > steps.next_line {
            steps.next_line = elapsed + BETWEEN;
            let left = terminal::left(elapsed, steps.done as f64 / self.total.max(1) as f64);
            terminal::remark(format!("{}: {} of {}{left}", self.name, steps.done, self.total));
        }
    }
}

impl Drop for StepProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Progress of files that are downloaded one after the other.
pub struct DownloadProgress {
    bar: Option<ProgressBar>,
    shown: String,
    started: Instant,
    next_line: Duration,
}

impl Default for DownloadProgress {
    fn default() -> Self {
        Self::new()
    }
}

impl DownloadProgress {
    /// No file yet.
    pub fn new() -> Self {
        let bar = terminal::is_terminal().then(|| {
            let style = "{msg:24} {bar:30} {bytes:>10} of {total_bytes:10} {bytes_per_sec} {eta}";
            let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(0).with_style(style)
        });
        Self { bar, shown: String::new(), started: Instant::now(), next_line: PATIENCE }
    }

    /// Shows how many bytes of a file have arrived.
    pub fn show(&mut self, file: &str, done: u64, total: u64) {
        let new = self.shown != file;
        if new {
            file.clone_into(&mut self.shown);
            (self.started, self.next_line) = (Instant::now(), PATIENCE);
        }
        if let Some(bar) = &self.bar {
            if new {
                bar.reset();
                bar.set_message(self.shown.clone());
            }
            bar.set_length(total);
            bar.set_position(done);
            return;
        }
        let elapsed = self.started.elapsed();
        if elapsed > self.next_line {
            self.next_line = elapsed + BETWEEN;
            let left = terminal::left(elapsed, done as f64 / total.max(1) as f64);
            let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
            terminal::remark(format!("{file}: {} of {} MB{left}", megabytes(done), megabytes(total)));
        }
    }
}

impl Drop for DownloadProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
