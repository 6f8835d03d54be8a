//! Integer ids and boolean masks: not tensors, so that they cannot be multiplied or differentiated by mistake.
//!
//! Ids and masks are usually created in main memory; a kernel on another device gets a copy when it first needs one. Ids
//! that a kernel computes, such as the result of `argmax`, stay on its device until their values are read.

use crate::copies::Copies;
use crate::error::{Error, Result, ensure_shape};
use crate::shape::Shape;
use crate::storage::{Device, Memory};
use crate::traffic;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An n-dimensional array of non-negative integers: token ids, class labels, positions. Cheap to clone.
///
/// ```
/// use regard_tensor::Ids;
/// let ids = Ids::new(&[3, 1, 4, 1], [2, 2])?;
/// assert_eq!(ids.values(), [3, 1, 4, 1]);
/// # Ok::<(), regard_tensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Ids {
    copies: Arc<Copies<u32>>,
    shape: Shape,
    /// An upper bound of the ids (exclusive), if it is known without reading them.
    bound: Option<usize>,
    /// For ids in a slot: all ids that may come into it must be below this, as operations on them required.
    limit: Option<Arc<AtomicUsize>>,
}

impl Ids {
    /// Ids in row-major order.
    pub fn new(values: &[u32], shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        ensure_shape(
            shape.count() == values.len(),
            "ids",
            || format!("{} values for {shape}", shape.count()),
            || format!("{} values", values.len()),
        )?;
        Ok(Self { copies: Arc::new(Copies::new(values.into())), shape, bound: None, limit: None })
    }

    /// Ids in one row, all below `bound`.
    pub(crate) fn row(values: Vec<u32>, bound: usize) -> Self {
        let shape = [values.len()].into();
        Self { copies: Arc::new(Copies::new(values.into())), shape, bound: Some(bound), limit: None }
    }

    /// The ids in row-major order, copied to the host if they are on another device.
    pub fn values(&self) -> &[u32] {
        if self.copies.on_host().is_none() {
            traffic::count_host_read();
        }
        self.copies.read()
    }

    /// The number of ids.
    pub fn count(&self) -> usize {
        self.copies.count()
    }

    /// The lengths of the axes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Copies the ids to a device now, instead of when a kernel there first needs them.
    pub fn to(&self, device: Device) -> Result<Self> {
        if device != Device::Cpu {
            self.copies.on(device)?;
        }
        Ok(self.clone())
    }

    /// The same ids on a device alone, as inputs of a [`Recording`](crate::Recording): a replay may put others in their
    /// place.
    pub fn slot(&self, device: Device) -> Result<Self> {
        let bound = self.values().iter().max().map_or(0, |&most| most as usize + 1);
        let memory = Memory::store(device, bytemuck::cast_slice(self.values()))?;
        traffic::count_upload();
        let copies = Arc::new(Copies::on_device(memory, self.count()));
        let limit = Some(Arc::new(AtomicUsize::new(usize::MAX)));
        Ok(Self { copies, shape: self.shape.clone(), bound: Some(bound), limit })
    }

    /// Whether these ids, in a slot, can be replaced by others: as many, and in the range that operations required.
    pub fn can_become(&self, ids: &Self) -> bool {
        let limit = self.limit.as_ref().map_or(0, |limit| limit.load(Ordering::Relaxed));
        self.shape == ids.shape && ids.values().iter().all(|&id| (id as usize) < limit)
    }

    /// Whether all ids are known to be below `limit`, without reading them.
    pub(crate) fn are_known_below(&self, limit: usize) -> bool {
        let known = self.bound.is_some_and(|bound| bound <= limit);
        if let (true, Some(least)) = (known, &self.limit) {
            least.fetch_min(limit, Ordering::Relaxed);
        }
        known
    }

    /// Whether all ids are below `limit`. Ids in a slot are not read: a replay puts none there that is not.
    pub fn are_below(&self, limit: usize) -> bool {
        self.are_known_below(limit)
            || self.limit.is_none() && self.values().iter().all(|&id| (id as usize) < limit)
    }

    /// The device that has a copy, the CPU if none has.
    pub(crate) fn device(&self) -> Device {
        self.copies.device()
    }

