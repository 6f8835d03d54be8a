//! The time and memory of a pass, whatever else the machine is doing.
//!
//! Time is the processor time of one thread, where the system reports it (Linux), so that other programs that run at the same
//! time do not count. Elsewhere it is wall-clock time.

use anyhow::Result;
use regard_nn::tensor::{pool, set_threads, threads};
use std::time::{Duration, Instant};

/// What a pass takes.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    /// The median time of a pass, on one thread.
    pub milliseconds: f64,
    /// The most memory in use at one time, beyond what was in use before.
    pub megabytes: f64,
}

/// A pass is repeated at least so often.
const LEAST_PASSES: usize = 3;

/// Repeats a pass until it has taken as much time as patience allows. Nothing else may run in this program meanwhile.
pub fn spend<T>(patience: Duration, pass: impl Fn() -> Result<T>) -> Result<Spent> {
    let _alone = OneThread::new();
    pool::trim();
    let before = pool::usage().used;
    // The first pass also warms caches and the memory pool.
    drop(pass()?);
    let megabytes = pool::usage().peak.saturating_sub(before) as f64 / 1e6;
    let clock = Clock::new();
    let begun = clock.read();
    let mut passes: Vec<Duration> = Vec::new();
    loop {
        let before = clock.read();
        drop(pass()?);
        let now = clock.read();
        passes.push(now.saturating_sub(before));
        let taken = now.saturating_sub(begun);
        // The system's count moves in ticks: it may stand still for a short pass.
        if passes.len() >= LEAST_PASSES && taken >= patience && !taken.is_zero() {
            // The mean where passes are shorter than a tick, the median where each can be told from the others.
            passes.sort_unstable();
            let median = passes[passes.len() / 2];
            let mean = taken / u32::try_from(passes.len()).unwrap_or(u32::MAX);
            let pass = if passes[0].is_zero() { mean } else { median };
            return Ok(Spent { milliseconds: pass.as_secs_f64() * 1e3, megabytes });
        }
    }
}

/// The time this thread has spent on a processor, or the time on the wall.
enum Clock {
    Processor,
    Wall(Instant),
}

impl Clock {
    fn new() -> Self {
        match on_processor() {
            Some(_) => Self::Processor,
            None => Self::Wall(Instant::now()),
        }
    }

    fn read(&self) -> Duration {
        match self {
            Self::Processor => on_processor().unwrap_or_default(),
            Self::Wall(begun) => begun.elapsed(),
        }
    }
}

/// As Linux counts it, in nanoseconds; none where it does not.
fn on_processor() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: u64 = text.split_whitespace().next()?.parse().ok()?;
    (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds))
}

/// Lets kernels use one thread as long as it lives.
struct OneThread(usize);

impl OneThread {
    fn new() -> Self {
        let before = threads();
        set_threads(1);
        Self(before)
    }
}

impl Drop for OneThread {
    fn drop(&mut self) {
        set_threads(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_run_until_patience_ends() -> Result<()> {
        let count = std::cell::Cell::new(0_u32);
        let pass = || {
            count.set(count.get() + 1);
            Ok((0..2_000_u64).map(std::hint::black_box).sum::<u64>())
        };
        let spent = spend(Duration::from_millis(2), pass)?;
        assert!(
            count.get() as usize > LEAST_PASSES && spent.milliseconds > 0.0,
            "{spent:?} in {}",
            count.get()
        );
        Ok(())
    }
}
