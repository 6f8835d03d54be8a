//! Tensors on the device that the suite runs on: the CPU, or the device that `REGARD_DEVICE` names.

use regard_tensor::{Device, Result, Shape, Tensor, cuda_devices};
use std::io::Write;
use std::sync::OnceLock;

pub fn get() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    *DEVICE.get_or_init(|| {
        let named = std::env::var("REGARD_DEVICE");
        let device = named.map_or(Device::Cpu, |name| name.parse().expect("the name of a device"));
        if let (Device::Cuda(_), Err(error)) = (device, cuda_devices()) {
            // Written directly to stderr, because the test harness would hold back a printed line.
            let _ = writeln!(std::io::stderr(), "skipped: {error}");
            std::process::exit(0);
        }
        device
    })
}

pub fn new(values: &[f32], shape: impl Into<Shape>) -> Result<Tensor> {
    Tensor::new(values, shape)?.to(get())
}

pub fn full(shape: impl Into<Shape>, value: f32) -> Tensor {
    Tensor::full(shape, value).to(get()).expect("room on the device")
}

pub fn zeros(shape: impl Into<Shape>) -> Tensor {
    full(shape, 0.0)
}

pub fn scalar(value: f32) -> Tensor {
    full([], value)
}
