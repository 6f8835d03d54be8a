//! Integer ids and boolean masks: not tensors, so that they cannot be multiplied or differentiated by mistake.
//!
//! Ids and masks are usually created in main memory; a kernel on another device gets a copy when it first needs one. Ids
//! that a kernel computes, such as the result of `argmax`, stay on its device until their values are read.

use crate::copies::Copies;
use crate::error::{Error, Result, ensure_shape};
use crate::shape::Shape;
use crate::slot::Slot;
use crate::storage::{Device, Memory};
use crate::tensor::Tensor;
use crate::traffic;
use bytemuck::NoUninit;
use std::fmt;
use std::sync::Arc;

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
    slot: Option<Arc<Slot<u32>>>,
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
        Ok(Self { copies: Arc::new(Copies::new(values.into())), shape, bound: None, slot: None })
    }

    /// Ids in one row, all below `bound`.
    pub(crate) fn row(values: Vec<u32>, bound: usize) -> Self {
        let shape = [values.len()].into();
        Self { copies: Arc::new(Copies::new(values.into())), shape, bound: Some(bound), slot: None }
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
    /// place, see [`Exchange`](crate::Exchange).
    pub fn slot(&self, device: Device) -> Result<Self> {
        Ok(Self::of_slot(Arc::new(Slot::new(device, self.values())?), self.shape.clone()))
    }

    fn of_slot(slot: Arc<Slot<u32>>, shape: Shape) -> Self {
        let copies = Arc::new(Copies::on_device(slot.memory(), shape.count()));
        Self { copies, shape, bound: None, slot: Some(slot) }
    }

    /// Whether a replay may put others in the place of these.
    pub fn is_slot(&self) -> bool {
        self.slot.is_some()
    }

    pub(crate) fn in_slot(&self) -> Option<&Slot<u32>> {
        self.slot.as_deref()
    }

    /// The ids, known without reading them if they are in a slot. What depends on them is not that of a replay:
    /// [`Self::require`] and [`Self::derive`] are for that.
    pub(crate) fn at_present(&self) -> &[u32] {
        self.slot.as_ref().map_or_else(|| self.values(), |slot| slot.values())
    }

    /// Whether the ids meet a condition. In a slot, no others may come that do not.
    pub(crate) fn require(&self, condition: impl Fn(&[u32]) -> bool + Send + Sync + 'static) -> bool {
        match &self.slot {
            Some(slot) => slot.require(condition),
            None => condition(self.values()),
        }
    }

    /// Ids that a rule computes on the host: again for each replay, if these are in a slot.
    pub fn derive(
        &self,
        shape: impl Into<Shape>,
        rule: impl Fn(&[u32]) -> Vec<u32> + Send + Sync + 'static,
    ) -> Result<Self> {
        derived(self.in_slot(), || self.values(), shape.into(), move |ids| Some(rule(ids)))?
            .ok_or_else(|| Error::Segment("a rule that always applies did not".into()))
    }

    /// The same by a rule that is `None` for ids that it does not apply to; they come into no replay.
    pub fn derive_some(
        &self,
        shape: impl Into<Shape>,
        rule: impl Fn(&[u32]) -> Option<Vec<u32>> + Send + Sync + 'static,
    ) -> Result<Option<Self>> {
        derived(self.in_slot(), || self.values(), shape.into(), rule)
    }

    /// The same for values on a device.
    pub fn derive_values(
        &self,
        device: Device,
        shape: impl Into<Shape>,
        rule: impl Fn(&[u32]) -> Vec<f32> + Send + Sync + 'static,
    ) -> Result<Tensor> {
        derived_values(self.in_slot(), || self.values(), (device, shape.into()), rule)
    }

    /// Whether all ids are known to be below `limit`, without reading them. A replay puts none into a slot that are not.
    pub(crate) fn are_known_below(&self, limit: usize) -> bool {
        match &self.slot {
            Some(slot) => slot.require(move |ids| ids.iter().all(|&id| (id as usize) < limit)),
            None => self.bound.is_some_and(|bound| bound <= limit),
        }
    }

    /// Whether all ids are below `limit`.
    pub fn are_below(&self, limit: usize) -> bool {
        self.are_known_below(limit) || self.at_present().iter().all(|&id| (id as usize) < limit)
    }

    /// How many ids are not `id`: all of them in every replay, or as many as at present.
    pub(crate) fn count_without(&self, id: Option<u32>) -> usize {
        match id {
            Some(id) if !self.are_known_below(id as usize) => {
                self.at_present().iter().filter(|&&other| other != id).count()
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

    /// Returns an error that names the first id that is not below `limit`, with what the operation takes it for.
    pub(crate) fn ensure_below(
        &self,
        (operation, what): (&'static str, &'static str),
        limit: usize,
    ) -> Result<()> {
        if self.are_known_below(limit) {
            return Ok(());
        }
        match self.at_present().iter().find(|&&id| id as usize >= limit) {
            None => Ok(()),
            Some(&id) => Err(Error::OutOfRange { operation, what, index: id as usize, limit }),
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
        Self {
            copies: Arc::new(Copies::on_device(Arc::new(memory), count)),
            shape,
            bound: Some(bound),
            slot: None,
        }
    }

    /// Moves ids that a kernel computed to its device.
    pub(crate) fn moved(self, device: Device) -> Result<Self> {
        if device == Device::Cpu {
            return Ok(self);
        }
        let memory = Memory::store(device, bytemuck::cast_slice(self.slice()))?;
        Ok(Self { copies: Arc::new(Copies::on_device(Arc::new(memory), self.count())), ..self })
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
    slot: Option<Arc<Slot<bool>>>,
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
        Ok(Self { copies: Arc::new(Copies::new(values.into())), shape, slot: None })
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
        Self { copies: Arc::new(Copies::new(values)), shape, slot: None }
    }

    /// The mask on a device, copied there if necessary.
    pub(crate) fn on(&self, device: Device) -> Result<Arc<Memory>> {
        self.copies.on(device)
    }

    /// The mask on a device alone, as an input of a [`Recording`](crate::Recording): see [`Ids::slot`].
    pub fn slot(&self, device: Device) -> Result<Self> {
        let slot = Arc::new(Slot::new(device, self.values())?);
        let copies = Arc::new(Copies::on_device(slot.memory(), self.shape.count()));
        Ok(Self { copies, shape: self.shape.clone(), slot: Some(slot) })
    }

    pub(crate) fn in_slot(&self) -> Option<&Slot<bool>> {
        self.slot.as_deref()
    }

    /// Ids that a rule computes on the host: again for each replay, if the mask is in a slot.
    pub fn derive(
        &self,
        shape: impl Into<Shape>,
        rule: impl Fn(&[bool]) -> Vec<u32> + Send + Sync + 'static,
    ) -> Result<Ids> {
        derived(self.in_slot(), || self.values(), shape.into(), move |mask| Some(rule(mask)))?
            .ok_or_else(|| Error::Segment("a rule that always applies did not".into()))
    }

    /// The same by a rule that is `None` for masks that it does not apply to; they come into no replay.
    pub fn derive_some(
        &self,
        shape: impl Into<Shape>,
        rule: impl Fn(&[bool]) -> Option<Vec<u32>> + Send + Sync + 'static,
    ) -> Result<Option<Ids>> {
        derived(self.in_slot(), || self.values(), shape.into(), rule)
    }

    /// The same for values on a device.
    pub fn derive_values(
        &self,
        device: Device,
        shape: impl Into<Shape>,
        rule: impl Fn(&[bool]) -> Vec<f32> + Send + Sync + 'static,
    ) -> Result<Tensor> {
        derived_values(self.in_slot(), || self.values(), (device, shape.into()), rule)
    }

    /// The values in row-major order, copied to the host if they are on another device.
    pub fn values(&self) -> &[bool] {
        if self.copies.on_host().is_none() {
            traffic::count_host_read();
        }
        self.copies.read()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.copies.on_host().is_some()
    }

    pub(crate) fn to_host(&self) -> Self {
        self.copies.read();
        self.clone()
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

/// What a rule makes of values in a slot or in main memory.
fn derived<'a, T: NoUninit + Send + Sync>(
    slot: Option<&Slot<T>>,
    values: impl FnOnce() -> &'a [T],
    shape: Shape,
    rule: impl Fn(&[T]) -> Option<Vec<u32>> + Send + Sync + 'static,
) -> Result<Option<Ids>> {
    match slot {
        Some(slot) => Ok(slot.derive(rule)?.map(|slot| Ids::of_slot(slot, shape))),
        None => rule(values()).map(|ids| Ids::new(&ids, shape)).transpose(),
    }
}

fn derived_values<'a, T: NoUninit + Send + Sync>(
    slot: Option<&Slot<T>>,
    values: impl FnOnce() -> &'a [T],
    (device, shape): (Device, Shape),
    rule: impl Fn(&[T]) -> Vec<f32> + Send + Sync + 'static,
) -> Result<Tensor> {
    match slot {
        Some(slot) => Ok(Tensor::from_array(slot.derive_array(rule)?, shape)),
        None => Tensor::new(&rule(values()), shape)?.to(device),
    }
}
