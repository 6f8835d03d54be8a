//! The engine's arrays on a CUDA device.

use super::device::Device as Cuda;
use super::error::Result as CudaResult;
use super::memory::{Buffer, Element, View, ViewMut};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::ids::{Ids, Mask};
use crate::storage::{DataType, Device, Memory};
use std::sync::{Arc, OnceLock};

/// What an array keeps on a device: its values, and a copy of them in bf16 for products once one was needed.
pub(crate) struct Stored {
    buffer: Buffer,
    rounded: OnceLock<Array>,
}

impl Stored {
    pub fn new(buffer: Buffer) -> Self {
        Self { buffer, rounded: OnceLock::new() }
    }

    /// A copy of bytes of the host.
    pub fn upload(ordinal: usize, bytes: &[u8]) -> CudaResult<Self> {
        Ok(Self::new(Cuda::open(ordinal)?.upload(bytes, Element::U8)?))
    }

    /// Copies bytes from `start` on to the host, as many as there is room for.
    pub fn read(&self, start: usize, out: &mut [u8]) -> CudaResult<()> {
        let bytes = self.buffer.view().reinterpret(Element::U8);
        bytes.part(start, out.len())?.read_bytes(out)
    }

    pub fn ordinal(&self) -> usize {
        self.buffer.device().ordinal()
    }

    fn view(&self, element: Element) -> View<'_> {
        self.buffer.view().reinterpret(element)
    }

    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }
}

impl From<DataType> for Element {
    fn from(data_type: DataType) -> Self {
        match data_type {
            DataType::F32 => Self::F32,
            DataType::Bf16 => Self::Bf16,
            DataType::F16 => Self::F16,
        }
    }
}

/// What a kernel computed. Only buffers of numbers become arrays.
impl From<Buffer> for Array {
    fn from(buffer: Buffer) -> Self {
        let data_type = match buffer.element() {
            Element::F32 => DataType::F32,
            Element::Bf16 => DataType::Bf16,
            Element::F16 => DataType::F16,
            Element::U32 | Element::U8 | Element::F64 => unreachable!("ids and partial sums are no arrays"),
        };
        let len = buffer.len();
        Array::elsewhere(Memory::Cuda(Stored::new(buffer)), data_type, len)
    }
}

fn elsewhere(array: &Array) -> Error {
    Error::Device { operation: "kernel", expected: Device::Cuda(0), got: array.device() }
}

impl Array {
    /// The addresses of the values and of their copy in bf16, 0 where there are none on a CUDA device.
    pub fn cuda_places(&self) -> [u64; 2] {
        let Some((Memory::Cuda(stored), _)) = self.memory() else { return [0, 0] };
        let address = |array: &Array| array.cuda().map_or(0, |view| view.pointer());
        [address(self), stored.rounded.get().map_or(0, address)]
    }

    /// The same values in memory of their own.
    pub fn copied(&self) -> Result<Self> {
        match self.memory() {
            Some((Memory::Cuda(_), _)) => Ok(self.cuda()?.copy()?.into()),
            _ => crate::kernels::broadcast::affine(self, 1.0, 0.0),
        }
    }

    /// The values, for the device's kernels.
    pub fn cuda(&self) -> Result<View<'_>> {
        let Some((Memory::Cuda(stored), start)) = self.memory() else { return Err(elsewhere(self)) };
        Ok(stored.view(self.data_type().into()).part(start, self.len())?)
    }

    /// The values, for the device's kernels to change: in place if they are not shared, else in a copy made now.
    pub fn cuda_mut(&mut self) -> Result<ViewMut<'_>> {
        Ok(self.cuda_mut_with_rounded(false)?.0)
    }

    /// The same, and with `rounded` their copy in bf16, if there is one. Without, the copy is dropped: it would be wrong
    /// after the change.
    pub fn cuda_mut_with_rounded(&mut self, rounded: bool) -> Result<(ViewMut<'_>, Option<ViewMut<'_>>)> {
        if self.memory_mut().is_none() {
            *self = self.cuda()?.copy()?.into();
        }
        let (element, len) = (Element::from(self.data_type()), self.len());
        let device = self.device();
        let Some((Memory::Cuda(stored), start)) = self.memory_mut() else {
            return Err(Error::Device { operation: "kernel", expected: Device::Cuda(0), got: device });
        };
        let whole = stored.view(element).len() == len;
        if !(rounded && whole) {
            stored.rounded.take();
        }
        let rounded = stored.rounded.get_mut().map(Self::cuda_mut).transpose()?;
        Ok((stored.buffer.view_mut().reinterpret(element).part(start, len)?, rounded))
    }

    /// The values in another type. A copy of f32 values in bf16 is kept for the next time: these are parameters, which
    /// an update keeps in step with it.
    pub fn cuda_rounded(&self, data_type: DataType) -> Result<Array> {
        let Some((Memory::Cuda(stored), start)) = self.memory() else { return Err(elsewhere(self)) };
        if (self.data_type(), data_type) != (DataType::F32, DataType::Bf16) {
            return crate::kernels::memory::convert(self, data_type);
        }
        if let Some(rounded) = stored.rounded.get() {
            return Ok(rounded.part(start, self.len()));
        }
        let all = stored.view(Element::F32);
        let rounded = Array::from(super::arithmetic::convert(all, Element::Bf16)?);
        Ok(stored.rounded.get_or_init(|| rounded).part(start, self.len()))
    }
}

/// A copy of ids or of a mask on the device. It has to outlive its view.
pub(crate) struct Copy {
    memory: Arc<Memory>,
    element: Element,
}

impl Copy {
    pub fn view(&self) -> Result<View<'_>> {
        match &*self.memory {
            Memory::Cuda(stored) => Ok(stored.view(self.element)),
            Memory::Apart(_) => {
                let (expected, got) = (Device::Cuda(0), self.memory.device());
                Err(Error::Device { operation: "kernel", expected, got })
            }
        }
    }

    pub fn new(memory: Arc<Memory>, element: Element) -> Self {
        Self { memory, element }
    }
}

impl Ids {
    /// The ids on a device, copied there if they are not there yet.
    pub(crate) fn cuda(&self, device: Device) -> Result<Copy> {
        Ok(Copy::new(self.on(device)?, Element::U32))
    }

    /// Ids that a kernel made, all below `bound`.
    pub(crate) fn from_cuda(buffer: Buffer, bound: usize) -> Self {
        let count = buffer.len();
        Self::on_device(Memory::Cuda(Stored::new(buffer)), count, bound)
    }
}

impl Mask {
    /// The mask on a device, a byte for each value, copied there if it is not there yet.
    pub(crate) fn cuda(&self, device: Device) -> Result<Copy> {
        Ok(Copy::new(self.on(device)?, Element::U8))
    }
}
