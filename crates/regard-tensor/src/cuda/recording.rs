//! Work recorded as a CUDA graph, and replayed with other inputs.
//!
//! While a thread records, its kernels go to a stream of their own. The driver notes them down there and runs none; other
//! threads go on as before. Memory comes from a pool that belongs to the recording, since every replay writes to the same
//! addresses. What the host copies to the device meanwhile becomes a constant of the recording. Three things are set anew
//! before each replay: what is in slots (see [`crate::slot`]), the numbers of an optimiser's update, and dropout's keys.

use super::device::Device;
use super::error::{Check, Error, Result, ensure};
use super::memory::{Buffer, Element};
use super::private::Private;
use super::staging::Staging;
use crate::random::Key;
use cudarc::driver::sys;
use std::cell::RefCell;
use std::sync::Arc;

/// The most names of dropout keys in a recording.
const MOST_KEYS: usize = 4096;

/// What a thread records at present.
struct Active {
    device: Arc<Device>,
    stream: sys::CUstream,
    pool: Arc<Private>,
    inputs: Inputs,
}

/// What a replay sets anew, beside slots.
struct Inputs {
    /// The key that the names of dropout's keys belong to.
    key: Key,
    names: Vec<u64>,
    /// Room for `MOST_KEYS` keys on the device.
    keys: Buffer,
    /// The numbers of an update, as its kernel reads them, and where it does.
    update: Vec<u8>,
    update_at: Buffer,
}

/// Room for the numbers of an update.
const UPDATE_BYTES: usize = 64;

thread_local! {
    static ACTIVE: RefCell<Option<Active>> = const { RefCell::new(None) };
}

/// Asks what the calling thread records on a device. `None` also while a thread ends.
fn active<T>(ordinal: usize, look: impl FnOnce(&mut Active) -> T) -> Option<T> {
    let look = |active: &RefCell<Option<Active>>| {
        let mut active = active.try_borrow_mut().ok()?;
        active.as_mut().filter(|active| active.device.ordinal() == ordinal).map(look)
    };
    ACTIVE.try_with(look).ok().flatten()
}

/// The stream that the calling thread records on.
pub(super) fn stream(ordinal: usize) -> Option<sys::CUstream> {
    active(ordinal, |active| active.stream)
}

/// The memory of what the calling thread records.
pub(super) fn pool(ordinal: usize) -> Option<Arc<Private>> {
    active(ordinal, |active| active.pool.clone())
}

/// Fails if the calling thread records: a recording runs nothing that could be waited for.
pub(super) fn ensure_none(ordinal: usize, what: &'static str) -> Result<()> {
    ensure(stream(ordinal).is_none(), "recording", "kernels alone", what)
}

/// Where a kernel of a recording finds a key of dropout: an address on the device. `None` if the thread records nothing.
pub(super) fn key_place(ordinal: usize, key: Key) -> Result<Option<u64>> {
    active(ordinal, |active| {
        let inputs = &mut active.inputs;
        let Some(name) = key.within(inputs.key) else {
            return ensure(false, "recording", "dropout from the step's key", "another key").map(|()| 0);
        };
        let place = inputs.names.iter().position(|&known| known == name).unwrap_or_else(|| {
            inputs.names.push(name);
            inputs.names.len() - 1
        });
        ensure(place < MOST_KEYS, "recording", format_args!("at most {MOST_KEYS} keys"), place)?;
        Ok(inputs.keys.view().pointer() + 8 * place as u64)
    })
    .transpose()
}

/// Where the kernel of an update finds its numbers, which `numbers` are at first. `None` if the thread records nothing.
pub(super) fn update_place(ordinal: usize, numbers: &[u8]) -> Result<Option<u64>> {
    active(ordinal, |active| {
        let inputs = &mut active.inputs;
        ensure(inputs.update.is_empty(), "recording", "one update", "another")?;
        ensure(numbers.len() <= UPDATE_BYTES, "recording", UPDATE_BYTES, numbers.len())?;
        inputs.update = numbers.to_vec();
        Ok(inputs.update_at.view().pointer())
    })
    .transpose()
}

/// Ends what the calling thread records, also when the work panics.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(active) = ACTIVE.with(RefCell::take) {
            // What was recorded so far is of no use; without this the stream could not be destroyed.
            let _ = active.end().and_then(destroy);
        }
    }
}

fn destroy(graph: sys::CUgraph) -> Result<()> {
    // SAFETY: the graph came from the end of a capture and is destroyed once.
    unsafe { sys::cuGraphDestroy(graph) }.check("cuGraphDestroy")
}

