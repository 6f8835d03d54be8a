//! The team: helpers that wait for jobs, spinning for a moment before they sleep.
//!
//! A job is published in one word: its number, how many threads it is for, and whether it may still be entered. Each helper
//! reads that word and answers in a cache line of its own, so that starting and ending a job never makes sixteen threads
//! change the same line one after another.

use super::claims::Next;
use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The most threads that a job may have.
pub(super) const MOST: usize = 256;

/// How long a helper spins before it parks, and after how long it lets other processes go first between two looks.
const PATIENCE: Duration = Duration::from_micros(200);
const POLITE: Duration = Duration::from_micros(50);

/// One thread's turn in a job.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    /// Which of the job's threads this is; 0 is the caller.
    pub own: usize,
    pub threads: usize,
    /// The job's number. Two jobs have the same only if all counters were reset in between.
    pub job: u32,
}

/// What each thread does in a job.
type Share = dyn Fn(Turn) + Sync;

/// The word that publishes a job: number (high half), threads, whether it may be entered (lowest bit).
fn word(job: u32, threads: usize) -> u64 {
    u64::from(job) << 32 | (threads as u64) << 1 | OPEN
}

const OPEN: u64 = 1;

fn job_of(word: u64) -> u32 {
    (word >> 32) as u32
}

fn threads_of(word: u64) -> usize {
    (word as u32 >> 1) as usize
}

/// What others know of a helper, in a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Helper {
    /// It may be reading the job.
    inside: AtomicBool,
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

#[repr(align(128))]
struct Published(AtomicU64);

pub(super) struct Team {
    published: Published,
    /// Written by the caller before a job is published, read by those inside.
    share: UnsafeCell<Option<*const Share>>,
    /// Held by the caller whose job is running.
    turn: Mutex<()>,
    sleepers: AtomicUsize,
    /// How many helpers have been started; 1 and up are theirs, 0 is the caller's.
    started: AtomicUsize,
    helpers: Box<[Helper]>,
    next: Box<[Next]>,
    panicked: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `share` is written only by the holder of `turn` while no helper is inside, and read only by helpers inside, who
// announce themselves before they check that the job is open; the closure behind it is `Sync`.
unsafe impl Sync for Team {}
// SAFETY: as above; the pointer is not used between jobs.
unsafe impl Send for Team {}

pub(super) fn team() -> &'static Team {
    static TEAM: OnceLock<Team> = OnceLock::new();
    TEAM.get_or_init(|| Team {
        published: Published(AtomicU64::new(0)),
        share: UnsafeCell::new(None),
        turn: Mutex::new(()),
        sleepers: AtomicUsize::new(0),
        started: AtomicUsize::new(0),
        helpers: (0..MOST).map(|_| Helper::default()).collect(),
        next: (0..MOST).map(|_| Next::default()).collect(),
        panicked: AtomicBool::new(false),
        panic: Mutex::new(None),
    })
}

impl Team {
    /// The counters of a job's stretches.
    pub fn next(&self) -> &[Next] {
        &self.next
    }

