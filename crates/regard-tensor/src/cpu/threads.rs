//! Threads for kernels: a team that waits a moment before it sleeps.
//!
//! The products inside a small transformer take tens of microseconds. Waking a sleeping thread takes as long, so
//! helpers spin for a short while after each job before they park. One job runs at a time; whoever finds the
//! team busy (a nested job, or a second caller) does its own work alone.
//!
//! Each thread first takes the tasks of its own stretch of a job, then helps with the others'. Operations on the same
//! rows thus mostly meet the same core, whose cache still holds them; cores that do not share a cache would otherwise
//! spend more time passing lines to each other than computing.
//!
//! Results do not depend on any of this: jobs are cut into tasks by the shape of the problem, each task writes its own
//! part, and sums across tasks are taken in the order of the tasks.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a helper spins before it parks.
const PATIENCE: Duration = Duration::from_micros(200);

/// Runs `task(0) … task(count - 1)`, in any order, on as many threads as there are.
pub(crate) fn run(count: usize, task: impl Fn(usize) + Sync) {
    run_with(count, || (), |(), index| task(index));
}

/// The same for tasks that need working memory: `prepare` is called once on each thread that takes part.
pub(crate) fn run_with<W>(count: usize, prepare: impl Fn() -> W + Sync, task: impl Fn(&mut W, usize) + Sync) {
    if count == 0 {
        return;
    }
    let alone = || {
        let mut work = prepare();
        (0..count).for_each(|index| task(&mut work, index));
    };
    if count == 1 || limit() <= 1 {
        return alone();
    }
    let shared = |claims: Claims| {
        let mut claims = claims.peekable();
        if claims.peek().is_some() {
            let mut work = prepare();
            claims.for_each(|index| task(&mut work, index));
        }
    };
    if !team().run(count, &shared) {
        alone();
    }
}

/// The most threads a kernel may use, the calling one included. Results never depend on it.
///
/// The default is the number of cores, or the environment variable `REGARD_THREADS`.
pub fn set_threads(threads: usize) {
    LIMIT.store(threads.max(1), Ordering::Relaxed);
}

/// How many threads kernels use now.
pub fn threads() -> usize {
    limit().min(team().helpers + 1)
}

static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

fn limit() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

/// What each thread does in a job: take indices from its claims until there are none.
type Share = dyn Fn(Claims) + Sync;

/// The next unclaimed index of each thread's stretch of a job, each in a cache line of its own.
#[repr(align(128))]
struct Next(AtomicUsize);

/// Indices claimed by one thread: first those of its own stretch, then what others have left.
struct Claims<'a> {
    next: &'a [Next],
    count: usize,
    own: usize,
    passed: usize,
}

impl Iterator for Claims<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let threads = self.next.len();
        while self.passed < threads {
            let stretch = (self.own + self.passed) % threads;
            let index = self.next[stretch].0.fetch_add(1, Ordering::Relaxed);
            if index < (stretch + 1) * self.count / threads {
                return Some(index);
            }
            self.passed += 1;
        }
        None
    }
}

/// A job. The pointer is erased to `'static`; `Team::run` does not return before every helper has left the job.
#[derive(Clone, Copy)]
struct Job {
    share: *const Share,
    count: usize,
}

/// `state` packs a job number (high half), whether helpers may still enter (bit 31) and how many are inside.
const OPEN: u64 = 1 << 31;
const INSIDE: u64 = OPEN - 1;

struct Team {
    helpers: usize,
    /// Held by the caller whose job is running.
    turn: Mutex<()>,
    state: AtomicU64,
    next: Vec<Next>,
    job: Mutex<Option<SendJob>>,
    sleepers: AtomicUsize,
    asleep: Mutex<()>,
    wake: Condvar,
    panicked: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

#[derive(Clone, Copy)]
struct SendJob(Job);
// SAFETY: the task behind the pointer is `Sync`, and `Team::run` keeps it alive while any helper can reach it.
unsafe impl Send for SendJob {}

fn team() -> &'static Team {
    static TEAM: OnceLock<&'static Team> = OnceLock::new();
    TEAM.get_or_init(|| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let asked = std::env::var("REGARD_THREADS").ok().and_then(|text| text.parse().ok());
        let helpers = asked.unwrap_or(cores).clamp(1, 256) - 1;
        let team: &'static Team = Box::leak(Box::new(Team {
            helpers,
            turn: Mutex::new(()),
            state: AtomicU64::new(0),
            next: (0..=helpers).map(|_| Next(AtomicUsize::new(0))).collect(),
            job: Mutex::new(None),
            sleepers: AtomicUsize::new(0),
            asleep: Mutex::new(()),
            wake: Condvar::new(),
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
        }));
        for index in 0..helpers {
            // Where a thread cannot be had, the callers do the work themselves.
            let _ = thread::Builder::new().name(format!("regard-{index}")).spawn(move || team.help(index));
        }
        team
    })
}

