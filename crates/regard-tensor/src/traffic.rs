//! What crosses between main memory and devices, counted.
//!
//! On a device other than the CPU, each read of values waits for everything computed before it, and each operation
//! without a kernel makes a round trip through main memory. These counters show both. Work on the CPU touches none of
//! them.
//!
//! ```
//! use regard_tensor::{Device, Tensor, traffic};
//! let x = Tensor::new(&[1.0, 2.0], [2])?.to(Device::Apart)?;
//! let before = traffic::snapshot();
//! let total = x.sum_all()?; // no kernel there: one fallback
//! let counted = traffic::snapshot().since(&before);
//! assert_eq!((counted.fallbacks["sum"], counted.host_reads), (1, 0));
//! assert_eq!(total.item()?, 3.0); // one read
//! # Ok::<(), regard_tensor::Error>(())
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The counts of the whole process so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Values read from a device: by `values`, `to_vec`, `item` and `to(Device::Cpu)` of tensors, `values` of ids and masks.
    pub host_reads: u64,
    /// Tensors, ids and masks copied to a device.
    pub uploads: u64,
    /// Operations that ran on the CPU because the device has no kernel for them, by the kernel's name. Their copies count as
    /// neither reads nor uploads.
    pub fallbacks: BTreeMap<&'static str, u64>,
}

impl Traffic {
    /// What was counted after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |name| earlier.fallbacks.get(name).copied().unwrap_or(0);
        let fallbacks = self.fallbacks.iter().map(|(&name, &count)| (name, count - before(name)));
        Self {
            host_reads: self.host_reads - earlier.host_reads,
            uploads: self.uploads - earlier.uploads,
            fallbacks: fallbacks.filter(|&(_, count)| count > 0).collect(),
        }
    }
}

static HOST_READS: AtomicU64 = AtomicU64::new(0);
static UPLOADS: AtomicU64 = AtomicU64::new(0);
static FALLBACKS: Mutex<BTreeMap<&str, u64>> = Mutex::new(BTreeMap::new());

fn fallbacks() -> MutexGuard<'static, BTreeMap<&'static str, u64>> {
    FALLBACKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The counts now.
pub fn snapshot() -> Traffic {
    Traffic {
        host_reads: HOST_READS.load(Ordering::Relaxed),
        uploads: UPLOADS.load(Ordering::Relaxed),
        fallbacks: fallbacks().clone(),
    }
}

pub(crate) fn count_host_read() {
    HOST_READS.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_upload() {
    UPLOADS.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_fallback(kernel: &'static str) {
    *fallbacks().entry(kernel).or_default() += 1;
}
