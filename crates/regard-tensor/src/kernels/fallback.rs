//! The CPU's kernels for arrays of any device and type.

use super::operands::Operands;
use crate::array::Array;
use crate::cpu::convert::convert;
use crate::error::Result;
use crate::ids::Ids;
use crate::storage::Device;
use crate::traffic;

/// Runs a kernel of the CPU: on the operands as they are if it can read them, else on copies.
///
/// Values of 16 bits are widened. Values on another device are copied to main memory, the results are moved to the device
/// of the first operand, and the round trip is counted under the kernel's name.
#[allow(clippy::needless_pass_by_value, reason = "operands are references made for this call")]
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
#[allow(clippy::needless_pass_by_value, reason = "operands are references made for this call")]
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
    put_back(&host, target)
}

/// Replaces values by others that were computed in main memory, keeping device and type.
pub(crate) fn put_back(host: &Array, target: &mut Array) -> Result<()> {
    *target = convert(host, target.data_type()).to_device(target.device())?;
    Ok(())
}

/// Counts a round trip, unless it stayed in main memory.
pub(crate) fn count(name: &'static str, device: Device) {
    if device != Device::Cpu {
        traffic::count_fallback(name);
    }
}

/// What a kernel returns: arrays, ids, and values made of them.
pub(crate) trait Moves: Sized {
    /// The same on a device.
    fn moved(self, device: Device) -> Result<Self>;
}

impl Moves for Array {
    fn moved(self, device: Device) -> Result<Self> {
        self.to_device(device)
    }
}

impl Moves for Ids {
    fn moved(self, device: Device) -> Result<Self> {
        self.moved(device)
    }
}

impl<T: Moves> Moves for Option<T> {
    fn moved(self, device: Device) -> Result<Self> {
        self.map(|one| one.moved(device)).transpose()
    }
}

impl<T: Moves> Moves for Vec<T> {
    fn moved(self, device: Device) -> Result<Self> {
        self.into_iter().map(|one| one.moved(device)).collect()
    }
}

impl<A: Moves, B: Moves> Moves for (A, B) {
    fn moved(self, device: Device) -> Result<Self> {
        Ok((self.0.moved(device)?, self.1.moved(device)?))
    }
}

/// [`Moves`] for a struct, field by field.
macro_rules! moves {
    ($name:ident { $($field:ident),* }) => {
        impl $crate::kernels::Moves for $name {
            fn moved(self, device: $crate::storage::Device) -> $crate::error::Result<Self> {
                Ok(Self { $($field: $crate::kernels::Moves::moved(self.$field, device)?),* })
            }
        }
    };
}

pub(crate) use moves;
