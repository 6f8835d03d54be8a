//! The CPU's kernels for arrays of any device and type.

use crate::array::Array;
use crate::error::Result;
use crate::ids::{Ids, Mask};
use crate::storage::Device;
use crate::traffic;

/// Runs a kernel of the CPU: on the operands as they are, if it can read them, else on copies.
///
/// Values of 16 bits are widened first. Values on another device are copied, the results are moved there, and the round trip is counted under
/// the kernel's name. The first operand says where results go.
pub(crate) fn on_cpu<O: Operands, R: Moves>(
    name: &'static str,
    operands: O,
    kernel: impl FnOnce(O::Borrowed<'_>) -> R,
) -> Result<R> {
    if operands.are_ready() {
        return Ok(kernel(operands.direct()));
    }
    let device = operands.device();
    count(name, device);
    let copies = operands.copies();
    kernel(O::borrow(&copies)).moved(device)
}

/// The same for a kernel that changes an array, which keeps its device and type.
pub(crate) fn on_cpu_in_place<O: Operands>(
    name: &'static str,
    target: &mut Array,
    operands: O,
    kernel: impl FnOnce(&mut Array, O::Borrowed<'_>),
) -> Result<()> {
    if target.is_ready() && operands.are_ready() {
        kernel(target, operands.direct());
        return Ok(());
    }
    count(name, target.device());
    let mut host = target.to_host();
    let copies = operands.copies();
    kernel(&mut host, O::borrow(&copies));
    put_back(host, target)
}

/// Replaces values by others that were computed in main memory, keeping device and type.
pub(crate) fn put_back(host: Array, target: &mut Array) -> Result<()> {
    *target = crate::cpu::convert::convert(&host, target.data_type()).to_device(target.device())?;
    Ok(())
}

pub(crate) fn count(name: &'static str, device: Device) {
    if device != Device::Cpu {
        traffic::count_fallback(name);
    }
}

/// Arrays, ids, and values made of them: what can be moved between main memory and a device.
pub(crate) trait Moves: Sized {
    fn device(&self) -> Device;
    /// Whether the CPU's kernels can read all of it where it is.
    fn is_ready(&self) -> bool;
    /// The same, as they can read it.
    fn to_host(&self) -> Self;
    /// The same on a device.
    fn moved(self, device: Device) -> Result<Self>;
}

impl Moves for Array {
    fn device(&self) -> Device {
        self.device()
    }

    fn is_ready(&self) -> bool {
        self.is_ready()
    }

    fn to_host(&self) -> Self {
        self.to_host()
    }

    fn moved(self, device: Device) -> Result<Self> {
        self.to_device(device)
    }
}

impl Moves for Ids {
    fn device(&self) -> Device {
        Device::Cpu
    }

    fn is_ready(&self) -> bool {
        self.is_ready()
    }

    fn to_host(&self) -> Self {
        self.to_host()
    }

    fn moved(self, device: Device) -> Result<Self> {
        self.moved(device)
    }
}

/// Masks are always made in main memory.
impl Moves for Mask {
    fn device(&self) -> Device {
        Device::Cpu
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn to_host(&self) -> Self {
        self.clone()
    }

    fn moved(self, _: Device) -> Result<Self> {
        Ok(self)
    }
}

impl<T: Moves> Moves for Option<T> {
    fn device(&self) -> Device {
        self.as_ref().map_or(Device::Cpu, T::device)
    }

    fn is_ready(&self) -> bool {
        self.as_ref().is_none_or(T::is_ready)
    }

    fn to_host(&self) -> Self {
        self.as_ref().map(T::to_host)
    }

    fn moved(self, device: Device) -> Result<Self> {
        self.map(|one| one.moved(device)).transpose()
    }
}

impl<T: Moves> Moves for Vec<T> {
    fn device(&self) -> Device {
        self.first().map_or(Device::Cpu, T::device)
    }

    fn is_ready(&self) -> bool {
        self.iter().all(T::is_ready)
    }

    fn to_host(&self) -> Self {
        self.iter().map(T::to_host).collect()
    }

    fn moved(self, device: Device) -> Result<Self> {
        self.into_iter().map(|one| one.moved(device)).collect()
    }
}

impl<A: Moves, B: Moves> Moves for (A, B) {
    fn device(&self) -> Device {
        self.0.device()
    }

    fn is_ready(&self) -> bool {
        self.0.is_ready() && self.1.is_ready()
    }

    fn to_host(&self) -> Self {
        (self.0.to_host(), self.1.to_host())
    }

    fn moved(self, device: Device) -> Result<Self> {
        Ok((self.0.moved(device)?, self.1.moved(device)?))
    }
}

/// [`Moves`] for a struct, field by field.
macro_rules! moves {
    ($name:ident { $first:ident $(, $field:ident)* }) => {
        impl $crate::kernels::Moves for $name {
            fn device(&self) -> $crate::storage::Device {
                $crate::kernels::Moves::device(&self.$first)
            }

            fn is_ready(&self) -> bool {
                $crate::kernels::Moves::is_ready(&self.$first)
                    $(&& $crate::kernels::Moves::is_ready(&self.$field))*
            }

            fn to_host(&self) -> Self {
                Self {
                    $first: $crate::kernels::Moves::to_host(&self.$first),
                    $($field: $crate::kernels::Moves::to_host(&self.$field)),*
                }
            }

            fn moved(self, device: $crate::storage::Device) -> $crate::error::Result<Self> {
                Ok(Self {
                    $first: $crate::kernels::Moves::moved(self.$first, device)?,
                    $($field: $crate::kernels::Moves::moved(self.$field, device)?),*
                })
            }
        }
    };
}

pub(crate) use moves;

/// What an entry point reads: references to things that move.
pub(crate) trait Operands {
    /// Copies that the CPU's kernels can read.
    type Copies;
    /// The operands as a kernel gets them, borrowed from the caller or from copies.
    type Borrowed<'a>;

    fn device(&self) -> Device;
    fn are_ready(&self) -> bool;
    fn direct(&self) -> Self::Borrowed<'_>;
    fn copies(&self) -> Self::Copies;
    fn borrow(copies: &Self::Copies) -> Self::Borrowed<'_>;
}

impl<T: Moves + 'static> Operands for &T {
    type Copies = T;
    type Borrowed<'a> = &'a T;

    fn device(&self) -> Device {
        T::device(self)
    }

    fn are_ready(&self) -> bool {
        self.is_ready()
    }

    fn direct(&self) -> &T {
        self
    }

    fn copies(&self) -> T {
        self.to_host()
    }

    fn borrow(copies: &T) -> &T {
        copies
    }
}

impl<T: Moves + 'static> Operands for Option<&T> {
    type Copies = Option<T>;
    type Borrowed<'a> = Option<&'a T>;

    fn device(&self) -> Device {
        self.map_or(Device::Cpu, T::device)
    }

    fn are_ready(&self) -> bool {
        self.is_none_or(T::is_ready)
    }

    fn direct(&self) -> Option<&T> {
        *self
    }

    fn copies(&self) -> Option<T> {
        self.map(T::to_host)
    }

    fn borrow(copies: &Option<T>) -> Option<&T> {
        copies.as_ref()
    }
}

impl<T: Moves + 'static> Operands for &[T] {
    type Copies = Vec<T>;
    type Borrowed<'a> = &'a [T];

    fn device(&self) -> Device {
        self.first().map_or(Device::Cpu, T::device)
    }

    fn are_ready(&self) -> bool {
        self.iter().all(T::is_ready)
    }

    fn direct(&self) -> &[T] {
        self
    }

    fn copies(&self) -> Vec<T> {
        self.iter().map(T::to_host).collect()
    }

    fn borrow(copies: &Vec<T>) -> &[T] {
        copies
    }
}

