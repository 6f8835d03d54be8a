//! The time and memory of a pass, whatever else the machine is doing.
//!
//! Time is the processor time of one thread, where the system counts it (Unix), so that other programs that run at the same
//! time do not count. Elsewhere it is wall-clock time.

use anyhow::Result;
use regard_nn::tensor::{pool, set_threads, threads};
use std::time::Duration;

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
        if passes.len() >= LEAST_PASSES && taken >= patience {
            passes.sort_unstable();
            let median = passes[passes.len() / 2];
            return Ok(Spent { milliseconds: median.as_secs_f64() * 1e3, megabytes });
        }
    }
}

/// The time that this thread has spent on a processor, in nanoseconds as the system counts it.
#[cfg(unix)]
struct Clock;

#[cfg(unix)]
impl Clock {
    fn new() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the clock of other systems has a beginning")]
    fn read(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
    }
}

/// The time on the wall.
#[cfg(not(unix))]
struct Clock(std::time::Instant);

#[cfg(not(unix))]
impl Clock {
    fn new() -> Self {
        Self(std::time::Instant::now())
    }

    fn read(&self) -> Duration {
        self.0.elapsed()
    }
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

    /// A clock that moves in ticks would say 0, or the length of a tick.
    #[test]
    #[cfg(unix)]
    fn the_clock_tells_short_times_apart() {
        let clock = Clock::new();
        let begun = clock.read();
        let readings: std::collections::BTreeSet<Duration> =
            (0..1_000).map(|_| clock.read().saturating_sub(begun)).collect();
        assert!(readings.len() > 100, "{} different readings", readings.len());
    }
}
