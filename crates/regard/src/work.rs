//! How far a long piece of work or a download has come: a bar on a terminal, a line now and then elsewhere.

use crate::terminal;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whoever waits this long wants to know how much longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time between two lines.
const BETWEEN: Duration = Duration::from_secs(10);

/// Work of a known number of steps. Whatever takes less than two seconds says nothing unless someone watches.
pub struct Work {
    name: String,
    total: u64,
    started: Instant,
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

struct State {
    done: u64,
    /// When to say something next, counted from the start.
    next_words: Duration,
}

impl Work {
    /// So many steps of something, such as "measuring heads".
    pub fn new(name: impl Into<String>, total: u64) -> Self {
        let name = name.into();
        let bar = terminal::watched().then(|| {
            let style = ProgressStyle::with_template("{msg}  {bar:30} {pos}/{len}  left {eta_precise}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(total).with_style(style).with_message(name.clone())
        });
        let state = Mutex::new(State { done: 0, next_words: PATIENCE });
        Self { name, total, started: Instant::now(), bar, state }
    }

    /// A step is done.
    pub fn step(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.done += 1;
        let elapsed = self.started.elapsed();
        if let Some(bar) = &self.bar {
            bar.set_position(state.done);
        } else if elapsed > state.next_words {
            state.next_words = elapsed + BETWEEN;
            let left = terminal::left(elapsed, state.done as f64 / self.total.max(1) as f64);
            terminal::remark(format!("{}: {} of {}{left}", self.name, state.done, self.total));
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Files that are being downloaded, one after the other.
pub struct Downloads {
    bar: Option<ProgressBar>,
    shown: String,
    started: Instant,
    next_words: Duration,
}

impl Default for Downloads {
    fn default() -> Self {
        Self::new()
    }
}

impl Downloads {
    /// None yet.
    pub fn new() -> Self {
        let bar = terminal::watched().then(|| {
            let style = "{msg:24} {bar:30} {bytes:>10} of {total_bytes:10} {bytes_per_sec} {eta}";
            let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(0).with_style(style)
        });
        Self { bar, shown: String::new(), started: Instant::now(), next_words: PATIENCE }
    }

    /// So much of a file is there.
    pub fn show(&mut self, file: &str, done: u64, total: u64) {
        let new = self.shown != file;
        if new {
            file.clone_into(&mut self.shown);
            (self.started, self.next_words) = (Instant::now(), PATIENCE);
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
        if elapsed > self.next_words {
            self.next_words = elapsed + BETWEEN;
            let left = terminal::left(elapsed, done as f64 / total.max(1) as f64);
            let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
            terminal::remark(format!("{file}: {} of {} MB{left}", megabytes(done), megabytes(total)));
        }
    }
}

impl Drop for Downloads {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
