//! How far a plan of experiments has come, and how long it will still take.
//!
//! Every experiment states how long it should take on two cores. The time left is what is left of the plan, at the pace
//! of what was done just now and of the training that goes on: parts that were done before and are read back take no time,
//! and say nothing about it.

use crate::terminal;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};
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
    /// What the finished experiments should have taken, and how much of it is parts that were read back.
    before: f64,
    before_read_back: f64,
    /// What this one should take.
    expected: f64,
    /// The largest share of the plan that was shown; it never goes back when more parts become known.
    shown: f64,
    parts: usize,
    done: usize,
    /// How many of those that are done were read back.
    read_back: usize,
    /// How far the training was that is going on when it was first reported, and how far it is. A thread works at one part at a
    /// time.
    partly: HashMap<ThreadId, (f64, f64)>,
    /// What the training of parts that are done had behind it when it was first reported, in parts.
    trained_before: f64,
    /// When to say something next, counted from the start.
    next_words: Option<Duration>,
}

/// The share of an experiment that is parts. The last tenth is for what comes after them: figures, files.
const PARTS: f64 = 0.9;
/// The share of a part that is training, where it trains a model.
const TRAINING: f64 = 0.9;

impl State {
    /// What so many parts of this experiment should take.
    fn worth(&self, parts: f64) -> f64 {
        PARTS * self.expected * parts / self.parts.max(1) as f64
    }

    /// The next experiment begins; what this one had left is done.
    fn begin(&mut self, name: &str, expected: f64) {
        *self = State {
            name: name.to_owned(),
            before: self.before + self.expected,
            before_read_back: self.before_read_back + self.worth(self.parts_before()),
            expected,
            shown: self.shown,
            next_words: self.next_words,
            ..State::default()
        };
    }

    /// What of the parts was there before.
    fn parts_before(&self) -> f64 {
        self.read_back as f64
            + self.trained_before
            + self.partly.values().map(|(first, _)| first).sum::<f64>()
    }

    /// The share of a plan that is done.
    fn reached(&self, planned: f64) -> f64 {
        let parts = self.done as f64 + self.partly.values().map(|(_, now)| now).sum::<f64>();
        ((self.before + self.worth(parts)) / planned.max(1e-9)).clamp(0.0, 1.0)
    }

    /// The seconds that are left of a plan after so many; nothing while too little was done to tell.
    fn left(&self, planned: f64, elapsed: f64) -> Option<f64> {
        let reached = self.reached(planned);
        let read_back = (self.before_read_back + self.worth(self.parts_before())) / planned.max(1e-9);
        let worked = reached - read_back;
        (worked >= terminal::LEAST_DONE).then(|| elapsed * (1.0 - reached) / worked)
    }
}

impl Progress {
    /// A plan that should take so many seconds.
    pub fn new(planned: f64) -> Self {
        let bar = terminal::is_terminal().then(|| {
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
        self.change(|state| state.begin(name, expected));
    }

    /// So many more parts are to be done.
    pub fn expect(&self, parts: usize) {
        self.change(|state| state.parts += parts);
    }

    /// The model that this thread's part needs is trained to this share.
    pub fn partly(&self, share: f64) {
        self.change(|state| {
            let share = TRAINING * share;
            state.partly.entry(thread::current().id()).or_insert((share, share)).1 = share;
        });
    }

    /// A part is done.
    pub fn done(&self) {
        self.change(|state| {
            let (first, _) = state.partly.remove(&thread::current().id()).unwrap_or_default();
            state.trained_before += first;
            state.done += 1;
        });
    }

    /// A part was done before, and is read back.
    pub fn read_back(&self) {
        self.change(|state| {
            state.done += 1;
            state.read_back += 1;
        });
    }

    /// How many parts are done, and how many of those were read back.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.done, state.read_back)
    }

    /// The share of the plan that is done.
    #[cfg(test)]
    pub(super) fn reached(&self) -> f64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).reached(self.planned)
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
        state.shown = state.shown.max(state.reached(self.planned));
        let elapsed = self.started.elapsed();
        let left = state.left(self.planned, elapsed.as_secs_f64()).map(terminal::time_left);
        let State { name, done, parts, shown, .. } = &*state;
        let (text, shown) = (format!("{name}{}{}", counted(*done, *parts), left.unwrap_or_default()), *shown);
        if let Some(bar) = &self.bar {
            bar.set_position((1000.0 * shown) as u64);
            bar.set_message(text);
        } else if state.next_words.is_none_or(|next| elapsed > next) {
            state.next_words = Some(elapsed + Duration::from_secs(10));
            terminal::remark(format!("{:>3.0} %  {text}", 100.0 * shown));
        }
    }
}

