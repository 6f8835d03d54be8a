//! Devices: which there are, and one opened for work.

use super::error::{Check, Error, Result};
use super::library;
use super::matmul::Products;
use super::memory::Pool;
use super::program::Programs;
use super::recording;
use super::staging::Landing;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How many CUDA devices this machine has.
pub fn count() -> Result<usize> {
    initialise()?;
    let mut count = 0;
    // SAFETY: the driver is loaded and initialised.
    unsafe { sys::cuDeviceGetCount(&raw mut count) }.check("cuDeviceGetCount")?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// A CUDA device of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its number, as in `Device::Cuda(number)`.
    pub ordinal: usize,
    /// Its product name, such as "NVIDIA H200".
    pub name: String,
    /// Its memory in bytes.
    pub memory: usize,
    /// Its compute capability, such as (9, 0).
    pub capability: (u32, u32),
}

/// The CUDA devices of this machine, in the order of their numbers. Opens none.
pub fn devices() -> Result<Vec<Description>> {
    (0..count()?).map(describe).collect()
}

fn describe(ordinal: usize) -> Result<Description> {
    let handle = handle(ordinal)?;
    let mut memory = 0;
    // SAFETY: the handle is that of a device.
    unsafe { sys::cuDeviceTotalMem_v2(&raw mut memory, handle) }.check("cuDeviceTotalMem")?;
    Ok(Description { ordinal, name: name_of(handle)?, memory, capability: capability_of(handle)? })
}

/// The driver's handle of a device, whose number must be below the count.
fn handle(ordinal: usize) -> Result<sys::CUdevice> {
    let mut handle = 0;
    // SAFETY: the driver is initialised; a number beyond the last gives an error code.
    unsafe { sys::cuDeviceGet(&raw mut handle, ordinal as i32) }.check("cuDeviceGet")?;
    Ok(handle)
}

fn attribute(handle: sys::CUdevice, which: Attribute) -> Result<u32> {
    let mut value = 0;
    // SAFETY: the handle is that of a device.
    unsafe { sys::cuDeviceGetAttribute(&raw mut value, which, handle) }.check("cuDeviceGetAttribute")?;
    Ok(value.cast_unsigned())
}

fn capability_of(handle: sys::CUdevice) -> Result<(u32, u32)> {
    Ok((
        attribute(handle, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        attribute(handle, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    ))
}

fn initialise() -> Result<()> {
    library::driver()?;
    // SAFETY: the driver is loaded; initialising it again does nothing.
    unsafe { sys::cuInit(0) }.check("cuInit")
}

/// Fails unless a device can be used: it is new enough, and the driver, NVRTC and cuBLASLt are installed.
pub fn ensure_usable(ordinal: usize) -> Result<()> {
    Device::open(ordinal)?;
    library::nvrtc()?;
    library::cublaslt()
}

/// A device opened for work: its memory, its programs and the stream that runs them in order.
pub struct Device {
    ordinal: usize,
    name: String,
    capability: (u32, u32),
    multiprocessors: usize,
    /// The most shared memory that a block can have, in bytes.
    shared_limit: usize,
    total_memory: usize,
    context: sys::CUcontext,
    compute: sys::CUstream,
    copy: sys::CUstream,
    pub(super) pool: Mutex<Pool>,
    pub(super) programs: Programs,
    pub(super) products: Mutex<Products>,
    pub(super) landing: Mutex<Landing>,
}

// SAFETY: contexts and streams may be used from any thread; every call makes the context current first, and what the
// host changes is behind locks.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// The devices opened so far. A device has one context and one pool of memory in a process, whoever uses it.
static OPENED: Mutex<Option<HashMap<usize, Arc<Device>>>> = Mutex::new(None);

impl Device {
    /// The device with this number, opened by the first call.
    pub fn open(ordinal: usize) -> Result<Arc<Self>> {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = opened.get_or_insert_default();
        if let Some(device) = opened.get(&ordinal) {
            return Ok(device.clone());
        }
        let device = Arc::new(Self::new(ordinal)?);
        opened.insert(ordinal, device.clone());
        Ok(device)
    }

    fn new(ordinal: usize) -> Result<Self> {
        let count = count()?;
        if ordinal >= count {
            return Err(Error::NoDevice { ordinal, count });
        }
        let handle = handle(ordinal)?;
        let attribute = |which| attribute(handle, which);
        let name = name_of(handle)?;
        let capability = capability_of(handle)?;
        if capability < (8, 0) {
            return Err(Error::TooOld { name, capability });
        }
        let (mut context, mut compute, mut copy) =
            (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        let mut total_memory = 0;
        let no_implicit_order = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the handle is that of a device, and all results are written to live variables.
        unsafe {
            sys::cuDeviceTotalMem_v2(&raw mut total_memory, handle).check("cuDeviceTotalMem")?;
            sys::cuDevicePrimaryCtxRetain(&raw mut context, handle).check("cuDevicePrimaryCtxRetain")?;
            sys::cuCtxSetCurrent(context).check("cuCtxSetCurrent")?;
            sys::cuStreamCreate(&raw mut compute, no_implicit_order).check("cuStreamCreate")?;
            sys::cuStreamCreate(&raw mut copy, no_implicit_order).check("cuStreamCreate")?;
        }
        Ok(Self {
            ordinal,
            name,
            capability,
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
            shared_limit: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
                as usize,
            total_memory,
            context,
            compute,
            copy,
            pool: Mutex::default(),
            programs: Programs::new(capability),
            products: Mutex::default(),
            landing: Mutex::default(),
        })
    }

    /// Its number.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Its product name, such as "NVIDIA H200".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its compute capability, such as (9, 0).
    pub fn capability(&self) -> (u32, u32) {
        self.capability
    }

    /// How many streaming multiprocessors it has.
    pub fn multiprocessors(&self) -> usize {
        self.multiprocessors
    }

    /// The most shared memory that one block can have, in bytes.
    pub fn shared_limit(&self) -> usize {
        self.shared_limit
    }

    /// Its memory in bytes.
    pub fn total_memory(&self) -> usize {
        self.total_memory
    }

    /// Waits until everything launched so far is done, and reports what went wrong in it.
    pub fn synchronise(&self) -> Result<()> {
        recording::ensure_none(self.ordinal, "a wait for the device")?;
        self.wait()
    }

    /// The same, for what was launched before a recording began.
    pub(super) fn wait(&self) -> Result<()> {
        self.bind()?;
        // SAFETY: the streams live as long as the device.
        unsafe {
            sys::cuStreamSynchronize(self.copy).check("cuStreamSynchronize")?;
            sys::cuStreamSynchronize(self.compute).check("cuStreamSynchronize")
        }
    }

    /// Makes the device's context that of the calling thread. Every call of the driver needs it.
    pub(super) fn bind(&self) -> Result<()> {
        // SAFETY: the context lives as long as the device.
        unsafe { sys::cuCtxSetCurrent(self.context) }.check("cuCtxSetCurrent")
    }

    /// The stream that kernels run on, or that of what the calling thread records.
    pub(super) fn stream(&self) -> sys::CUstream {
        recording::stream(self.ordinal).unwrap_or(self.compute)
    }

    /// The stream for copies beside the kernels.
    pub(super) fn copy_stream(&self) -> sys::CUstream {
        self.copy
    }
}

fn name_of(handle: sys::CUdevice) -> Result<String> {
    let mut bytes = [0_u8; 256];
    // SAFETY: the handle is that of a device, and the length that of the array.
    unsafe { sys::cuDeviceGetName(bytes.as_mut_ptr().cast(), bytes.len() as i32, handle) }
        .check("cuDeviceGetName")?;
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}
