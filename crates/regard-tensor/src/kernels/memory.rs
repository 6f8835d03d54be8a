//! Fresh values, and values in another type.

use super::on_cpu;
use crate::array::Array;
use crate::error::Result;
use crate::storage::{DataType, Device};
use crate::{cpu, cuda};

/// One value throughout.
pub(crate) fn filled(device: Device, len: usize, value: f32) -> Result<Array> {
    match device {
        Device::Cpu => Ok(Array::filled(len, value)),
        Device::Cuda(ordinal) => {
            let mut buffer = cuda::Device::open(ordinal)?.allocate(len, cuda::Element::F32)?;
            cuda::arithmetic::fill(buffer.view_mut(), value)?;
            Ok(buffer.into())
        }
        Device::Apart => {
            super::fallback::count("fill", device);
            Array::filled(len, value).to_device(device)
        }
    }
}

/// The same values, rounded to another type.
pub(crate) fn convert(x: &Array, data_type: DataType) -> Result<Array> {
    if x.data_type() == data_type {
        return Ok(x.clone());
    }
    match x.device() {
        Device::Cuda(_) => Ok(cuda::arithmetic::convert(x.cuda()?, data_type.into())?.into()),
        Device::Cpu | Device::Apart => on_cpu("convert", x, |x| cpu::convert::convert(x, data_type)),
    }
}
