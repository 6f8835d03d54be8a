//! Arrays: a run of values in some storage, without a shape and without gradients.
//!
//! This is what kernels take and return. Only the device folders (and the few lines here) look at the values;
//! everything above speaks of arrays and shapes.

use crate::cpu::convert;
use crate::error::Result;
use crate::pool::Buffer;
use crate::storage::{DataType, Device, External, Kernels, Memory, Values};
use std::fmt;
use std::sync::Arc;

enum Storage {
    /// `F32` in main memory: what the CPU's kernels write.
    Pooled(Buffer),
    /// 16-bit values in main memory, by their bit patterns.
    Bits(DataType, Vec<u16>),
    External(Box<dyn External>),
    Elsewhere(DataType, Memory),
}

/// A part of a storage; cheap to clone, copied on write.
#[derive(Clone)]
pub(crate) struct Array {
    storage: Arc<Storage>,
    start: usize,
    len: usize,
}

impl Array {
    fn new(storage: Storage, len: usize) -> Self {
        Self { storage: Arc::new(storage), start: 0, len }
    }

    /// Values in main memory that `write` sets, every one of them.
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
        let len = values.values().count();
        Self::new(Storage::External(values), len)
    }

    pub fn from_buffer(buffer: Buffer) -> Self {
        let len = buffer.as_slice().len();
        Self::new(Storage::Pooled(buffer), len)
    }

    /// Values of a 16-bit type, by their bit patterns.
    pub fn from_bits(bits: Vec<u16>, data_type: DataType) -> Self {
        assert_eq!(data_type.bytes(), 2, "bit patterns are of 16-bit values");
        let len = bits.len();
        Self::new(Storage::Bits(data_type, bits), len)
    }

    /// Values on another device.
    pub fn elsewhere(memory: Memory, data_type: DataType, len: usize) -> Self {
        Self::new(Storage::Elsewhere(data_type, memory), len)
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
        match &*self.storage {
            Storage::Pooled(_) | Storage::Bits(..) | Storage::External(_) => Device::Cpu,
            Storage::Elsewhere(_, memory) => memory.device(),
        }
    }

    pub fn data_type(&self) -> DataType {
        match &*self.storage {
            Storage::Pooled(_) => DataType::F32,
            Storage::Bits(data_type, _) | Storage::Elsewhere(data_type, _) => *data_type,
            Storage::External(values) => values.values().data_type(),
        }
    }

    /// Whose kernels compute with the values.
    pub fn kernels(&self) -> Kernels {
        Kernels::of(self.device(), self.data_type())
    }

    /// The memory of another device that holds the values, and at which value of it they start.
    pub fn memory(&self) -> Option<(&Memory, usize)> {
        match &*self.storage {
            Storage::Elsewhere(_, memory) => Some((memory, self.start)),
            Storage::Pooled(_) | Storage::Bits(..) | Storage::External(_) => None,
        }
    }

    /// The same, to change; `None` also if the memory is shared.
    pub fn memory_mut(&mut self) -> Option<(&mut Memory, usize)> {
        match Arc::get_mut(&mut self.storage)? {
            Storage::Elsewhere(_, memory) => Some((memory, self.start)),
            Storage::Pooled(_) | Storage::Bits(..) | Storage::External(_) => None,
        }
    }

    /// Whether both are the same part of the same storage.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.storage, &other.storage) && self.start == other.start && self.len == other.len
    }

    /// The values, if they are in main memory.
    pub fn view(&self) -> Option<Values<'_>> {
        let all = match &*self.storage {
            Storage::Pooled(buffer) => Values::F32(buffer.as_slice()),
            Storage::Bits(data_type, bits) => Values::of_bits(bits, *data_type)?,
            Storage::External(values) => values.values(),
            Storage::Elsewhere(..) => return None,
        };
        Some(all.part(self.start..self.start + self.len))
    }

    /// The values in main memory, of any type: for kernels that widen 16-bit values as they read them.
    pub fn host_values(&self) -> Values<'_> {
        self.view().unwrap_or_else(|| panic!("only values in main memory can be read in place, not {self:?}"))
    }

    /// Whether the CPU's kernels can read the values where they are.
    pub fn is_ready(&self) -> bool {
        match &*self.storage {
            Storage::Pooled(_) => true,
            Storage::Bits(..) | Storage::Elsewhere(..) => false,
            Storage::External(values) => matches!(values.values(), Values::F32(_)),
        }
    }

    /// The values, for the CPU's kernels. The boundary makes arrays ready before it calls one.
    pub fn slice(&self) -> &[f32] {
        match self.view() {
            Some(Values::F32(values)) => values,
            _ => panic!("only F32 values in main memory can be read in place, not {self:?}"),
        }
    }

    /// Whether these values are not shared and kernels can change them in place, without a copy.
    pub fn is_unique(&mut self) -> bool {
        let storage = Arc::get_mut(&mut self.storage);
        matches!(storage, Some(Storage::Pooled(_) | Storage::Elsewhere(..)))
    }

    /// The values, for the CPU's kernels to change: in place if they are not shared, else in a copy made now.
    pub fn slice_mut(&mut self) -> &mut [f32] {
        if !self.is_unique() {
            *self = Self::copy_of(self.slice());
        }
        let (start, len) = (self.start, self.len);
        match Arc::get_mut(&mut self.storage) {
            Some(Storage::Pooled(buffer)) => &mut buffer.as_mut_slice()[start..start + len],
            _ => panic!("only F32 values in main memory can be changed in place"),
        }
    }

    /// The same values in main memory, in their own type.
    pub fn fetched(&self) -> Self {
        let Storage::Elsewhere(data_type, memory) = &*self.storage else { return self.clone() };
        let start = self.start * data_type.bytes();
        match data_type {
            DataType::F32 => Self::build(self.len, |out| memory.read(start, bytemuck::cast_slice_mut(out))),
            DataType::Bf16 | DataType::F16 => {
                let mut bits = vec![0_u16; self.len];
                memory.read(start, bytemuck::cast_slice_mut(&mut bits));
                Self::from_bits(bits, *data_type)
            }
        }
    }

    /// The same values as the CPU's kernels can read them.
    pub fn to_host(&self) -> Self {
        if self.is_ready() {
            return self.clone();
        }
        let here = self.fetched();
        if here.is_ready() { here } else { convert::convert(&here, DataType::F32) }
    }

    /// The same values, in their own type, on a device.
    pub fn to_device(&self, device: Device) -> Result<Self> {
        if device == self.device() {
            return Ok(self.clone());
        }
        let here = self.fetched();
        match here.view() {
            Some(values) if device != Device::Cpu => {
                let memory = Memory::store(device, values.bytes())?;
                Ok(Self::elsewhere(memory, values.data_type(), self.len))
            }
            _ => Ok(here),
        }
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array of {} {:?} values on {}", self.len, self.data_type(), self.device())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "not Array of 2 F32 values on apart")]
    fn values_on_another_device_cannot_be_read_in_place() {
        Array::copy_of(&[1.0, 2.0]).to_device(Device::Apart).unwrap().slice();
    }

    #[test]
    #[should_panic(expected = "not Array of 2 Bf16 values on cpu")]
    fn values_of_16_bits_cannot_be_read_as_f32() {
        Array::from_bits(vec![0, 0], DataType::Bf16).slice();
    }

    #[test]
    fn parts_move_alone() {
        let all = Array::copy_of(&[1.0, 2.0, 3.0, 4.0]).to_device(Device::Apart).unwrap();
        let part = all.part(1, 2);
        assert_eq!(part.to_host().slice(), [2.0, 3.0]);
        let half = convert::convert(&part.to_host(), DataType::F16).to_device(Device::Apart).unwrap();
        assert_eq!(half.part(1, 1).to_host().slice(), [3.0]);
    }
}
