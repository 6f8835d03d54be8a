//! Read-only values with copies in main memory, on devices, or both.

use crate::error::Result;
use crate::storage::{Device, Memory};
use crate::traffic;
use bytemuck::{CheckedBitPattern, NoUninit};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Values that never change. They are copied to a device when they are first needed there, and the copy is kept.
pub(crate) struct Copies<T> {
    count: usize,
    host: OnceLock<Box<[T]>>,
    devices: Mutex<Vec<Arc<Memory>>>,
}

impl<T: NoUninit + CheckedBitPattern> Copies<T> {
    /// Values in main memory.
    pub fn new(values: Box<[T]>) -> Self {
        Self { count: values.len(), host: OnceLock::from(values), devices: Mutex::default() }
    }

    /// Values in the memory of a device.
    pub fn on_device(memory: Arc<Memory>, count: usize) -> Self {
        Self { count, host: OnceLock::new(), devices: Mutex::new(vec![memory]) }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// The values, if they are in main memory.
    pub fn on_host(&self) -> Option<&[T]> {
        self.host.get().map(AsRef::as_ref)
    }

    /// The values in main memory, read from their device if necessary.
    pub fn read(&self) -> &[T] {
        self.host.get_or_init(|| {
            let mut bytes = vec![0; self.count * size_of::<T>()];
            let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
            devices.first().expect("values are on a device").read(0, &mut bytes);
            bytes.chunks_exact(size_of::<T>()).map(bytemuck::checked::pod_read_unaligned).collect()
        })
    }

    /// The values on a device, copied there if necessary.
    pub fn on(&self, device: Device) -> Result<Arc<Memory>> {
        if let Some(memory) = self.find(device) {
            return Ok(memory);
        }
        let memory = Arc::new(Memory::store(device, bytemuck::cast_slice(self.read()))?);
        traffic::count_upload();
        self.devices.lock().unwrap_or_else(PoisonError::into_inner).push(memory.clone());
        Ok(memory)
    }

    fn find(&self, device: Device) -> Option<Arc<Memory>> {
        let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        devices.iter().find(|memory| memory.device() == device).cloned()
    }
}