impl Team {
    /// Runs a job on all threads; false, without having done anything, if the team is busy.
    fn run(&self, count: usize, share: &(dyn Fn(Claims) + Sync)) -> bool {
        if self.helpers == 0 {
            return false;
        }
        let Ok(_turn) = self.turn.try_lock() else {
            return false;
        };
        // SAFETY: only the lifetime is erased; no helper uses the pointer after `close` below has returned.
        let share: &'static Share = unsafe { std::mem::transmute(share) };
        *lock(&self.job) = Some(SendJob(Job { share, count }));
        for (stretch, next) in self.next.iter().enumerate() {
            next.0.store(stretch * count / self.next.len(), Ordering::Relaxed);
        }
        let number = (self.state.load(Ordering::Relaxed) >> 32) + 1;
        self.state.store(number << 32 | OPEN, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.asleep));
            self.wake.notify_all();
        }
        // The job must be closed even if the caller's own task panics.
        let outcome = catch_unwind(AssertUnwindSafe(|| share(self.claims(count, 0))));
        self.close();
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
        if self.panicked.swap(false, Ordering::Relaxed)
            && let Some(panic) = lock(&self.panic).take()
        {
            resume_unwind(panic);
        }
        true
    }

    fn claims(&self, count: usize, own: usize) -> Claims<'_> {
        Claims { next: &self.next, count, own, passed: 0 }
    }

    /// Lets no more helpers in and waits for those inside.
    fn close(&self) {
        self.state.fetch_and(!OPEN, Ordering::SeqCst);
        let mut spins = 0_u32;
        while self.state.load(Ordering::Acquire) & INSIDE != 0 {
            spins += 1;
            if spins < 10_000 { std::hint::spin_loop() } else { thread::yield_now() }
        }
    }

    fn help(&self, index: usize) {
        let mut seen = 0;
        loop {
            let state = self.wait_for_job(seen);
            seen = state >> 32;
            if index + 1 >= limit() {
                continue;
            }
            if self.enter(state) {
                let job = *lock(&self.job);
                if let Some(SendJob(job)) = job {
                    let claims = self.claims(job.count, index + 1);
                    // SAFETY: see `Job`: the caller waits for everyone who entered.
                    let outcome = catch_unwind(AssertUnwindSafe(|| unsafe { (*job.share)(claims) }));
                    if let Err(panic) = outcome {
                        *lock(&self.panic) = Some(panic);
                        self.panicked.store(true, Ordering::Relaxed);
                    }
                }
                self.state.fetch_sub(1, Ordering::Release);
            }
        }
    }

    /// Counts this helper in, unless the job has been closed (or replaced) meanwhile.
    fn enter(&self, mut state: u64) -> bool {
        let number = state >> 32;
        while state >> 32 == number && state & OPEN != 0 {
            match self.state.compare_exchange_weak(state, state + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    fn wait_for_job(&self, seen: u64) -> u64 {
        let is_new = |state: u64| state >> 32 != seen && state & OPEN != 0;
        let start = Instant::now();
        loop {
            for _ in 0..64 {
                let state = self.state.load(Ordering::Acquire);
                if is_new(state) {
                    return state;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() > PATIENCE {
                break;
            }
        }
        let mut guard = lock(&self.asleep);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        loop {
            let state = self.state.load(Ordering::SeqCst);
            if is_new(state) {
                self.sleepers.fetch_sub(1, Ordering::SeqCst);
                return state;
            }
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn chunks_cover_everything() {
        let mut values = vec![0.0; 1003];
        chunks(&mut values, 10, |index, part| part.fill(index as f32));
        assert!(values.iter().enumerate().all(|(i, &x)| x == (i / 10) as f32));
    }
}
