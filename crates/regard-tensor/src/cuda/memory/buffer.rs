//! Runs of values on a device: owned buffers, and views of them to read and to write.

use super::{Element, Value, size_class};
use crate::cuda::device::Device;
use crate::cuda::error::{Check, Result, ensure};
use crate::cuda::private::Private;
use crate::cuda::recording;
use cudarc::driver::sys;
use std::marker::PhantomData;
use std::sync::Arc;

/// Where the memory of a buffer goes when it is dropped.
pub(super) enum Home {
    /// To the device's pool.
    Device,
    /// To the recording it was made in.
    Recording(Arc<Private>),
    /// The same; its values stay for the next replay.
    Constant(Arc<Private>),
}

/// A run of values on a device, owned.
pub struct Buffer {
    pub(super) device: Arc<Device>,
    pub(super) pointer: sys::CUdeviceptr,
    pub(super) len: usize,
    pub(super) element: Element,
    pub(super) class: usize,
    pub(super) home: Home,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let (class, pointer) = (self.class, self.pointer);
        match &self.home {
            Home::Recording(private) => private.give(class, pointer, true),
            Home::Constant(private) => private.give(class, pointer, false),
            Home::Device => match recording::pool(self.device.ordinal()) {
                // What was recorded so far may read it in every replay.
                Some(private) => private.give(class, pointer, false),
                None => self.device.give_block(class, pointer),
            },
        }
    }
}

impl Buffer {
    /// A block of a recording whose values stay.
    pub(in crate::cuda) fn constant(
        device: &Arc<Device>,
        pointer: sys::CUdeviceptr,
        (len, element): (usize, Element),
        home: Arc<Private>,
    ) -> Self {
        let class = size_class(len * element.size());
        Self { device: device.clone(), pointer, len, element, class, home: Home::Constant(home) }
    }

    /// How many values it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The type of its values.
    pub fn element(&self) -> Element {
        self.element
    }

    /// The device it is on.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// All values, to read.
    pub fn view(&self) -> View<'_> {
        View { device: &self.device, pointer: self.pointer, len: self.len, element: self.element }
    }

    /// All values, to write.
    pub fn view_mut(&mut self) -> ViewMut<'_> {
        ViewMut {
            view: View { device: &self.device, pointer: self.pointer, len: self.len, element: self.element },
            exclusive: PhantomData,
        }
    }
}

/// Values of a buffer or a part of one, to read.
#[derive(Clone, Copy)]
pub struct View<'a> {
    device: &'a Arc<Device>,
    pointer: sys::CUdeviceptr,
    len: usize,
    element: Element,
}

impl<'a> View<'a> {
    /// How many values there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Their type.
    pub fn element(&self) -> Element {
        self.element
    }

    /// The device they are on.
    pub fn device(&self) -> &'a Arc<Device> {
        self.device
    }

    /// `len` of the values from `start` on.
    pub fn part(&self, start: usize, len: usize) -> Result<Self> {
        let fits = start.checked_add(len).is_some_and(|end| end <= self.len);
        ensure(fits, "part", format_args!("a part of {} values", self.len), format_args!("{start}+{len}"))?;
        let pointer = self.pointer + (start * self.element.size()) as u64;
        Ok(Self { pointer, len, ..*self })
    }

    /// The values, copied to the host. Waits for the kernels that write them.
    pub fn read<V: Value>(&self) -> Result<Vec<V>> {
        ensure(V::fits(self.element), "read", std::any::type_name::<V>(), self.element.name())?;
        let mut values = vec![V::zeroed(); self.len];
        if self.len == 0 {
            return Ok(values);
        }
        recording::ensure_none(self.device.ordinal(), "a read of values")?;
        // SAFETY: the view has as many values of that size.
        unsafe { self.device.copy_to_host(self.pointer, bytemuck::cast_slice_mut(&mut values)) }?;
        Ok(values)
    }

    /// The bytes from the first value on, copied to the host, as many as there is room for. Waits for the kernels that
    /// write them.
    pub(crate) fn read_bytes(&self, out: &mut [u8]) -> Result<()> {
        let bytes = self.len * self.element.size();
        ensure(out.len() <= bytes, "read", format_args!("at most {bytes} bytes"), out.len())?;
        if out.is_empty() {
            return Ok(());
        }
        recording::ensure_none(self.device.ordinal(), "a read of values")?;
        // SAFETY: the view has at least as many bytes.
        unsafe { self.device.copy_to_host(self.pointer, out) }
    }

    /// The same bytes as values of another type.
    pub(crate) fn reinterpret(&self, element: Element) -> Self {
        Self { len: self.len * self.element.size() / element.size(), element, ..*self }
    }

    /// A copy on the device.
    pub fn copy(&self) -> Result<Buffer> {
        let mut copy = self.device.allocate(self.len, self.element)?;
        copy.view_mut().copy_from(*self)?;
        Ok(copy)
    }

    pub(in crate::cuda) fn pointer(&self) -> sys::CUdeviceptr {
        self.pointer
    }
}