    /// Calls `share` on this thread and on up to `threads - 1` helpers; false, without having done anything, if the team is
    /// busy with another job.
    pub fn run(&'static self, threads: usize, share: &(dyn Fn(Turn) + Sync)) -> bool {
        let Ok(_turn) = self.turn.try_lock() else {
            return false;
        };
        let threads = self.start(threads.min(MOST));
        let mut job = job_of(self.published.0.load(Ordering::Relaxed)).wrapping_add(1);
        if job == 0 {
            // Numbers begin anew. Nobody is inside, so no counter may keep a number from the last time round.
            self.next.iter().for_each(Next::reset);
            job = 1;
        }
        // SAFETY: only the lifetime is erased; no helper uses the pointer after `close` below has returned.
        let share: &'static Share = unsafe { std::mem::transmute(share) };
        // SAFETY: `turn` is held, and the job before was closed: nobody reads.
        unsafe { *self.share.get() = Some(share) };
        let word = word(job, threads);
        self.published.0.store(word, Ordering::SeqCst);
        self.wake(0, threads);
        // The job must be closed even if the caller's own task panics.
        let outcome = catch_unwind(AssertUnwindSafe(|| share(Turn { own: 0, threads, job })));
        self.close(word, threads);
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

    /// Starts helpers until there are `threads` threads with the caller; returns how many there are. Only the holder of `turn`
    /// calls this. Where a thread cannot be had, the others do the work.
    fn start(&'static self, threads: usize) -> usize {
        let mut started = self.started.load(Ordering::Relaxed);
        while started + 1 < threads {
            let own = started + 1;
            let helper = thread::Builder::new().name(format!("regard-{own}")).spawn(move || self.help(own));
            let Ok(helper) = helper else { break };
            let _ = self.helpers[own].thread.set(helper.thread().clone());
            started = own;
            self.started.store(started, Ordering::Relaxed);
        }
        threads.min(started + 1)
    }

    /// Lets no more helpers in and waits for those inside.
    fn close(&self, word: u64, threads: usize) {
        self.published.0.store(word & !OPEN, Ordering::SeqCst);
        for helper in &self.helpers[1..threads.max(1)] {
            wait_until(|| !helper.inside.load(Ordering::SeqCst));
        }
    }

    fn help(&self, own: usize) {
        let helper = &self.helpers[own];
        let mut seen = 0;
        loop {
            let word = self.wait_for_job(own, seen);
            let (job, threads) = (job_of(word), threads_of(word));
            seen = job;
            // Announced first and checked second: a caller who closes the job in between sees this helper and waits.
            helper.inside.store(true, Ordering::SeqCst);
            if self.published.0.load(Ordering::SeqCst) == word {
                self.wake(own, threads);
                // SAFETY: see `Sync`: the job is open, and its caller waits for everyone inside.
                let share = unsafe { *self.share.get() };
                if let Some(share) = share {
                    // SAFETY: as above.
                    let turn = || unsafe { (*share)(Turn { own, threads, job }) };
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(turn)) {
                        *lock(&self.panic) = Some(panic);
                        self.panicked.store(true, Ordering::Relaxed);
                    }
                }
            }
            helper.inside.store(false, Ordering::Release);
        }
    }

    /// Wakes the two threads below this one in a tree of all threads of a job, if they sleep: waking takes a few
    /// microseconds each, too many for one thread to wake them all.
    fn wake(&self, own: usize, threads: usize) {
        if self.sleepers.load(Ordering::SeqCst) == 0 {
            return;
        }
        for below in [2 * own + 1, 2 * own + 2] {
            if below < threads
                && self.helpers[below].asleep.load(Ordering::SeqCst)
                && let Some(thread) = self.helpers[below].thread.get()
            {
                thread.unpark();
            }
        }
    }

    /// Waits for an open job other than `seen` that this helper has a part in.
    fn wait_for_job(&self, own: usize, seen: u32) -> u64 {
        let look = |order| {
            let word = self.published.0.load(order);
            (word & OPEN != 0 && job_of(word) != seen && own < threads_of(word)).then_some(word)
        };
        let start = Instant::now();
        loop {
            for _ in 0..64 {
                if let Some(word) = look(Ordering::Acquire) {
                    return word;
                }
                std::hint::spin_loop();
            }
            let waited = start.elapsed();
            if waited > PATIENCE {
                break;
            }
            if waited > POLITE {
                thread::yield_now();
            }
        }
        let helper = &self.helpers[own];
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        helper.asleep.store(true, Ordering::SeqCst);
        let word = loop {
            // Looked at after the announcement: a caller who published before it was seen here has seen it.
            if let Some(word) = look(Ordering::SeqCst) {
                break word;
            }
            thread::park();
        };
        helper.asleep.store(false, Ordering::SeqCst);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        word
    }
}

/// Spins until something holds; after a while other threads and processes may go first.
pub(crate) fn wait_until(holds: impl Fn() -> bool) {
    let mut spins = 0_u32;
    while !holds() {
        spins += 1;
        if spins < 2_000 { std::hint::spin_loop() } else { thread::yield_now() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
