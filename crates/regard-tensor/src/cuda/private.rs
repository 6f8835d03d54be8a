//! Memory that belongs to one recording: a replay writes to the same addresses each time.

use super::device::Device;
use super::error::Result;
use super::memory::{Buffer, Element, size_class};
use cudarc::driver::sys::CUdeviceptr;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A pool of memory. It goes back to the device's pool when the recording and all buffers in it are gone.
pub(super) struct Private {
    device: Arc<Device>,
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    /// Memory that what is recorded later may use again: it runs later, too.
    free: BTreeMap<usize, Vec<CUdeviceptr>>,
    /// All memory that the recording's own kernels write, by address, with its size.
    own: BTreeMap<CUdeviceptr, usize>,
    /// Memory with values that must stay from one replay to the next, and all of it once the recording is complete.
    kept: Vec<(usize, CUdeviceptr)>,
    complete: bool,
}

impl Private {
    pub fn new(device: &Arc<Device>) -> Arc<Self> {
        Arc::new(Self { device: device.clone(), blocks: Mutex::default() })
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is recorded any more.
    pub fn close(&self) {
        self.blocks().complete = true;
    }

    /// A block of a size class.
    pub fn take(&self, class: usize) -> Result<CUdeviceptr> {
        if let Some(pointer) = self.blocks().free.get_mut(&class).and_then(Vec::pop) {
            return Ok(pointer);
        }
        let pointer = self.device.take_block(class)?;
        self.blocks().own.insert(pointer, class);
        Ok(pointer)
    }

    /// Whether an address is in memory that the recording's own kernels write.
    pub fn owns(&self, pointer: CUdeviceptr) -> bool {
        let blocks = self.blocks();
        blocks.own.range(..=pointer).next_back().is_some_and(|(&start, &size)| pointer - start < size as u64)
    }

    /// Takes a block back, `reusable` if no value in it is needed by the next replay.
    pub fn give(&self, class: usize, pointer: CUdeviceptr, reusable: bool) {
        let mut blocks = self.blocks();
        if reusable && !blocks.complete {
            blocks.free.entry(class).or_default().push(pointer);
        } else {
            blocks.kept.push((class, pointer));
        }
    }

    /// Room for values that stay as they are from one replay to the next. Nothing queued earlier uses it.
    pub fn constant(self: &Arc<Self>, len: usize, element: Element) -> Result<Buffer> {
        let class = size_class(len * element.size());
        let pointer = self.device.take_fresh_block(class)?;
        Ok(Buffer::constant(&self.device, pointer, (len, element), self.clone()))
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let Blocks { free, kept, .. } = std::mem::take(&mut *self.blocks());
        let free = free.into_iter().flat_map(|(class, all)| all.into_iter().map(move |one| (class, one)));
        for (class, pointer) in free.chain(kept) {
            self.device.give_block(class, pointer);
        }
    }
}
