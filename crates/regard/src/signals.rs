//! Requests to stop: SIGINT (Ctrl-C), SIGTERM and SIGHUP set a flag, so that a run saves its state before it ends.
//!
//! The program then exits with 128 plus the signal's number, as a shell reports it: 130, 143 or 129. A second signal ends it
//! at once.

use crate::{ranks, terminal};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

/// The exit code of the signal that arrived last; that of Ctrl-C until one has.
static EXIT_CODE: AtomicU8 = AtomicU8::new(130);

/// Whether there is nothing to save.
static IDLE: AtomicBool = AtomicBool::new(false);

/// The exit code for a run that a signal stopped.
pub fn exit_code() -> u8 {
    EXIT_CODE.load(Ordering::Relaxed)
}

/// A flag that these signals set. The first call installs the handlers.
pub fn interrupt_flag() -> Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let flag = FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        // Without handlers a signal ends the program, which loses no more than the steps since the last state.
        let _ = listen(&flag);
        flag
    });
    Arc::clone(flag)
}

/// Says that nothing is left to save: a signal ends the program at once, and without a failure.
pub fn nothing_to_save() {
    IDLE.store(true, Ordering::Relaxed);
}

fn arrived(flag: &AtomicBool, code: u8) {
    if IDLE.load(Ordering::Relaxed) {
        std::process::exit(0);
    }
    EXIT_CODE.store(code, Ordering::Relaxed);
    if flag.swap(true, Ordering::Relaxed) {
        std::process::exit(i32::from(code));
    }
    if ranks::reports() {
        let again = if code == 130 { "; press again to end at once" } else { "" };
        terminal::remark(format!("\nfinishing this step and saving{again}"));
    }
}

/// Waits for signals on a thread of its own. The handlers are installed when this returns.
#[cfg(unix)]
fn listen(flag: &Arc<AtomicBool>) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let inside = runtime.enter();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let number = kind.as_raw_value();
        if kind == SignalKind::hangup() && is_ignored(number) {
            continue;
        }
        let (mut signals, flag) = (signal(kind)?, Arc::clone(flag));
        runtime.spawn(async move {
            while signals.recv().await.is_some() {
                arrived(&flag, 128 + number as u8);
            }
        });
    }
    drop(inside);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(())
}

/// Whether the program was started with a signal ignored: `nohup` does so with SIGHUP, and a run that a handler stopped
/// at logout would defeat its purpose. Only Linux reports this in a file; elsewhere SIGHUP is left alone.
#[cfg(unix)]
fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    match mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()) {
        Some(mask) => mask >> (number - 1) & 1 == 1,
        None => number == tokio::signal::unix::SignalKind::hangup().as_raw_value(),
    }
}

#[cfg(not(unix))]
fn listen(flag: &Arc<AtomicBool>) -> std::io::Result<()> {
    let (runtime, flag) =
        (tokio::runtime::Builder::new_current_thread().enable_io().build()?, Arc::clone(flag));
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                arrived(&flag, 130);
            }
        });
    })?;
    Ok(())
}