/// Values of a buffer or a part of one, to write.
pub struct ViewMut<'a> {
    view: View<'a>,
    exclusive: PhantomData<&'a mut ()>,
}

impl<'a> ViewMut<'a> {
    /// The same values, to read.
    pub fn as_view(&self) -> View<'_> {
        self.view
    }

    /// `len` of the values from `start` on.
    pub fn part(self, start: usize, len: usize) -> Result<ViewMut<'a>> {
        Ok(Self { view: self.view.part(start, len)?, exclusive: PhantomData })
    }

    /// The same bytes as values of another type.
    pub(crate) fn reinterpret(self, element: Element) -> Self {
        Self { view: self.view.reinterpret(element), exclusive: PhantomData }
    }

    /// Lends the values for a shorter time.
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        ViewMut { view: self.view, exclusive: PhantomData }
    }

    /// Overwrites them with values of the host.
    pub fn write<V: Value>(&mut self, values: &[V]) -> Result<()> {
        let View { device, pointer, len, element } = self.view;
        ensure(V::fits(element), "write", element.name(), std::any::type_name::<V>())?;
        ensure(values.len() == len, "write", len, values.len())?;
        if len == 0 {
            return Ok(());
        }
        recording::ensure_none(device.ordinal(), "a write of values")?;
        device.bind()?;
        let bytes = std::mem::size_of_val(values);
        // SAFETY: both sides have `bytes` bytes. The driver copies from pageable memory before it returns.
        unsafe { sys::cuMemcpyHtoDAsync_v2(pointer, values.as_ptr().cast(), bytes, device.stream()) }
            .check("cuMemcpyHtoD")
    }

    /// The same beside the order of the device's work: for memory that no kernel uses yet.
    pub(super) fn write_now<V: Value>(&mut self, values: &[V]) -> Result<()> {
        let View { device, pointer, len, element } = self.view;
        ensure(V::fits(element) && values.len() == len, "write", len, values.len())?;
        if len == 0 {
            return Ok(());
        }
        device.bind()?;
        let bytes = std::mem::size_of_val(values);
        // SAFETY: both sides have `bytes` bytes, and the host's outlive the synchronisation.
        unsafe {
            sys::cuMemcpyHtoDAsync_v2(pointer, values.as_ptr().cast(), bytes, device.copy_stream())
                .check("cuMemcpyHtoD")?;
            sys::cuStreamSynchronize(device.copy_stream()).check("cuStreamSynchronize")
        }
    }

    /// Overwrites them with values of the same device.
    pub fn copy_from(&mut self, from: View) -> Result<()> {
        let View { device, pointer, len, element } = self.view;
        ensure(from.len == len && from.element == element, "copy", len, from.len)?;
        if len == 0 {
            return Ok(());
        }
        device.bind()?;
        // SAFETY: both sides have as many bytes, and the stream orders the copy among kernels.
        unsafe { sys::cuMemcpyDtoDAsync_v2(pointer, from.pointer, len * element.size(), device.stream()) }
            .check("cuMemcpyDtoD")
    }

    /// Sets every byte.
    pub fn fill_bytes(&mut self, byte: u8) -> Result<()> {
        let View { device, pointer, len, element } = self.view;
        if len == 0 {
            return Ok(());
        }
        device.bind()?;
        // SAFETY: the view has as many bytes.
        unsafe { sys::cuMemsetD8Async(pointer, byte, len * element.size(), device.stream()) }
            .check("cuMemsetD8")
    }
}

#[cfg(test)]
mod tests {
    use super::size_class;

    #[test]
    fn size_classes_waste_at_most_an_eighth() {
        for bytes in [1, 512, 513, 5000, 65_537, 1_000_000, (1 << 30) + 1] {
            let class = size_class(bytes);
            assert!(class >= bytes && class - bytes <= (bytes / 8).max(512), "{bytes} in {class}");
            assert_eq!(size_class(class), class);
        }
    }
}
