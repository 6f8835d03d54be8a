//! Arrays: a run of `f32` values in some storage, without a shape and without gradients.
//!
//! This is what kernels take and return. Only the kernel folder (and the few lines here) look at the values as
//! slices; everything above speaks of arrays and shapes, so that a second device can keep its values elsewhere.

use crate::pool::Buffer;
use std::fmt;
use std::sync::Arc;

/// Where the values live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// Main memory.
    Cpu,
}

/// The type of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataType {
    /// IEEE single precision.
    F32,
}

/// Values owned by someone else, such as a memory-mapped file of weights. They are copied before they change.
pub trait External: Send + Sync {
    /// The values.
    fn values(&self) -> &[f32];
}

enum Storage {
    Pooled(Buffer),
    External(Box<dyn External>),
}

/// A part of a storage; cheap to clone, copied on write.
#[derive(Clone)]
pub(crate) struct Array {
    storage: Arc<Storage>,
    start: usize,
    len: usize,
}

impl Array {
    /// Values that the caller will all write before anyone reads them.
    pub fn build(len: usize, write: impl FnOnce(&mut [f32])) -> Self {
        let mut buffer = Buffer::dirty(len);
        write(buffer.as_mut_slice());
        Self::from_buffer(buffer)
    }

    pub fn zeros(len: usize) -> Self {
        Self::from_buffer(Buffer::zeros(len))
    }

    pub fn filled(len: usize, value: f32) -> Self {
        Self::build(len, |values| values.fill(value))
    }

    pub fn copy_of(values: &[f32]) -> Self {
        Self::build(values.len(), |copy| copy.copy_from_slice(values))
    }

    pub fn external(values: Box<dyn External>) -> Self {
        let len = values.values().len();
        Self { storage: Arc::new(Storage::External(values)), start: 0, len }
    }

    pub fn from_buffer(buffer: Buffer) -> Self {
        let len = buffer.as_slice().len();
        Self { storage: Arc::new(Storage::Pooled(buffer)), start: 0, len }
    }

    /// A contiguous part, sharing the storage.
    pub fn part(&self, start: usize, len: usize) -> Self {
        assert!(start + len <= self.len, "a part must lie inside its array");
        Self { storage: self.storage.clone(), start: self.start + start, len }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn device(&self) -> Device {
        match *self.storage {
            Storage::Pooled(_) | Storage::External(_) => Device::Cpu,
        }
    }

    pub fn data_type(&self) -> DataType {
        match *self.storage {
            Storage::Pooled(_) | Storage::External(_) => DataType::F32,
        }
    }

    /// The values, for kernels and for explicit reads.
    pub fn slice(&self) -> &[f32] {
        let all = match &*self.storage {
            Storage::Pooled(buffer) => buffer.as_slice(),
            Storage::External(values) => values.values(),
        };
        &all[self.start..self.start + self.len]
    }

    /// Whether nobody else holds these values, so that they may be changed in place without a copy.
    pub fn is_unique(&mut self) -> bool {
        matches!(Arc::get_mut(&mut self.storage), Some(Storage::Pooled(_)))
    }

    /// The values, to change: in place if nobody else holds them, else in a copy made now.
    pub fn slice_mut(&mut self) -> &mut [f32] {
        if !self.is_unique() {
            *self = Self::copy_of(self.slice());
        }
        let (start, len) = (self.start, self.len);
        match Arc::get_mut(&mut self.storage) {
            Some(Storage::Pooled(buffer)) => &mut buffer.as_mut_slice()[start..start + len],
            _ => unreachable!("the storage was made unique above"),
        }
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array of {} values", self.len)
    }
}
