//! How far a plan of experiments has come, and how long it will still take.
//!
//! Every experiment states how long it should take on two cores. The time left is what is left of the plan, at the pace
//! of what is done.

use crate::terminal;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A bar over the whole plan on a terminal; a line now and then elsewhere.
pub struct Progress {
    bar: Option<ProgressBar>,
    /// What the whole plan should take, in seconds.
    planned: f64,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    name: String,
    /// What the finished experiments should have taken.
    before: f64,
    /// What this one should take.
    expected: f64,
    /// The largest share of it that was reached; it never goes back when more parts become known.
    share: f64,
    parts: usize,
    done: usize,
    /// When to say something next, counted from the start.
    next_words: Option<Duration>,
}

impl Progress {
    /// A plan that should take so many seconds.
    pub fn new(planned: f64) -> Self {
        let bar = terminal::watched().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}");
            let bar =
                ProgressBar::new(1000).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        let state = State { next_words: Some(Duration::from_secs(2)), ..State::default() };
        Self { bar, planned, started: Instant::now(), state: Mutex::new(state) }
    }

    /// Nobody watches.
    pub fn silent() -> Self {
        let state = State { next_words: Some(Duration::MAX), ..State::default() };
        Self { bar: None, planned: 1.0, started: Instant::now(), state: Mutex::new(state) }
    }

    /// The next experiment begins.
    pub fn begin(&self, name: &str, expected: f64) {
        self.change(|state| {
            state.before += state.expected;
            *state = State {
                name: name.to_owned(),
                before: state.before,
                expected,
                next_words: state.next_words,
                ..State::default()
            };
        });
    }

    /// So many more parts are to be done.
    pub fn expect(&self, parts: usize) {
        self.change(|state| state.parts += parts);
    }

    /// A part is done.
    pub fn done(&self) {
        self.change(|state| state.done += 1);
    }

    /// A line of results or a remark, without disturbing the bar.
    pub fn suspend(&self, say: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }

    /// The plan is done.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        // The last tenth is for what comes after the parts: figures, files.
        let share = 0.9 * state.done as f64 / state.parts.max(1) as f64;
        state.share = state.share.max(share);
        let reached = (state.before + state.share * state.expected) / self.planned.max(1e-9);
        let text = format!(
            "{}, part {} of {}{}",
            state.name,
            state.done,
            state.parts,
            terminal::left(self.started.elapsed(), reached)
        );
        if let Some(bar) = &self.bar {
            bar.set_position((1000.0 * reached) as u64);
            bar.set_message(text);
        } else if state.next_words.is_none_or(|next| self.started.elapsed() > next) {
            state.next_words = Some(self.started.elapsed() + Duration::from_secs(10));
            terminal::remark(format!("{:>3.0} %  {text}", 100.0 * reached));
        }
    }
}
