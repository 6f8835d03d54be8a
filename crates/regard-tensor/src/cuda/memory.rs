//! Memory of a device: a caching allocator and the types of values.
//!
//! Buffers are dropped while kernels that use them may still be queued. That is safe because memory goes back to a list
//! of its own device and is handed out again for work on the same stream, which runs later. A recording has a list of
//! its own (see `private.rs`).

mod buffer;

pub use buffer::{Buffer, View, ViewMut};

use super::device::Device;
use super::error::{Check, Error, Result};
use super::recording;
use buffer::Home;
use bytemuck::Pod;
use cudarc::driver::sys;
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

/// The type of the values in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// IEEE single precision.
    F32,
    /// The upper half of single precision.
    Bf16,
    /// IEEE half precision.
    F16,
    /// Ids and places.
    U32,
    /// Masks.
    U8,
    /// IEEE double precision, for partial sums.
    F64,
}

impl Element {
    /// Bytes of one value.
    pub fn size(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::U32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::U8 => 1,
        }
    }

    /// How kernels of this type are named.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::U32 => "u32",
            Self::U8 => "u8",
            Self::F64 => "f64",
        }
    }

    /// How many values lie in 16 bytes, the widest access of a thread.
    pub(super) fn per_vector(self) -> usize {
        16 / self.size()
    }
}

/// Types of the host that a buffer can hold. Halves travel as their bits.
pub trait Value: Pod {
    /// Whether a buffer of these elements holds values of this type.
    fn fits(element: Element) -> bool;
}

macro_rules! value {
    ($($type:ty: $pattern:pat),*) => {
        $(impl Value for $type {
            fn fits(element: Element) -> bool {
                matches!(element, $pattern)
            }
        })*
    };
}

value!(f32: Element::F32, u16: Element::Bf16 | Element::F16, u32: Element::U32, u8: Element::U8, f64: Element::F64);

/// What the allocator holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in buffers that are alive.
    pub live: usize,
    /// The most bytes that were ever alive together.
    pub peak: usize,
    /// Bytes kept for later buffers.
    pub cached: usize,
    /// Calls of the driver's allocator.
    pub driver_calls: usize,
}

/// Free memory by size class.
#[derive(Default)]
pub(super) struct Pool {
    free: BTreeMap<usize, Vec<sys::CUdeviceptr>>,
    usage: Usage,
    poison: bool,
}

/// Sizes are rounded up to eighths of a power of two, so that a free block fits most later requests of about its size
/// and at most an eighth is wasted.
pub(super) fn size_class(bytes: usize) -> usize {
    let bytes = bytes.max(512);
    bytes.next_multiple_of((bytes.next_power_of_two() / 16).max(512))
}

impl Device {
    /// Room for `len` values, which hold anything until they are written.
    pub fn allocate(self: &Arc<Self>, len: usize, element: Element) -> Result<Buffer> {
        let class = size_class(len * element.size());
        let private = recording::pool(self.ordinal());
        let pointer = match &private {
            Some(private) => private.take(class)?,
            None => self.take_block(class)?,
        };
        let home = private.map_or(Home::Device, Home::Recording);
        let mut buffer = Buffer { device: self.clone(), pointer, len, element, class, home };
        if self.pool().poison {
            buffer.view_mut().fill_bytes(0xff)?;
        }
        Ok(buffer)
    }

    /// A block of a size class, cached or from the driver.
    pub(super) fn take_block(&self, class: usize) -> Result<sys::CUdeviceptr> {
        self.bind()?;
        let mut pool = self.pool();
        let pointer = match pool.free.get_mut(&class).and_then(Vec::pop) {
            Some(pointer) => {
                pool.usage.cached -= class;
                pointer
            }
            None => pool.driver_allocate(self, class)?,
        };
        pool.note_taken(class);
        Ok(pointer)
    }

    /// A block that no queued kernel uses.
    pub(super) fn take_fresh_block(&self, class: usize) -> Result<sys::CUdeviceptr> {
        self.bind()?;
        let mut pool = self.pool();
        let pointer = pool.driver_allocate(self, class)?;
        pool.note_taken(class);
        Ok(pointer)
    }

    /// Takes a block back.
    pub(super) fn give_block(&self, class: usize, pointer: sys::CUdeviceptr) {
        let mut pool = self.pool();
        pool.usage.live -= class;
        pool.usage.cached += class;
        pool.free.entry(class).or_default().push(pointer);
    }

    /// Room for `len` values that are all zero.
    pub fn zeros(self: &Arc<Self>, len: usize, element: Element) -> Result<Buffer> {
        let mut buffer = self.allocate(len, element)?;
        buffer.view_mut().fill_bytes(0)?;
        Ok(buffer)
    }

    /// A copy of values of the host.
    pub fn upload<V: Value>(self: &Arc<Self>, values: &[V], element: Element) -> Result<Buffer> {
        if let Some(private) = recording::pool(self.ordinal()) {
            let mut buffer = private.constant(values.len(), element)?;
            buffer.view_mut().write_now(values)?;
            return Ok(buffer);
        }
        let mut buffer = self.allocate(values.len(), element)?;
        buffer.view_mut().write(values)?;
        Ok(buffer)
    }

    /// What the allocator holds at present.
    pub fn usage(&self) -> Usage {
        self.pool().usage
    }

    /// Counts the most bytes alive together from now on.
    pub fn reset_peak(&self) {
        let mut pool = self.pool();
        pool.usage.peak = pool.usage.live;
    }

    /// With `poison`, memory is filled with NaN before it is handed out, so that tests find values nothing wrote.
    pub fn set_poison(&self, poison: bool) {
        self.pool().poison = poison;
    }

    /// Gives cached memory back to the driver.
    pub fn trim(&self) -> Result<()> {
        self.synchronise()?;
        self.pool().trim()
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    fn note_taken(&mut self, class: usize) {
        self.usage.live += class;
        self.usage.peak = self.usage.peak.max(self.usage.live);
    }

    fn driver_allocate(&mut self, device: &Device, bytes: usize) -> Result<sys::CUdeviceptr> {
        self.usage.driver_calls += 1;
        let mut pointer = 0;
        // SAFETY: the caller made the context current.
        let mut allocate = || unsafe { sys::cuMemAlloc_v2(&raw mut pointer, bytes) };
        let mut result = allocate();
        if result == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            device.wait()?;
            self.trim()?;
            result = allocate();
        }
        if result == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            let (mut free, mut total) = (0, 0);
            // SAFETY: the context is current, and the results are written to live variables.
            unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) }.check("cuMemGetInfo")?;
            return Err(Error::OutOfMemory { requested: bytes, free, total });
        }
        result.check("cuMemAlloc")?;
        Ok(pointer)
    }

    /// The stream must be idle: queued kernels may use memory that the host has dropped.
    fn trim(&mut self) -> Result<()> {
        for (_, pointers) in std::mem::take(&mut self.free) {
            for pointer in pointers {
                // SAFETY: the pointer came from the driver's allocator and no buffer holds it.
                unsafe { sys::cuMemFree_v2(pointer) }.check("cuMemFree")?;
            }
        }
        self.usage.cached = 0;
        Ok(())
    }
}