impl Active {
    fn begin(device: &Arc<Device>, key: Key) -> Result<Self> {
        let pool = Private::new(device);
        let inputs = Inputs {
            key,
            names: Vec::new(),
            keys: pool.constant(MOST_KEYS * size_of::<u64>(), Element::U8)?,
            update: Vec::new(),
            update_at: pool.constant(UPDATE_BYTES, Element::U8)?,
        };
        let mut stream = std::ptr::null_mut();
        let no_implicit_order = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // Allocations are allowed meanwhile: nothing that is recorded depends on their order.
        let relaxed = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        device.bind()?;
        // SAFETY: the context is current, and the stream is written to a live variable.
        unsafe {
            sys::cuStreamCreate(&raw mut stream, no_implicit_order).check("cuStreamCreate")?;
            sys::cuStreamBeginCapture_v2(stream, relaxed).check("cuStreamBeginCapture")?;
        }
        Ok(Self { device: device.clone(), stream, pool, inputs })
    }

    /// What was recorded.
    fn end(&self) -> Result<sys::CUgraph> {
        self.pool.close();
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is being captured; it is destroyed once, whether or not the capture succeeded.
        let ended = unsafe {
            let ended = sys::cuStreamEndCapture(self.stream, &raw mut graph).check("cuStreamEndCapture");
            let _ = sys::cuStreamDestroy_v2(self.stream);
            ended
        };
        ended.map(|()| graph)
    }
}

/// Kernels and copies that can be run again and again.
pub struct Recording {
    device: Arc<Device>,
    graph: sys::CUgraphExec,
    nodes: usize,
    inputs: Inputs,
    staging: Staging,
    /// All memory that the graph's kernels read and write.
    _pool: Arc<Private>,
}

// SAFETY: a graph may be launched from any thread that has made its context current; `&mut self` keeps launches apart.
unsafe impl Send for Recording {}

impl Drop for Recording {
    fn drop(&mut self) {
        // SAFETY: the graph was instantiated by `record` and is destroyed once; the driver lets a launch that runs finish.
        let _ = unsafe { sys::cuGraphExecDestroy(self.graph) };
    }
}

impl Recording {
    /// Records what `work` computes on a device, then runs it once. Dropout in it must draw from names within `key`.
    pub(crate) fn record<T>(
        device: &Arc<Device>,
        key: Key,
        work: impl FnOnce() -> crate::Result<T>,
    ) -> crate::Result<(Self, T)> {
        ensure_none(device.ordinal(), "another recording")?;
        // Constants are copied beside the stream of kernels, to memory that earlier kernels may still use.
        device.synchronise()?;
        let begun = Active::begin(device, key)?;
        ACTIVE.with(|active| active.replace(Some(begun)));
        let guard = Guard;
        let result = work()?;
        let active = ACTIVE.with(RefCell::take);
        drop(guard);
        let active = active.ok_or_else(|| Error::Call {
            call: "recording".into(),
            reason: "it was ended by its own work".into(),
        })?;
        let graph = active.end()?;
        let recording = Self::instantiate(active, graph);
        destroy(graph)?;
        let mut recording = recording?;
        recording.run(key, None, &[])?;
        Ok((recording, result))
    }

    fn instantiate(active: Active, graph: sys::CUgraph) -> Result<Self> {
        let Active { device, pool, inputs, .. } = active;
        let (mut executable, mut nodes) = (std::ptr::null_mut(), 0);
        // SAFETY: the graph is alive, the context is current, and the results are written to live variables.
        unsafe {
            sys::cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut nodes).check("cuGraphGetNodes")?;
            sys::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0).check("cuGraphInstantiate")?;
        }
        let staging = Staging::new(&device);
        Ok(Self { device, graph: executable, nodes, inputs, staging, _pool: pool })
    }

    /// How many kernels and copies it holds.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Runs it again: with other keys of dropout, other numbers of the update (those of the last run if not given), and
    /// other bytes in memory of the device.
    pub(crate) fn run(&mut self, key: Key, update: Option<&[u8]>, others: &[(&Buffer, &[u8])]) -> Result<()> {
        let inputs = &mut self.inputs;
        if let Some(update) = update {
            ensure(update.len() == inputs.update.len(), "replay", inputs.update.len(), update.len())?;
            inputs.update = update.to_vec();
        }
        let halves = inputs.names.iter().flat_map(|&name| key.named(name).halves());
        let keys: Vec<u32> = halves.collect();
        let mut copies: Vec<(&Buffer, &[u8])> = others.to_vec();
        copies.push((&inputs.keys, bytemuck::cast_slice(&keys)));
        copies.push((&inputs.update_at, &inputs.update));
        self.staging.send(&copies)?;
        self.device.bind()?;
        // SAFETY: the graph is alive, and so is all memory that it uses.
        unsafe { sys::cuGraphLaunch(self.graph, self.device.stream()) }.check("cuGraphLaunch")
    }
}
