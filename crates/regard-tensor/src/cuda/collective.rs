//! Values that move between the GPUs of several processes, by NCCL.
//!
//! The bindings' types are used, but not their loader: it does not look for `libnccl.so.2`, the name that the library
//! has.

use super::device::Device;
use super::error::{Check, Error, Result, ensure};
use super::library;
use super::memory::{Buffer, Element, View};
use cudarc::driver::sys::{CUresult, CUstream, cuStreamQuery};
use cudarc::nccl::sys::{ncclComm_t, ncclDataType_t, ncclResult_t, ncclUniqueId};
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

type Send =
    unsafe extern "C" fn(*const c_void, usize, ncclDataType_t, c_int, ncclComm_t, CUstream) -> ncclResult_t;
type Receive =
    unsafe extern "C" fn(*mut c_void, usize, ncclDataType_t, c_int, ncclComm_t, CUstream) -> ncclResult_t;
type OnGroup = unsafe extern "C" fn() -> ncclResult_t;
type OnCommunicator = unsafe extern "C" fn(ncclComm_t) -> ncclResult_t;
type GetId = unsafe extern "C" fn(*mut ncclUniqueId) -> ncclResult_t;
type Join = unsafe extern "C" fn(*mut ncclComm_t, c_int, ncclUniqueId, c_int) -> ncclResult_t;

/// Whether NCCL is installed.
pub fn ensure_available() -> Result<()> {
    library::nccl().map(|_| ())
}

/// A name for a group of processes: one of them makes it, and all join with it.
pub fn new_id() -> Result<Vec<u8>> {
    let mut id = ncclUniqueId { internal: [0; 128] };
    let get: GetId = function("ncclGetUniqueId")?;
    // SAFETY: the id is written to a live variable.
    unsafe { get(&raw mut id) }.check("ncclGetUniqueId")?;
    Ok(id.internal.iter().map(|&byte| byte as u8).collect())
}

/// A function of NCCL.
fn function<F: Copy>(name: &str) -> Result<F> {
    let library = library::nccl()?;
    // SAFETY: the types above are those of NCCL's header.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found
        .map(|symbol| *symbol)
        .map_err(|error| Error::Call { call: name.to_owned(), reason: error.to_string() })
}

impl Check for ncclResult_t {
    fn check(self, call: &str) -> Result<()> {
        match self {
            Self::ncclSuccess | Self::ncclInProgress => Ok(()),
            other => Err(Error::Call {
                call: call.to_owned(),
                reason: format!("{other:?}; NCCL_DEBUG=WARN says more"),
            }),
        }
    }
}

/// The connection of this process's device to those of the others.
pub struct Communicator {
    device: Arc<Device>,
    /// None after it was given up.
    handle: Mutex<Option<Handle>>,
}

#[derive(Clone, Copy)]
struct Handle(ncclComm_t);

// SAFETY: a communicator may be used from any thread, by one at a time: it is behind a lock.
unsafe impl core::marker::Send for Handle {}

impl Communicator {
    /// Joins the others; returns when all have joined.
    pub fn join(device: &Arc<Device>, id: &[u8], rank: usize, ranks: usize) -> Result<Self> {
        ensure(id.len() == 128, "joining other GPUs", "an id of 128 bytes", id.len())?;
        let mut unique = ncclUniqueId { internal: [0; 128] };
        unique.internal.iter_mut().zip(id).for_each(|(to, &byte)| *to = byte.cast_signed());
        device.bind()?;
        let mut handle = std::ptr::null_mut();
        let join: Join = function("ncclCommInitRank")?;
        // SAFETY: the device's context is current, and the handle is written to a live variable.
        unsafe { join(&raw mut handle, ranks as c_int, unique, rank as c_int) }.check("ncclCommInitRank")?;
        Ok(Self { device: device.clone(), handle: Mutex::new(Some(Handle(handle))) })
    }

    /// Sends values to other ranks (or this one), and receives as many from others as announced, in the order given. Between
    /// two ranks, values arrive in the order in which they are sent. Runs on the stream of the kernels.
    pub fn exchange(&self, sent: &[(usize, View)], received: &[(usize, usize)]) -> Result<Vec<Buffer>> {
        for (_, view) in sent {
            ensure(
                view.element() == Element::F32,
                "exchange",
                "f32 values",
                format!("{:?}", view.element()),
            )?;
        }
        let buffers = received
            .iter()
            .map(|&(_, len)| self.device.allocate(len, Element::F32))
            .collect::<Result<Vec<Buffer>>>()?;
        let held = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Handle(handle)) = *held else { return Err(gone()) };
        self.device.bind()?;
        let stream = self.device.stream();
        let (start, end): (OnGroup, OnGroup) = (function("ncclGroupStart")?, function("ncclGroupEnd")?);
        let (send, receive): (Send, Receive) = (function("ncclSend")?, function("ncclRecv")?);
        let float = ncclDataType_t::ncclFloat32;
        // SAFETY: the buffers lie on the communicator's device and hold as many values as are named. They stay alive until
        // the work on the stream is done: memory that is dropped is handed out again for later work on the same stream.
        unsafe {
            start().check("ncclGroupStart")?;
            for (rank, view) in sent {
                send(view.pointer() as *const c_void, view.len(), float, *rank as c_int, handle, stream)
                    .check("ncclSend")?;
            }
            for ((rank, len), buffer) in received.iter().zip(&buffers) {
                let pointer = buffer.view().pointer() as *mut c_void;
                receive(pointer, *len, float, *rank as c_int, handle, stream).check("ncclRecv")?;
            }
            end().check("ncclGroupEnd")?;
        }
        Ok(buffers)
    }

    /// Whether everything launched so far is done.
    pub fn is_done(&self) -> Result<bool> {
        self.device.bind()?;
        // SAFETY: the stream lives as long as the device.
        match unsafe { cuStreamQuery(self.device.stream()) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => other.check("cuStreamQuery").map(|()| true),
        }
    }

    /// Gives up what is on its way, after which the stream goes on: for when another process is gone.
    pub fn abandon(&self) {
        let held = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(Handle(handle)), Ok(abort)) = (held, function::<OnCommunicator>("ncclCommAbort")) {
            // SAFETY: the handle was taken out, so it is not used again. A failure here has no caller to return to.
            let _ = unsafe { abort(handle) };
        }
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        let held = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(Handle(handle)), Ok(destroy)) = (held, function::<OnCommunicator>("ncclCommDestroy")) {
            // SAFETY: as in `abandon`.
            let _ = unsafe { destroy(handle) };
        }
    }
}

fn gone() -> Error {
    Error::Call {
        call: "NCCL".to_owned(),
        reason: "the connection to the other GPUs was given up".to_owned(),
    }
}