/// How many parts are done. Before an experiment has listed its parts there is nothing to count.
fn counted(done: usize, parts: usize) -> String {
    if parts == 0 { String::new() } else { format!(", {done} of {parts} parts") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_once_there_are_some() {
        assert_eq!((counted(0, 0), counted(0, 3)), (String::new(), ", 0 of 3 parts".to_owned()));
    }

    /// An experiment that should take so long, of whose parts some were read back and some ran.
    fn state(expected: f64, parts: usize, read_back: usize, ran: usize) -> State {
        State { expected, parts, read_back, done: read_back + ran, ..State::default() }
    }

    #[test]
    fn the_time_left_goes_by_the_pace_of_the_parts_that_ran() {
        // Eight parts of ten were there already; the ninth took ten seconds. One more and what comes after are left.
        let left = state(100.0, 10, 8, 1).left(100.0, 10.0).unwrap();
        assert!((left - 10.0 * (0.1 + 0.09) / 0.09).abs() < 1e-9, "{left}");
        // The same without anything read back.
        let left = state(100.0, 10, 0, 9).left(100.0, 90.0).unwrap();
        assert!((left - 90.0 * 0.19 / 0.81).abs() < 1e-9, "{left}");
    }

    #[test]
    fn experiments_that_were_read_back_say_nothing_about_the_pace() {
        let mut state = state(90.0, 30, 30, 0);
        state.begin("next", 10.0);
        assert_eq!(state.reached(100.0), 0.9);
        state.parts = 2;
        state.done = 1;
        // Of the first one, only figures and files took time: 9 of the plan's seconds, and 4.5 of the second one.
        let left = state.left(100.0, 13.5).unwrap();
        assert!((left - 5.5).abs() < 1e-9, "{left}");
    }

    #[test]
    fn training_counts_before_its_part_is_done_and_not_after() {
        let progress = Progress { planned: 10.0, ..Progress::silent() };
        let reached = || progress.reached();
        progress.begin("two models", 10.0);
        progress.expect(2);
        progress.partly(0.5);
        assert!((reached() - PARTS * TRAINING * 0.25).abs() < 1e-9);
        thread::scope(|scope| scope.spawn(|| progress.partly(1.0)).join().unwrap());
        assert!((reached() - PARTS * TRAINING * 0.75).abs() < 1e-9, "each thread has its own");
        progress.done();
        assert!((reached() - PARTS * (0.5 + TRAINING * 0.5)).abs() < 1e-9);
    }

    #[test]
    fn training_that_was_there_already_says_nothing_about_the_pace() {
        let progress = Progress { planned: 10.0, ..Progress::silent() };
        let left = || progress.state.lock().unwrap().left(10.0, 9.0);
        progress.begin("two models", 10.0);
        progress.expect(2);
        // A model that is read back: nine tenths of its part are no work of now, and too little is left to tell.
        progress.partly(1.0);
        assert_eq!(left(), None);
        progress.done();
        // One that goes on from its middle.
        progress.partly(0.5);
        progress.partly(1.0);
        let worked = PARTS * (1.0 - TRAINING + TRAINING * 0.5) / 2.0;
        let reached = PARTS * (1.0 + TRAINING) / 2.0;
        assert!((left().unwrap() - 9.0 * (1.0 - reached) / worked).abs() < 1e-9, "{:?}", left());
    }

    #[test]
    fn nothing_is_said_about_the_time_left_before_anything_ran() {
        assert_eq!(state(100.0, 10, 0, 0).left(100.0, 5.0), None);
        assert_eq!(state(100.0, 10, 9, 0).left(100.0, 5.0), None);
    }

    #[test]
    fn the_time_left_is_never_negative_and_always_a_number() {
        for (planned, expected) in [(0.0, 0.0), (0.0, 9.0), (1.0, 0.0), (1.0, 9.0), (9.0, 1.0), (9.0, 9.0)] {
            for (parts, read_back, ran) in [(0, 0, 0), (1, 0, 1), (1, 1, 0), (7, 0, 3), (7, 5, 2), (7, 7, 0)]
            {
                let mut state = state(expected, parts, read_back, ran);
                for _ in 0..3 {
                    for elapsed in [0.0, 1e-9, 3.0, 1e6] {
                        let left = state.left(planned, elapsed).unwrap_or(0.0);
                        assert!(left.is_finite() && left >= 0.0, "{left}");
                    }
                    assert!((0.0..=1.0).contains(&state.reached(planned)));
                    // More than the plan knew of.
                    state.begin("again", expected);
                    (state.parts, state.done) = (parts, ran);
                }
            }
        }
    }

    #[test]
    fn parts_that_become_known_later_lengthen_the_time_left_and_not_the_bar() {
        let progress = Progress { planned: 10.0, ..Progress::silent() };
        let shown = || progress.state.lock().unwrap().shown;
        let left = || progress.state.lock().unwrap().left(10.0, 9.0).unwrap();
        progress.begin("two stages", 10.0);
        progress.expect(2);
        progress.done();
        progress.done();
        assert_eq!(shown(), PARTS);
        assert!((left() - 1.0).abs() < 1e-9);
        progress.expect(2);
        assert_eq!(shown(), PARTS, "a bar does not go back");
        assert!((left() - 11.0).abs() < 1e-9, "but half of the parts are still to be done");
    }
}
