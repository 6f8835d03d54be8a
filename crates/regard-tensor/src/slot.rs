//! Memory that a replay fills with another batch: ids, masks and values, and what is computed from them on the host.
//!
//! A recorded step reads its batch where the recorded one was. Much of what it reads is not in the batch itself: the places
//! of tokens follow from a mask, the rows that count from the targets. Such values come from a rule, which a replay applies
//! to its own batch. A rule also says which batches fit: the recorded kernels were chosen for ids below a limit, or for so
//! many rows.

use crate::array::Array;
use crate::cuda::Buffer;
use crate::error::Result;
use crate::ids::{Ids, Mask};
use crate::storage::{Device, Memory};
use crate::tensor::Tensor;
use crate::traffic;
use bytemuck::NoUninit;
use std::sync::{Arc, Mutex, PoisonError};

/// Ids or booleans on a device that a replay exchanges.
pub(crate) struct Slot<T> {
    /// Those of the step at hand.
    values: Box<[T]>,
    memory: Arc<Memory>,
    rules: Mutex<Vec<Rule<T>>>,
}

/// What follows from other values; `false` if they do not fit.
type Rule<T> = Box<dyn Fn(&[T], &mut Exchange) -> bool + Send + Sync>;

impl<T: NoUninit + Send + Sync> Slot<T> {
    pub fn new(device: Device, values: &[T]) -> Result<Self> {
        let memory = Arc::new(Memory::store(device, bytemuck::cast_slice(values))?);
        traffic::count_upload();
        Ok(Self { values: values.into(), memory, rules: Mutex::default() })
    }

    /// The values of the step at hand. What depends on them belongs into a rule.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    pub fn memory(&self) -> Arc<Memory> {
        self.memory.clone()
    }

    /// Whether the values meet a condition. If they do, so must those of a replay.
    pub fn require(&self, condition: impl Fn(&[T]) -> bool + Send + Sync + 'static) -> bool {
        let met = condition(&self.values);
        if met {
            self.add(Box::new(move |values, _| condition(values)));
        }
        met
    }

    /// A slot for what a rule makes of the values, `None` if it does not apply to them.
    pub fn derive<U: NoUninit + Send + Sync + 'static>(
        &self,
        rule: impl Fn(&[T]) -> Option<Vec<U>> + Send + Sync + 'static,
    ) -> Result<Option<Arc<Slot<U>>>> {
        let Some(values) = rule(&self.values) else { return Ok(None) };
        let derived = Arc::new(Slot::new(self.memory.device(), &values)?);
        let slot = derived.clone();
        self.add(Box::new(move |values, exchange| {
            rule(values).is_some_and(|values| slot.exchange(&values, exchange))
        }));
        Ok(Some(derived))
    }

    /// The same for numbers, as an array.
    pub fn derive_array(&self, rule: impl Fn(&[T]) -> Vec<f32> + Send + Sync + 'static) -> Result<Array> {
        let array = Array::copy_of(&rule(&self.values)).to_device(self.memory.device())?;
        traffic::count_upload();
        let place = array.clone();
        self.add(Box::new(move |values, exchange| {
            exchange.copy(Place::Array(place.clone()), &rule(values), place.len())
        }));
        Ok(array)
    }

    fn add(&self, rule: Rule<T>) {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }

    /// Notes down what a replay with these values writes; `false` if they do not fit.
    pub fn exchange(&self, values: &[T], exchange: &mut Exchange) -> bool {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        exchange.copy(Place::Memory(self.memory.clone()), values, self.values.len())
            && rules.iter().all(|rule| rule(values, exchange))
    }
}

/// Where a replay writes.
enum Place {
    Memory(Arc<Memory>),
    Array(Array),
}

/// What a replay puts into slots.
///
/// ```
/// use regard_tensor::{Device, Exchange, Ids, Tensor};
/// let slot = Ids::new(&[2, 0], [2])?.slot(Device::Apart)?;
/// let table = Tensor::zeros([3, 4]).to(Device::Apart)?;
/// table.embedding(&slot)?;
/// // Ids that fit are as many, and within the table.
/// let mut exchange = Exchange::new();
/// assert!(exchange.put(&slot, &Ids::new(&[1, 1], [2])?));
/// assert!(!exchange.put(&slot, &Ids::new(&[1, 3], [2])?));
/// # Ok::<(), regard_tensor::Error>(())
/// ```
#[derive(Default)]
pub struct Exchange {
    copies: Vec<(Place, Vec<u8>)>,
}

impl Exchange {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what a slot should get; `false` if it does not fit, and the exchange is of no use then.
    pub fn put<S: Exchangeable>(&mut self, slot: &S, with: &S) -> bool {
        slot.exchange(with, self)
    }

    fn copy<T: NoUninit>(&mut self, place: Place, values: &[T], room: usize) -> bool {
        self.copies.push((place, bytemuck::cast_slice(values).to_vec()));
        values.len() == room
    }

    /// The memory of a CUDA device and what goes there; `None` if a slot is elsewhere.
    pub(crate) fn on_cuda(&self) -> Option<Vec<(&Buffer, &[u8])>> {
        let copies = self.copies.iter().map(|(place, bytes)| {
            let memory = match place {
                Place::Memory(memory) => Some(&**memory),
                Place::Array(array) => array.memory().map(|(memory, _)| memory),
            };
            match memory {
                Some(Memory::Cuda(stored)) => Some((stored.buffer(), &**bytes)),
                _ => None,
            }
        });
        copies.collect()
    }

    /// What a replay will write: for each slot its own bytes, then those that follow from it.
    pub fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.copies.iter().map(|(_, bytes)| &**bytes)
    }
}

/// What can be in a slot.
pub trait Exchangeable {
    /// Notes down what a replay writes so that the slot holds `with`; `false` if that does not fit.
    fn exchange(&self, with: &Self, into: &mut Exchange) -> bool;
}

impl Exchangeable for Ids {
    fn exchange(&self, with: &Self, into: &mut Exchange) -> bool {
        self.shape() == with.shape() && self.in_slot().is_some_and(|slot| slot.exchange(with.values(), into))
    }
}

impl Exchangeable for Mask {
    fn exchange(&self, with: &Self, into: &mut Exchange) -> bool {
        self.shape() == with.shape() && self.in_slot().is_some_and(|slot| slot.exchange(with.values(), into))
    }
}

impl Exchangeable for Tensor {
    fn exchange(&self, with: &Self, into: &mut Exchange) -> bool {
        let array = self.array.clone();
        self.shape() == with.shape()
            && array.memory().is_some()
            && into.copy(Place::Array(array), &with.values(), self.count())
    }
}

/// Both are there, or neither.
impl<T: Exchangeable> Exchangeable for Option<T> {
    fn exchange(&self, with: &Self, into: &mut Exchange) -> bool {
        match (self, with) {
            (Some(slot), Some(with)) => slot.exchange(with, into),
            (None, None) => true,
            _ => false,
        }
    }
}
