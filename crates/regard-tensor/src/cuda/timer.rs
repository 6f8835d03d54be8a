//! Time on the device's own clock.

use super::device::Device;
use super::error::{Check, Error, Result};
use super::library;
use cudarc::driver::sys;

/// Measures what runs on a device between two points of its stream.
pub struct Timer<'a> {
    device: &'a Device,
    start: sys::CUevent,
    end: sys::CUevent,
}

impl<'a> Timer<'a> {
    /// Starts measuring at the present end of the stream.
    pub fn start(device: &'a Device) -> Result<Self> {
        if !library::driver_has("cuEventElapsedTime_v2") {
            let reason = "needs a driver for CUDA 12.8 or newer".into();
            return Err(Error::Call { call: "cuEventElapsedTime_v2".into(), reason });
        }
        device.bind()?;
        let mut timer = Self { device, start: std::ptr::null_mut(), end: std::ptr::null_mut() };
        // SAFETY: the context is current, and the stream is that of the device.
        unsafe {
            sys::cuEventCreate(&raw mut timer.start, 0).check("cuEventCreate")?;
            sys::cuEventCreate(&raw mut timer.end, 0).check("cuEventCreate")?;
            sys::cuEventRecord(timer.start, device.stream()).check("cuEventRecord")?;
        }
        Ok(timer)
    }

    /// Waits for everything launched since the start, and returns the milliseconds it took.
    pub fn stop(self) -> Result<f32> {
        let mut milliseconds = 0.0;
        self.device.bind()?;
        // SAFETY: both events were created by `start`.
        unsafe {
            sys::cuEventRecord(self.end, self.device.stream()).check("cuEventRecord")?;
            sys::cuEventSynchronize(self.end).check("cuEventSynchronize")?;
            sys::cuEventElapsedTime_v2(&raw mut milliseconds, self.start, self.end)
                .check("cuEventElapsedTime")?;
        }
        Ok(milliseconds)
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        for event in [self.start, self.end] {
            if !event.is_null() {
                // SAFETY: the event was created and is destroyed once; a failure leaves it to the context's end.
                let _ = unsafe { sys::cuEventDestroy_v2(event) };
            }
        }
    }
}