    /// How many ids are not `id`.
    pub(crate) fn count_without(&self, id: Option<u32>) -> usize {
        match id {
            Some(id) if !self.are_known_below(id as usize) => {
                self.values().iter().filter(|&&other| other != id).count()
            }
            _ => self.count(),
        }
    }

    /// The same ids in another shape of the same count.
    pub fn reshape(&self, shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        ensure_shape(
            shape.count() == self.count(),
            "reshape",
            || format!("a shape of {} ids", self.count()),
            || shape.to_string(),
        )?;
        Ok(Self { shape, ..self.clone() })
    }

    /// Returns an error that names the first id that is not below `limit`.
    pub(crate) fn ensure_below(&self, operation: &'static str, limit: usize) -> Result<()> {
        if self.are_known_below(limit) {
            return Ok(());
        }
        match self.values().iter().find(|&&id| id as usize >= limit) {
            None => Ok(()),
            Some(&id) => Err(Error::OutOfRange { operation, what: "id", index: id as usize, limit }),
        }
    }

    /// The ids, for CPU kernels. The dispatch in `kernels` copies them to the host before it calls one.
    pub(crate) fn slice(&self) -> &[u32] {
        self.copies.on_host().expect("ids have been read to main memory")
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.copies.on_host().is_some()
    }

    pub(crate) fn to_host(&self) -> Self {
        self.copies.read();
        self.clone()
    }

    /// The ids on a device, copied there if necessary.
    pub(crate) fn on(&self, device: Device) -> Result<Arc<Memory>> {
        self.copies.on(device)
    }

    /// Ids in one row in the memory of a device, all below `bound`.
    pub(crate) fn on_device(memory: Memory, count: usize, bound: usize) -> Self {
        let shape = [count].into();
        Self { copies: Arc::new(Copies::on_device(memory, count)), shape, bound: Some(bound), limit: None }
    }

    /// Moves ids that a kernel computed to its device.
    pub(crate) fn moved(self, device: Device) -> Result<Self> {
        if device == Device::Cpu {
            return Ok(self);
        }
        let memory = Memory::store(device, bytemuck::cast_slice(self.slice()))?;
        Ok(Self { copies: Arc::new(Copies::on_device(memory, self.count())), ..self })
    }
}

impl PartialEq for Ids {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.values() == other.values()
    }
}

impl Eq for Ids {}

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ids{} {:?}", self.shape, self.values())
    }
}

/// An n-dimensional array of booleans. Cheap to clone. In attention, `true` means "may attend".
#[derive(Clone)]
pub struct Mask {
    copies: Arc<Copies<bool>>,
    shape: Shape,
}

impl Mask {
    /// A mask in row-major order.
    pub fn new(values: &[bool], shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        ensure_shape(
            shape.count() == values.len(),
            "mask",
            || format!("{} values for {shape}", shape.count()),
            || format!("{} values", values.len()),
        )?;
        Ok(Self { copies: Arc::new(Copies::new(values.into())), shape })
    }

    /// A mask computed from the index of each element.
    pub fn from_fn(shape: impl Into<Shape>, mut allowed: impl FnMut(&[usize]) -> bool) -> Self {
        let shape = shape.into();
        let mut index = vec![0; shape.rank()];
        let values = (0..shape.count())
            .map(|flat| {
                let mut rest = flat;
                for (i, &length) in index.iter_mut().zip(shape.iter()).rev() {
                    *i = rest % length;
                    rest /= length;
                }
                allowed(&index)
            })
            .collect();
        Self { copies: Arc::new(Copies::new(values)), shape }
    }

    /// The mask on a device, copied there if necessary.
    pub(crate) fn on(&self, device: Device) -> Result<Arc<Memory>> {
        self.copies.on(device)
    }

    /// The values in row-major order.
    pub fn values(&self) -> &[bool] {
        self.copies.read()
    }

    /// The lengths of the axes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Copies the mask to a device now, instead of when a kernel there first needs it.
    pub fn to(&self, device: Device) -> Result<Self> {
        if device != Device::Cpu {
            self.copies.on(device)?;
        }
        Ok(self.clone())
    }
}

impl PartialEq for Mask {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.values() == other.values()
    }
}

impl Eq for Mask {}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mask{} {:?}", self.shape, self.values())
    }
}
