//! Which thread does which task.
//!
//! A job's tasks lie in a row that is cut into one stretch a thread. Each thread first takes the tasks of its own stretch, then
//! helps with the others'. Operations on the same rows thus mostly meet the same core, whose cache still holds them, and a
//! thread whose core is slow or busy elsewhere delays the others by at most one task.

use super::team::Turn;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many tasks of a stretch have been taken, with the number of the job that this is about; in a cache line of its own.
/// A counter that shows another job stands for 0, so that a job can begin without touching all counters.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Next(AtomicU64);

impl Next {
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The next task of a stretch of `len`, if one is left.
    fn take(&self, job: u32, len: usize) -> Option<usize> {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let taken = if (seen >> 32) as u32 == job { seen as u32 } else { 0 };
            if taken as usize >= len {
                return None;
            }
            let now = u64::from(job) << 32 | u64::from(taken + 1);
            match self.0.compare_exchange_weak(seen, now, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(taken as usize),
                Err(other) => seen = other,
            }
        }
    }
}

/// Tasks taken by one thread: first those of its own stretch, then what others have left.
pub(super) struct Claims<'a> {
    next: &'a [Next],
    count: usize,
    turn: Turn,
    passed: usize,
}

impl<'a> Claims<'a> {
    /// Of `count` tasks, fewer than 2³².
    pub fn new(next: &'a [Next], count: usize, turn: Turn) -> Self {
        Self { next, count, turn, passed: 0 }
    }
}

impl Iterator for Claims<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let Turn { own, threads, job } = self.turn;
        while self.passed < threads {
            let stretch = (own + self.passed) % threads;
            let (start, end) = (stretch * self.count / threads, (stretch + 1) * self.count / threads);
            if let Some(taken) = self.next[stretch].take(job, end - start) {
                return Some(start + taken);
            }
            self.passed += 1;
        }
        None
    }
}
