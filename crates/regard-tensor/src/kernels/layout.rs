//! Moving values: permuted axes, parts of an axis, arrays joined along an axis, image patches.

use super::reduce::Axis;
use super::{on_cpu, on_cpu_in_place};
use crate::array::Array;
use crate::cpu;
use crate::error::Result;
use crate::shape::Shape;
use crate::storage::Device;

/// Square patches of an image, and where they lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patches {
    pub batch: usize,
    pub channels: usize,
    pub height: usize,
    pub width: usize,
    pub size: usize,
}

impl Patches {
    pub fn across(self) -> usize {
        self.width / self.size
    }

    pub fn count(self) -> usize {
        self.across() * (self.height / self.size)
    }

    pub fn values(self) -> usize {
        self.channels * self.size * self.size
    }
}

/// The array with its axes in another order. `axes[i]` is the old axis that becomes axis `i`.
pub(crate) fn permute(x: &Array, shape: &Shape, axes: &[usize]) -> Result<Array> {
    match x.device() {
        Device::Cpu | Device::Apart => on_cpu("permute", x, |x| cpu::layout::permute(x, shape, axes)),
    }
}

/// `length` places of an axis from `start` on.
pub(crate) fn slice(x: &Array, axis: Axis, start: usize, length: usize) -> Result<Array> {
    let (outer, _, inner) = axis;
    if outer == 1 {
        // They lie together: the part shares their storage.
        return Ok(x.part(start * inner, length * inner));
    }
    match x.device() {
        Device::Cpu | Device::Apart => on_cpu("slice", x, |x| cpu::layout::slice(x, axis, start, length)),
    }
}

/// The opposite of [`slice`]: zeros with `x` in their place.
pub(crate) fn unslice(x: &Array, axis: Axis, start: usize, length: usize) -> Result<Array> {
    match x.device() {
        Device::Cpu | Device::Apart => on_cpu("unslice", x, |x| cpu::layout::unslice(x, axis, start, length)),
    }
}

/// Writes a part over `start..` of an axis.
pub(crate) fn overwrite(x: &mut Array, axis: Axis, start: usize, part: &Array) -> Result<()> {
    match x.device() {
        Device::Cpu | Device::Apart => on_cpu_in_place("overwrite", x, part, |x, part| {
            cpu::layout::overwrite(x, axis, start, part);
        }),
    }
}

/// Arrays joined along an axis: each has `outer` blocks of its own width.
pub(crate) fn concatenate(parts: &[&Array], widths: &[usize], outer: usize) -> Result<Array> {
    match parts.first().map_or(Device::Cpu, |part| part.device()) {
        Device::Cpu | Device::Apart => {
            on_cpu("concatenate", parts.to_vec(), |parts| cpu::layout::concatenate(&parts, widths, outer))
        }
    }
}

/// Images (batch, channels, height, width) to patches (batch, patches, channels · size · size).
pub(crate) fn unfold(x: &Array, patches: Patches) -> Result<Array> {
    match x.device() {
        Device::Cpu | Device::Apart => on_cpu("unfold", x, |x| cpu::layout::unfold(x, patches)),
    }
}

/// The gradient of [`unfold`]: patches back into their images. Pixels outside every patch get 0.
pub(crate) fn fold(gradient: &Array, patches: Patches) -> Result<Array> {
    match gradient.device() {
        Device::Cpu | Device::Apart => {
            on_cpu("fold", gradient, |gradient| cpu::layout::fold(gradient, patches))
        }
    }
}