impl<T: Moves + 'static> Operands for Vec<&T> {
    type Copies = Vec<T>;
    type Borrowed<'a> = Vec<&'a T>;

    fn device(&self) -> Device {
        self.first().map_or(Device::Cpu, |first| first.device())
    }

    fn are_ready(&self) -> bool {
        self.iter().all(|one| one.is_ready())
    }

    fn direct(&self) -> Vec<&T> {
        self.clone()
    }

    fn copies(&self) -> Vec<T> {
        self.iter().map(|one| one.to_host()).collect()
    }

    fn borrow(copies: &Vec<T>) -> Vec<&T> {
        copies.iter().collect()
    }
}

macro_rules! tuples {
    ($($first:ident $($letter:ident)*;)*) => {$(
        #[allow(non_snake_case)]
        impl<$first: Operands, $($letter: Operands),*> Operands for ($first, $($letter),*) {
            type Copies = ($first::Copies, $($letter::Copies),*);
            type Borrowed<'a> = ($first::Borrowed<'a>, $($letter::Borrowed<'a>),*);

            fn device(&self) -> Device {
                self.0.device()
            }

            fn are_ready(&self) -> bool {
                let ($first, $($letter),*) = self;
                $first.are_ready() $(&& $letter.are_ready())*
            }

            fn direct(&self) -> Self::Borrowed<'_> {
                let ($first, $($letter),*) = self;
                ($first.direct(), $($letter.direct()),*)
            }

            fn copies(&self) -> Self::Copies {
                let ($first, $($letter),*) = self;
                ($first.copies(), $($letter.copies()),*)
            }

            fn borrow(copies: &Self::Copies) -> Self::Borrowed<'_> {
                let ($first, $($letter),*) = copies;
                ($first::borrow($first), $($letter::borrow($letter)),*)
            }
        }
    )*};
}

tuples! {
    A B;
    A B C;
    A B C D;
}
