//! Everything that takes time: without the interpreter's lock, stopped by Ctrl-C, and without ever aborting Python.

use crate::error::to_python;
use anyhow::Result;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use regard::progress::{Stoppable, Stopped};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Set by Ctrl-C while the main thread works here.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Set when the interpreter ends: it stops the work of other threads, which Python sends no signals to.
static ENDING: AtomicBool = AtomicBool::new(false);
/// The pieces of work that have begun without a watch for signals, as on other threads, and have not come back to Python.
static ELSEWHERE: AtomicUsize = AtomicUsize::new(0);
/// How long the interpreter waits at its end for work on other threads to stop.
const LONGEST_END: Duration = Duration::from_secs(10);

/// Runs a piece of work with the interpreter's lock released. The work stops soon after the flag is set.
///
/// Failures become `regard.Error` with the library's sentence, and so do panics; Ctrl-C becomes what Python's own handler
/// makes of it, usually `KeyboardInterrupt`.
pub fn work<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&'static AtomicBool) -> Result<T> + Send,
) -> PyResult<T> {
    if ENDING.load(Ordering::SeqCst) {
        return Err(crate::error::problem("Python is ending: nothing new is begun"));
    }
    let watch = signals::Watch::begin();
    let elsewhere = watch.is_none().then(Elsewhere::begin);
    // What came before, while nobody set the flag: an earlier piece of the same call may have ended meanwhile.
    py.check_signals()?;
    let flag = if watch.is_some() { &INTERRUPTED } else { &ENDING };
    let done = py.detach(|| {
        let done = {
            let _stoppable = Stoppable::by(flag);
            catch_unwind(AssertUnwindSafe(|| work(flag)))
        };
        if elsewhere.is_some() {
            stay_if_ending();
        }
        done
    });
    drop((watch, elsewhere));
    match done {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            py.check_signals()?;
            Err(to_python(&error))
        }
        Err(payload) if payload.is::<Stopped>() => {
            py.check_signals()?;
            Err(PyKeyboardInterrupt::new_err(()))
        }
        Err(payload) => {
            let said = payload.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(crate::error::Error::new_err(format!("a defect in regard, please report it: {said}")))
        }
    }
}

/// A piece of work that the end of the interpreter waits for.
///
/// Threads that come back while the interpreter ends, or call a function of Python then, abort the process. So the end is announced
/// first ([`end_work`]): what works stops, and stays where it is.
struct Elsewhere;

impl Elsewhere {
    fn begin() -> Self {
        ELSEWHERE.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // In a process that was forked meanwhile there may be less work than was begun.
        let _ = ELSEWHERE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
    }
}

/// Ends the part of a thread in a process that ends: it does not come back to Python.
fn stay_if_ending() {
    if ENDING.load(Ordering::SeqCst) && !signals::is_main() {
        drop(Elsewhere);
        loop {
            std::thread::park();
        }
    }
}

/// Stops the work of other threads because the interpreter ends, and waits until none of them would come back to it.
#[pyfunction]
pub fn end_work(py: Python<'_>) {
    ENDING.store(true, Ordering::SeqCst);
    let started = Instant::now();
    while ELSEWHERE.load(Ordering::SeqCst) > 0 && started.elapsed() < LONGEST_END {
        py.detach(|| std::thread::sleep(Duration::from_millis(1)));
    }
}

/// In a process that was forked: no other thread works or watches for signals here, and the helpers of the engine are not here either.
#[pyfunction]
pub fn after_fork() {
    ELSEWHERE.store(0, Ordering::SeqCst);
    signals::forget();
    regard_tensor::set_threads(1);
}

#[cfg(unix)]
mod signals {
    //! Python notes a signal and handles it when its bytecode goes on, which is too late for work that takes minutes. While
    //! the main thread works here, a handler in front of Python's sets the flag that the work reads.

    use super::INTERRUPTED;
    use std::mem::MaybeUninit;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// The handler that was there, Python's or another library's in front of it, while ours stands in front of both.
    static BEFORE: AtomicUsize = AtomicUsize::new(0);
    /// Whether that handler takes the signal's number alone, or what is known about it as well.
    static INFORMED: AtomicBool = AtomicBool::new(false);
    static WATCHED: AtomicBool = AtomicBool::new(false);

    /// The time in which Ctrl-C sets the flag.
    pub struct Watch(libc::sigaction);

    /// Whoever watched is not in this process.
    pub fn forget() {
        WATCHED.store(false, Ordering::Release);
    }

    type Plain = extern "C" fn(libc::c_int);
    type Informed = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

    extern "C" fn note(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        INTERRUPTED.store(true, Ordering::Relaxed);
        let before = BEFORE.load(Ordering::Relaxed);
        if before == 0 {
            return;
        }
        // SAFETY: it is the address of the handler that was installed before, which its flags said to be of this kind.
        unsafe {
            if INFORMED.load(Ordering::Relaxed) {
                std::mem::transmute::<usize, Informed>(before)(signal, info, context);
            } else {
                std::mem::transmute::<usize, Plain>(before)(signal);
            }
        }
    }

    impl Watch {
        /// Begins on the main thread, which alone handles signals in Python, unless it has begun or Ctrl-C is not Python's.
        pub fn begin() -> Option<Self> {
            if !is_main() || WATCHED.swap(true, Ordering::AcqRel) {
                return None;
            }
            INTERRUPTED.store(false, Ordering::Relaxed);
            let watch = Self::install();
            WATCHED.store(watch.is_some(), Ordering::Release);
            watch
        }

        fn install() -> Option<Self> {
            let mut before = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: `before` is a valid place for the settings that are read, and the new settings are a copy of them with
            // another handler, which touches atomics alone before it calls the one that was there.
            unsafe {
                if libc::sigaction(libc::SIGINT, std::ptr::null(), before.as_mut_ptr()) != 0 {
                    return None;
                }
                let before = before.assume_init();
                let handler = before.sa_sigaction;
                if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
                    return None;
                }
                BEFORE.store(handler, Ordering::Relaxed);
                INFORMED.store(before.sa_flags & libc::SA_SIGINFO != 0, Ordering::Relaxed);
                let mut ours = before;
                ours.sa_flags |= libc::SA_SIGINFO;
                ours.sa_sigaction = note as *const () as usize;
                (libc::sigaction(libc::SIGINT, &raw const ours, std::ptr::null_mut()) == 0)
                    .then_some(Self(before))
            }
        }
    }

    impl Drop for Watch {
        fn drop(&mut self) {
            // SAFETY: these are the settings that were in place before.
            unsafe {
                libc::sigaction(libc::SIGINT, &raw const self.0, std::ptr::null_mut());
            }
            WATCHED.store(false, Ordering::Release);
        }
    }

    #[cfg(target_os = "linux")]
    pub fn is_main() -> bool {
        // SAFETY: both only read numbers of this process.
        unsafe { libc::gettid() == libc::getpid() }
    }

    #[cfg(target_vendor = "apple")]
    pub fn is_main() -> bool {
        // SAFETY: it only reads which thread this is.
        unsafe { libc::pthread_main_np() == 1 }
    }

    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    pub fn is_main() -> bool {
        false
    }
}

#[cfg(not(unix))]
mod signals {
    //! Elsewhere Ctrl-C is handled when the work is done.

    pub struct Watch;

    impl Watch {
        pub fn begin() -> Option<Self> {
            None
        }
    }

    pub fn forget() {}

    pub fn is_main() -> bool {
        false
    }
}
