//! Small copies between host and device through page-locked memory, which the device reads and writes by itself.

use super::device::Device;
use super::error::{Check, Result, ensure};
use super::memory::Buffer;
use cudarc::driver::sys;
use std::sync::{Arc, PoisonError};

/// How many batches of copies may be under way before the host waits for the first.
const AREAS: usize = 4;

/// Copies to the device that the host need not wait for.
pub(super) struct Staging {
    device: Arc<Device>,
    areas: [Area; AREAS],
    next: usize,
}

struct Area {
    host: *mut u8,
    bytes: usize,
    /// Recorded behind the last copies from here.
    done: sys::CUevent,
}

impl Staging {
    pub fn new(device: &Arc<Device>) -> Self {
        let none = || Area { host: std::ptr::null_mut(), bytes: 0, done: std::ptr::null_mut() };
        Self { device: device.clone(), areas: [none(), none(), none(), none()], next: 0 }
    }

    /// Overwrites the first bytes of each buffer, in the order of the device's work.
    pub fn send(&mut self, copies: &[(&Buffer, &[u8])]) -> Result<()> {
        self.device.bind()?;
        let area = &mut self.areas[self.next];
        self.next = (self.next + 1) % AREAS;
        area.prepare(copies.iter().map(|(_, bytes)| bytes.len()).sum())?;
        let (stream, mut start) = (self.device.stream(), 0);
        for (to, bytes) in copies.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            let room = to.len() * to.element().size();
            ensure(bytes.len() <= room, "copy", format_args!("at most {room} bytes"), bytes.len())?;
            // SAFETY: the area has room for all bytes, and no copy from it is under way; the buffer has as many bytes.
            unsafe {
                let from = area.host.add(start);
                from.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                sys::cuMemcpyHtoDAsync_v2(to.view().pointer(), from.cast(), bytes.len(), stream)
                    .check("cuMemcpyHtoD")?;
            }
            start += bytes.len();
        }
        // SAFETY: `prepare` created the event.
        unsafe { sys::cuEventRecord(area.done, stream) }.check("cuEventRecord")
    }
}

impl Area {
    /// Waits for earlier copies from here, and makes room.
    fn prepare(&mut self, bytes: usize) -> Result<()> {
        // SAFETY: the context is current; the event exists where it is waited for, and memory is freed once.
        unsafe {
            if self.done.is_null() {
                sys::cuEventCreate(&raw mut self.done, 0).check("cuEventCreate")?;
            } else {
                sys::cuEventSynchronize(self.done).check("cuEventSynchronize")?;
            }
            if self.bytes < bytes {
                let mut host = std::ptr::null_mut();
                sys::cuMemAllocHost_v2(&raw mut host, bytes).check("cuMemAllocHost")?;
                let old = std::mem::replace(&mut self.host, host.cast());
                self.bytes = bytes;
                if !old.is_null() {
                    sys::cuMemFreeHost(old.cast()).check("cuMemFreeHost")?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.device.bind().is_err() {
            return;
        }
        for area in &self.areas {
            // SAFETY: copies from the area are waited for; event and memory are freed once.
            unsafe {
                if !area.done.is_null() {
                    let _ = sys::cuEventSynchronize(area.done);
                    let _ = sys::cuEventDestroy_v2(area.done);
                }
                if !area.host.is_null() {
                    let _ = sys::cuMemFreeHost(area.host.cast());
                }
            }
        }
    }
}

/// Where small reads arrive. The driver would bring them through memory of its own, piece by piece.
pub(super) struct Landing(*mut u8);

/// Larger reads go straight to where they are wanted.
const LANDING_BYTES: usize = 1 << 20;

// SAFETY: the memory belongs to the process, and is used under the device's lock.
unsafe impl Send for Landing {}

impl Default for Landing {
    fn default() -> Self {
        Self(std::ptr::null_mut())
    }
}

impl Landing {
    /// Its memory, which is kept as long as the device. The context must be current.
    fn memory(&mut self) -> Result<*mut u8> {
        if self.0.is_null() {
            let mut host = std::ptr::null_mut();
            // SAFETY: the address is written to a live variable.
            unsafe { sys::cuMemAllocHost_v2(&raw mut host, LANDING_BYTES) }.check("cuMemAllocHost")?;
            self.0 = host.cast();
        }
        Ok(self.0)
    }
}

impl Device {
    /// Copies bytes from the device's address, once the kernels that were launched before have ended.
    ///
    /// # Safety
    ///
    /// There must be as many bytes at the address.
    pub(super) unsafe fn copy_to_host(&self, from: sys::CUdeviceptr, out: &mut [u8]) -> Result<()> {
        self.bind()?;
        let bytes = out.len();
        let copy = |to: *mut u8| {
            // SAFETY: both sides have as many bytes, and outlive the wait.
            unsafe {
                sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, self.stream()).check("cuMemcpyDtoH")?;
                sys::cuStreamSynchronize(self.stream()).check("cuStreamSynchronize")
            }
        };
        if bytes > LANDING_BYTES {
            return copy(out.as_mut_ptr());
        }
        let mut landing = self.landing.lock().unwrap_or_else(PoisonError::into_inner);
        let arrived = landing.memory()?;
        copy(arrived)?;
        // SAFETY: the copy has ended, and nobody else uses the memory while it is locked.
        unsafe { out.as_mut_ptr().copy_from_nonoverlapping(arrived, bytes) };
        Ok(())
    }
}
