//! Everything that takes time: without the interpreter's lock, stopped by Ctrl-C, and without ever aborting Python.

use crate::error::to_python;
use anyhow::Result;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use regard::progress::{Stoppable, Stopped};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;

/// Set by Ctrl-C while the main thread works here.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// For threads that Python sends no signals to.
static NEVER: AtomicBool = AtomicBool::new(false);

/// Runs a piece of work with the interpreter's lock released. The work stops soon after the flag is set.
///
/// Failures become `regard.Error` with the library's sentence, and so do panics; Ctrl-C becomes what Python's own handler
/// makes of it, usually `KeyboardInterrupt`.
pub fn work<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&'static AtomicBool) -> Result<T> + Send,
) -> PyResult<T> {
    let watch = signals::Watch::begin();
    // What came before, while nobody set the flag: an earlier piece of the same call may have ended meanwhile.
    py.check_signals()?;
    let flag = if watch.is_some() { &INTERRUPTED } else { &NEVER };
    let done = py.detach(|| {
        let _stoppable = Stoppable::by(flag);
        catch_unwind(AssertUnwindSafe(|| work(flag)))
    });
    drop(watch);
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

/// In a process that was forked: nobody else watches for signals here, and the helpers of the engine are not here either.
#[pyfunction]
pub fn after_fork() {
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

    /// Python's handler, while ours stands in front of it.
    static PYTHON: AtomicUsize = AtomicUsize::new(0);
    static WATCHED: AtomicBool = AtomicBool::new(false);

    /// The time in which Ctrl-C sets the flag.
    pub struct Watch(libc::sigaction);

    /// Whoever watched is not in this process.
    pub fn forget() {
        WATCHED.store(false, Ordering::Release);
    }

    extern "C" fn note(signal: libc::c_int) {
        INTERRUPTED.store(true, Ordering::Relaxed);
        let python = PYTHON.load(Ordering::Relaxed);
        if python != 0 {
            // SAFETY: it is the address of the handler that was installed before, which takes the signal's number alone:
            // handlers of the other kind are left in place.
            let python: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(python) };
            python(signal);
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
                let plain = before.sa_flags & libc::SA_SIGINFO == 0;
                if !plain || handler == libc::SIG_DFL || handler == libc::SIG_IGN {
                    return None;
                }
                PYTHON.store(handler, Ordering::Relaxed);
                let mut ours = before;
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
    fn is_main() -> bool {
        // SAFETY: both only read numbers of this process.
        unsafe { libc::gettid() == libc::getpid() }
    }

    #[cfg(target_vendor = "apple")]
    fn is_main() -> bool {
        // SAFETY: it only reads which thread this is.
        unsafe { libc::pthread_main_np() == 1 }
    }

    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    fn is_main() -> bool {
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
}
