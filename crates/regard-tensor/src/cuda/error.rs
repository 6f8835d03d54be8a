//! Errors of the CUDA device.

use cudarc::{cublaslt, driver, nvrtc};
use std::fmt::Display;

/// What went wrong on the way to a CUDA device or on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A shared library that is not installed, or not where the loader looks.
    #[error("CUDA: cannot load {library} ({reason}); {remedy}")]
    Library {
        /// Its file name.
        library: &'static str,
        /// What the loader said.
        reason: String,
        /// How to install it.
        remedy: &'static str,
    },
    /// A device number that this machine does not have.
    #[error("CUDA: there is no device {ordinal}, this machine has {count}")]
    NoDevice {
        /// The number requested.
        ordinal: usize,
        /// How many devices there are.
        count: usize,
    },
    /// A device too old for the kernels.
    #[error("CUDA: {name} has compute capability {}.{}, the kernels need 8.0 or newer", capability.0, capability.1)]
    TooOld {
        /// The device's name.
        name: String,
        /// Its compute capability.
        capability: (u32, u32),
    },
    /// Not enough memory on the device, even after everything cached was given back.
    #[error(
        "CUDA: out of memory: requested {} MiB, {} MiB free of {} MiB; try a smaller batch, accumulation over several, or \
         checkpointing",
        requested >> 20,
        free >> 20,
        total >> 20
    )]
    OutOfMemory {
        /// Bytes requested.
        requested: usize,
        /// Bytes free on the device.
        free: usize,
        /// Bytes of the device.
        total: usize,
    },
    /// A program that NVRTC does not compile.
    #[error("CUDA: {program} does not compile:\n{log}")]
    Compile {
        /// The name of its source file.
        program: &'static str,
        /// The compiler's messages.
        log: String,
    },
    /// A call of a CUDA library that failed.
    #[error("CUDA: {call} failed: {reason}")]
    Call {
        /// The function, or the kernel that was launched.
        call: String,
        /// The library's description.
        reason: String,
    },
    /// Sizes or types that do not fit an operation.
    #[error("CUDA: {operation}: expected {expected}, got {got}")]
    Mismatch {
        /// The operation.
        operation: &'static str,
        /// What it needs.
        expected: String,
        /// What it was given.
        got: String,
    },
}

/// The result of every fallible function of the CUDA device.
pub type Result<T> = std::result::Result<T, Error>;

/// Turns a status of one of the libraries into a result that names the call.
pub(super) trait Check {
    fn check(self, call: &str) -> Result<()>;
}

impl Check for driver::sys::CUresult {
    fn check(self, call: &str) -> Result<()> {
        self.result().map_err(|error| {
            let text = error.error_string().ok().and_then(|text| text.to_str().ok());
            failed(call, text.map_or_else(|| format!("{self:?}"), |text| format!("{self:?} ({text})")))
        })
    }
}

impl Check for nvrtc::sys::nvrtcResult {
    fn check(self, call: &str) -> Result<()> {
        self.result().map_err(|_| failed(call, format!("{self:?}")))
    }
}

impl Check for cublaslt::sys::cublasStatus_t {
    fn check(self, call: &str) -> Result<()> {
        self.result().map_err(|_| failed(call, format!("{self:?}")))
    }
}

fn failed(call: &str, reason: String) -> Error {
    Error::Call { call: call.to_owned(), reason }
}

/// Returns a mismatch unless the condition holds.
pub(super) fn ensure(
    condition: bool,
    operation: &'static str,
    expected: impl Display,
    got: impl Display,
) -> Result<()> {
    if condition {
        return Ok(());
    }
    Err(Error::Mismatch { operation, expected: expected.to_string(), got: got.to_string() })
}
