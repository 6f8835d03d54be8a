//! Threads for kernels: a team that waits a moment before it sleeps.
//!
//! The products inside a small transformer take tens of microseconds. Waking a sleeping thread takes as long, so
//! helpers spin for a short while after each job before they park (`team.rs`). One job runs at a time; whoever finds the
//! team busy (a nested job, or a second caller) does its own work alone.
//!
//! Results do not depend on any of this: jobs are cut into tasks by the shape of the problem, each task writes its own
//! part, and sums across tasks are taken in the order of the tasks. Which thread does which task (`claims.rs`) is left
//! to chance.

mod claims;
mod team;

use claims::Claims;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use team::{MOST, Turn, team};

pub(crate) use team::wait_until;

/// Runs `task(0) … task(count - 1)`, in any order, on as many threads as there are.
pub(crate) fn run(count: usize, task: impl Fn(usize) + Sync) {
    run_with(count, || (), |(), index| task(index));
}

/// The same for tasks that need working memory: `prepare` is called once on each thread that takes part.
pub(crate) fn run_with<W>(count: usize, prepare: impl Fn() -> W + Sync, task: impl Fn(&mut W, usize) + Sync) {
    run_with_then(count, prepare, task, 0, |_| ());
}

/// The same, and `next(0) … next(more - 1)` by threads that find no task any more: what the job after this one needs, done while
/// others finish the last tasks.
pub(crate) fn run_with_then<W>(
    count: usize,
    prepare: impl Fn() -> W + Sync,
    task: impl Fn(&mut W, usize) + Sync,
    more: usize,
    next: impl Fn(usize) + Sync,
) {
    if count == 0 {
        return (0..more).for_each(next);
    }
    let threads = threads().min(count.max(more));
    let taken = AtomicUsize::new(0);
    let shared = |turn: Turn| {
        let mut claims = Claims::new(team().next(), count, turn).peekable();
        if claims.peek().is_some() {
            let mut work = prepare();
            claims.for_each(|index| task(&mut work, index));
        }
        while taken.load(Ordering::Relaxed) < more {
            let index = taken.fetch_add(1, Ordering::Relaxed);
            if index < more {
                next(index);
            }
        }
    };
    if threads > 1 && u32::try_from(count).is_ok() && team().run(threads, &shared) {
        return;
    }
    let mut work = prepare();
    (0..count).for_each(|index| task(&mut work, index));
    (0..more).for_each(next);
}

/// Tasks in lanes: `task(lane, 0)`, `task(lane, 1)` … begin in this order, but several of a lane may run at the same time, and a
/// task may wait for one that began before it in its lane. A thread stays in its lane while there is something to begin.
pub(crate) fn run_lanes<W>(
    lanes: usize,
    steps: usize,
    prepare: impl Fn() -> W + Sync,
    task: impl Fn(&mut W, usize, usize) + Sync,
) {
    if lanes * steps == 0 {
        return;
    }
    let next: Vec<AtomicUsize> = (0..lanes).map(|_| AtomicUsize::new(0)).collect();
    let shared = |turn: Turn| {
        let mut work = None;
        for passed in 0..lanes {
            let lane = (turn.own * lanes / turn.threads + passed) % lanes;
            // Looked at before it is changed: most lanes are over when a thread comes to help.
            while next[lane].load(Ordering::Relaxed) < steps {
                let step = next[lane].fetch_add(1, Ordering::Relaxed);
                if step < steps {
                    task(work.get_or_insert_with(&prepare), lane, step);
                }
            }
        }
    };
    let threads = threads().min(lanes * steps);
    if threads <= 1 || !team().run(threads, &shared) {
        shared(Turn { own: 0, threads: 1, job: 0 });
    }
}

/// The most threads a kernel may use, the calling one included, up to 256. Results never depend on it.
///
/// The default is what the process may use (the cores of its affinity mask, less if a container allows it less time), or the
/// environment variable `REGARD_THREADS`; `usize::MAX` returns to the default.
pub fn set_threads(threads: usize) {
    LIMIT.store(threads.max(1), Ordering::Relaxed);
}

/// How many threads kernels use now.
pub fn threads() -> usize {
    match LIMIT.load(Ordering::Relaxed) {
        usize::MAX => usual_threads(),
        limit => limit.min(MOST),
    }
}

static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// How many threads kernels use by default.
fn usual_threads() -> usize {
    static USUAL: OnceLock<usize> = OnceLock::new();
    *USUAL.get_or_init(|| {
        let wanted = std::env::var("REGARD_THREADS").ok().and_then(|text| text.parse().ok());
        // On Linux this counts the cores of the affinity mask, and no more than a control group's quota pays for.
        wanted.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).clamp(1, MOST)
    })
}

/// A slice that several tasks write to, each in its own places.
pub(crate) struct Shared<T> {
    start: *mut T,
    len: usize,
}

