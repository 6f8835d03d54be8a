//! Tensors on the device that the suite runs on: the CPU, or what the environment variable `REGARD_DEVICE` names.

use regard_tensor::{Device, Result, Shape, Tensor};

pub fn device() -> Device {
    std::env::var("REGARD_DEVICE").map_or(Device::Cpu, |name| name.parse().expect("the name of a device"))
}

pub fn new(values: &[f32], shape: impl Into<Shape>) -> Result<Tensor> {
    Tensor::new(values, shape)?.to(device())
}

pub fn full(shape: impl Into<Shape>, value: f32) -> Tensor {
    Tensor::full(shape, value).to(device()).expect("room on the device")
}

pub fn zeros(shape: impl Into<Shape>) -> Tensor {
    full(shape, 0.0)
}

pub fn scalar(value: f32) -> Tensor {
    full([], value)
}
