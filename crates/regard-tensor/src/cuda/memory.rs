//! Memory of a device: a caching allocator, buffers and views of them.
//!
//! Buffers are dropped while kernels that use them may still be queued. That is safe because memory goes back to a list
//! of its own device and is handed out again for work on the same stream, which runs later. A recording has a list of
//! its own (see `private.rs`).

use super::device::Device;
use super::error::{Check, Error, Result, ensure};
use super::private::Private;
use super::recording;
use bytemuck::Pod;
use cudarc::driver::sys;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, MutexGuard, PoisonError};

/// The type of the values in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// IEEE single precision.
    F32,
    /// The upper half of single precision.
    Bf16,
    /// IEEE half precision.
    F16,
    /// Ids and places.
    U32,
    /// Masks.
    U8,
    /// IEEE double precision, for partial sums.
    F64,
}

impl Element {
    /// Bytes of one value.
    pub fn size(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::U32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::U8 => 1,
        }
    }

    /// How kernels of this type are named.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::U32 => "u32",
            Self::U8 => "u8",
            Self::F64 => "f64",
        }
    }

    /// How many values lie in 16 bytes, the widest access of a thread.
    pub(super) fn per_vector(self) -> usize {
        16 / self.size()
    }
}

/// Types of the host that a buffer can hold. Halves travel as their bits.
pub trait Value: Pod {
    /// Whether a buffer of these elements holds values of this type.
    fn fits(element: Element) -> bool;
}

macro_rules! value {
    ($($type:ty: $pattern:pat),*) => {
        $(impl Value for $type {
            fn fits(element: Element) -> bool {
                matches!(element, $pattern)
            }
        })*
    };
}

value!(f32: Element::F32, u16: Element::Bf16 | Element::F16, u32: Element::U32, u8: Element::U8, f64: Element::F64);

/// What the allocator holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in buffers that are alive.
    pub live: usize,
    /// The most bytes that were ever alive together.
    pub peak: usize,
    /// Bytes kept for later buffers.
    pub cached: usize,
    /// Calls of the driver's allocator.
    pub driver_calls: usize,
}

/// Free memory by size class.
#[derive(Default)]
pub(super) struct Pool {
    free: BTreeMap<usize, Vec<sys::CUdeviceptr>>,
    usage: Usage,
    poison: bool,
}

/// Sizes are rounded up to eighths of a power of two, so that a free block fits most later requests of about its size
/// and at most an eighth is wasted.
pub(super) fn size_class(bytes: usize) -> usize {
    let bytes = bytes.max(512);
    bytes.next_multiple_of((bytes.next_power_of_two() / 16).max(512))
}

impl Device {
    /// Room for `len` values, which hold anything until they are written.
    pub fn allocate(self: &Arc<Self>, len: usize, element: Element) -> Result<Buffer> {
        let class = size_class(len * element.size());
        let private = recording::pool(self.ordinal());
        let pointer = match &private {
            Some(private) => private.take(class)?,
            None => self.take_block(class)?,
        };
        let home = private.map_or(Home::Device, Home::Recording);
        let mut buffer = Buffer { device: self.clone(), pointer, len, element, class, home };
        if self.pool().poison {
            buffer.view_mut().fill_bytes(0xff)?;
        }
        Ok(buffer)
    }

    /// A block of a size class, cached or from the driver.
    pub(super) fn take_block(&self, class: usize) -> Result<sys::CUdeviceptr> {
        self.bind()?;
        let mut pool = self.pool();
        let pointer = match pool.free.get_mut(&class).and_then(Vec::pop) {
            Some(pointer) => {
                pool.usage.cached -= class;
                pointer
            }
            None => pool.driver_allocate(self, class)?,
        };
        pool.note_taken(class);
        Ok(pointer)
    }

    /// A block that no queued kernel uses.
    pub(super) fn take_fresh_block(&self, class: usize) -> Result<sys::CUdeviceptr> {
        self.bind()?;
        let mut pool = self.pool();
        let pointer = pool.driver_allocate(self, class)?;
        pool.note_taken(class);
        Ok(pointer)
    }

    /// Takes a block back.
    pub(super) fn give_block(&self, class: usize, pointer: sys::CUdeviceptr) {
        let mut pool = self.pool();
        pool.usage.live -= class;
        pool.usage.cached += class;
        pool.free.entry(class).or_default().push(pointer);
    }