// SAFETY: access is only through `range` and `pointer`, whose callers promise disjoint places.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above; the pointer comes from a unique borrow that outlives the job.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    pub fn new(slice: &mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len() }
    }

    /// A part of the slice.
    ///
    /// # Safety
    /// No two parts that are alive at the same time may overlap, and the slice must outlive them.
    #[allow(clippy::mut_from_ref)] // the whole point: disjointness is the caller's promise
    pub unsafe fn range(&self, start: usize, len: usize) -> &mut [T] {
        assert!(start + len <= self.len, "a task may only write inside the slice");
        // SAFETY: in bounds by the assertion; unaliased by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }

    /// A part of the slice, to read.
    ///
    /// # Safety
    /// Nobody may write to it while it is alive, and the slice must outlive it.
    pub unsafe fn read(&self, start: usize, len: usize) -> &[T] {
        assert!(start + len <= self.len, "a task may only read inside the slice");
        // SAFETY: in bounds by the assertion; not written by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.start.add(start), len) }
    }

    /// The address of an element, for kernels that write with strides.
    pub fn pointer(&self, offset: usize) -> *mut T {
        assert!(offset <= self.len);
        self.start.wrapping_add(offset)
    }
}

/// Cuts `out` into chunks of `chunk` values and runs `task(index, chunk)` on each.
pub(crate) fn chunks(out: &mut [f32], chunk: usize, task: impl Fn(usize, &mut [f32]) + Sync) {
    let chunk = chunk.max(1);
    let len = out.len();
    let shared = Shared::new(out);
    run(len.div_ceil(chunk), |index| {
        let start = index * chunk;
        // SAFETY: chunk `index` covers `start .. start + chunk`, disjoint from all others.
        let part = unsafe { shared.range(start, chunk.min(len - start)) };
        task(index, part);
    });
}

/// How many rows of `width` values make a task of a fair size.
pub(crate) fn rows_per_task(width: usize) -> usize {
    (ELEMENTS_PER_TASK / width.max(1)).max(1)
}

/// How many values make a task of a fair size for an element-wise kernel: some microseconds of work.
pub(crate) const ELEMENTS_PER_TASK: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn every_task_runs_exactly_once() {
        for count in [0, 1, 2, 3, 100, 10_000] {
            let ran: Vec<AtomicU32> = (0..count).map(|_| AtomicU32::new(0)).collect();
            run(count, |i| {
                ran[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(ran.iter().all(|n| n.load(Ordering::Relaxed) == 1), "{count}");
        }
    }

    #[test]
    fn what_comes_next_runs_once_after_the_tasks_of_its_thread() {
        for (count, more) in [(0, 3), (1, 0), (1, 5), (7, 2), (100, 1000)] {
            let ran: Vec<AtomicU32> = (0..count + more).map(|_| AtomicU32::new(0)).collect();
            let one = |i: usize| {
                ran[i].fetch_add(1, Ordering::Relaxed);
            };
            run_with_then(count, || (), |(), i| one(i), more, |i| one(count + i));
            assert!(ran.iter().all(|n| n.load(Ordering::Relaxed) == 1), "{count} and {more}");
        }
    }

    #[test]
    fn jobs_may_nest_and_compete() {
        let total = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        run(8, |_| {
                            run(4, |_| {
                                total.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), 4 * 200 * 8 * 4);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_team_goes_on() {
        let outcome = catch_unwind(|| run(64, |i| assert!(i != 63, "task 63")));
        assert!(outcome.is_err());
        let total = AtomicUsize::new(0);
        run(64, |i| {
            total.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(total.load(Ordering::Relaxed), 63 * 64 / 2);
    }

    #[test]
    fn tasks_of_a_lane_begin_in_order() {
        let (lanes, steps) = (5, 40);
        let begun: Vec<AtomicUsize> = (0..lanes).map(|_| AtomicUsize::new(0)).collect();
        let ended: Vec<AtomicUsize> = (0..lanes).map(|_| AtomicUsize::new(0)).collect();
        run_lanes(
            lanes,
            steps,
            || (),
            |(), lane, step| {
                begun[lane].fetch_add(1, Ordering::SeqCst);
                // Whoever waits for the step before must not wait for ever.
                wait_until(|| ended[lane].load(Ordering::SeqCst) == step);
                assert!(begun[lane].load(Ordering::SeqCst) > step);
                ended[lane].store(step + 1, Ordering::SeqCst);
            },
        );
        assert!(ended.iter().all(|ended| ended.load(Ordering::SeqCst) == steps));
    }

    #[test]
    fn chunks_cover_everything() {
        let mut values = vec![0.0; 1003];
        chunks(&mut values, 10, |index, part| part.fill(index as f32));
        assert!(values.iter().enumerate().all(|(i, &x)| x == (i / 10) as f32));
    }
}