    /// Room for `len` values that are all zero.
    pub fn zeros(self: &Arc<Self>, len: usize, element: Element) -> Result<Buffer> {
        let mut buffer = self.allocate(len, element)?;
        buffer.view_mut().fill_bytes(0)?;
        Ok(buffer)
    }

    /// A copy of values of the host.
    pub fn upload<V: Value>(self: &Arc<Self>, values: &[V], element: Element) -> Result<Buffer> {
        if let Some(private) = recording::pool(self.ordinal()) {
            let mut buffer = private.constant(values.len(), element)?;
            buffer.view_mut().write_now(values)?;
            return Ok(buffer);
        }
        let mut buffer = self.allocate(values.len(), element)?;
        buffer.view_mut().write(values)?;
        Ok(buffer)
    }

    /// What the allocator holds at present.
    pub fn usage(&self) -> Usage {
        self.pool().usage
    }

    /// Counts the most bytes alive together from now on.
    pub fn reset_peak(&self) {
        let mut pool = self.pool();
        pool.usage.peak = pool.usage.live;
    }

    /// With `poison`, memory is filled with NaN before it is handed out, so that tests find values nothing wrote.
    pub fn set_poison(&self, poison: bool) {
        self.pool().poison = poison;
    }

    /// Gives cached memory back to the driver.
    pub fn trim(&self) -> Result<()> {
        self.synchronise()?;
        self.pool().trim()
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    fn note_taken(&mut self, class: usize) {
        self.usage.live += class;
        self.usage.peak = self.usage.peak.max(self.usage.live);
    }

    fn driver_allocate(&mut self, device: &Device, bytes: usize) -> Result<sys::CUdeviceptr> {
        self.usage.driver_calls += 1;
        let mut pointer = 0;
        // SAFETY: the caller made the context current.
        let mut allocate = || unsafe { sys::cuMemAlloc_v2(&raw mut pointer, bytes) };
        let mut result = allocate();
        if result == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            device.wait()?;
            self.trim()?;
            result = allocate();
        }
        if result == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            let (mut free, mut total) = (0, 0);
            // SAFETY: the context is current, and the results are written to live variables.
            unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) }.check("cuMemGetInfo")?;
            return Err(Error::OutOfMemory { requested: bytes, free, total });
        }
        result.check("cuMemAlloc")?;
        Ok(pointer)
    }

    /// The stream must be idle: queued kernels may use memory that the host has dropped.
    fn trim(&mut self) -> Result<()> {
        for (_, pointers) in std::mem::take(&mut self.free) {
            for pointer in pointers {
                // SAFETY: the pointer came from the driver's allocator and no buffer holds it.
                unsafe { sys::cuMemFree_v2(pointer) }.check("cuMemFree")?;
            }
        }
        self.usage.cached = 0;
        Ok(())
    }
}

/// Where the memory of a buffer goes when it is dropped.
enum Home {
    /// To the device's pool.
    Device,
    /// To the recording it was made in.
    Recording(Arc<Private>),
    /// The same; its values stay for the next replay.
    Constant(Arc<Private>),
}

/// A run of values on a device, owned.
pub struct Buffer {
    device: Arc<Device>,
    pointer: sys::CUdeviceptr,
    len: usize,
    element: Element,
    class: usize,
    home: Home,
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
    pub(super) fn constant(
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
        self.device.bind()?;
        let bytes = self.len * self.element.size();
        // SAFETY: both sides have `bytes` bytes, and the host's outlive the synchronisation below.
        unsafe {
            sys::cuMemcpyDtoHAsync_v2(values.as_mut_ptr().cast(), self.pointer, bytes, self.device.stream())
                .check("cuMemcpyDtoH")?;
            sys::cuStreamSynchronize(self.device.stream()).check("cuStreamSynchronize")?;
        }
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
        self.device.bind()?;
        // SAFETY: both sides have as many bytes, and the host's outlive the synchronisation below.
        unsafe {
            sys::cuMemcpyDtoHAsync_v2(out.as_mut_ptr().cast(), self.pointer, out.len(), self.device.stream())
                .check("cuMemcpyDtoH")?;
            sys::cuStreamSynchronize(self.device.stream()).check("cuStreamSynchronize")
        }
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

    pub(super) fn pointer(&self) -> sys::CUdeviceptr {
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
    fn write_now<V: Value>(&mut self, values: &[V]) -> Result<()> {
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
