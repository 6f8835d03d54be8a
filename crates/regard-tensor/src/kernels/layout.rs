//! Moving values: permuted axes, parts of an axis, arrays joined along an axis, image patches.

use super::memory::convert;
use super::reduce::Axis;
use super::{on_cpu, on_cpu_in_place};
use crate::array::Array;
use crate::error::Result;
use crate::shape::Shape;
use crate::storage::Kernels;
use crate::{cpu, cuda};

/// Square patches of an image, and where they lie.
#[derive(Debug, Clone, Copy)]
pub struct Patches {
    /// Images.
    pub batch: usize,
    /// Colours.
    pub channels: usize,
    /// Rows of pixels.
    pub height: usize,
    /// Pixels of a row.
    pub width: usize,
    /// Rows and columns of a patch.
    pub size: usize,
}

impl Patches {
    pub(crate) fn across(self) -> usize {
        self.width / self.size
    }

    pub(crate) fn count(self) -> usize {
        self.across() * (self.height / self.size)
    }

    pub(crate) fn values(self) -> usize {
        self.channels * self.size * self.size
    }
}

/// The array with its axes in another order. `axes[i]` is the old axis that becomes axis `i`.
pub(crate) fn permute(x: &Array, shape: &Shape, axes: &[usize]) -> Result<Array> {
    match x.kernels() {
        Kernels::Cuda => Ok(cuda::layout::permute(x.cuda()?, shape, axes)?.into()),
        Kernels::Cpu => on_cpu("permute", x, |x| cpu::layout::permute(x, shape, axes)),
    }
}

/// `length` places of an axis from `start` on.
pub(crate) fn slice(x: &Array, axis: Axis, start: usize, length: usize) -> Result<Array> {
    let (outer, _, inner) = axis;
    if outer == 1 {
        // They lie together: the part shares their storage.
        return Ok(x.part(start * inner, length * inner));
    }
    match x.kernels() {
        Kernels::Cuda => Ok(cuda::layout::slice(x.cuda()?, axis, start, length)?.into()),
        Kernels::Cpu => on_cpu("slice", x, |x| cpu::layout::slice(x, axis, start, length)),
    }
}

/// The opposite of [`slice`]: zeros with `x` in their place.
pub(crate) fn unslice(x: &Array, axis: Axis, start: usize, length: usize) -> Result<Array> {
    match x.kernels() {
        Kernels::Cuda => Ok(cuda::layout::unslice(x.cuda()?, axis, start)?.into()),
        Kernels::Cpu => on_cpu("unslice", x, |x| cpu::layout::unslice(x, axis, start, length)),
    }
}

/// Writes a part over `start..` of an axis.
pub(crate) fn overwrite(x: &mut Array, axis: Axis, start: usize, part: &Array) -> Result<()> {
    match x.kernels() {
        Kernels::Cuda => {
            let part = convert(part, x.data_type())?;
            Ok(cuda::layout::overwrite(x.cuda_mut()?, axis, start, part.cuda()?)?)
        }
        Kernels::Cpu => on_cpu_in_place("overwrite", x, part, |x, part| {
            cpu::layout::overwrite(x, axis, start, part);
        }),
    }
}

/// Arrays joined along an axis: each has `outer` blocks of its own width.
pub(crate) fn concatenate(parts: &[&Array], widths: &[usize], outer: usize) -> Result<Array> {
    match parts.first().map_or(Kernels::Cpu, |part| part.kernels()) {
        Kernels::Cuda => concatenate_on_cuda(parts, outer),
        Kernels::Cpu => {
            on_cpu("concatenate", parts.to_vec(), |parts| cpu::layout::concatenate(&parts, widths, outer))
        }
    }
}

fn concatenate_on_cuda(parts: &[&Array], outer: usize) -> Result<Array> {
    let data_type = parts[0].data_type();
    let parts = parts.iter().map(|part| convert(part, data_type)).collect::<Result<Vec<_>>>()?;
    let views = parts.iter().map(Array::cuda).collect::<Result<Vec<_>>>()?;
    Ok(cuda::layout::concatenate(&views, outer)?.into())
}

/// Images (batch, channels, height, width) to patches (batch, patches, channels · size · size).
pub(crate) fn unfold(x: &Array, patches: Patches) -> Result<Array> {
    match x.kernels() {
        Kernels::Cuda => Ok(cuda::layout::unfold(x.cuda()?, patches)?.into()),
        Kernels::Cpu => on_cpu("unfold", x, |x| cpu::layout::unfold(x, patches)),
    }
}

/// The gradient of [`unfold`]: patches back into their images. Pixels outside every patch get 0.
pub(crate) fn fold(gradient: &Array, patches: Patches) -> Result<Array> {
    match gradient.kernels() {
        Kernels::Cuda => Ok(cuda::layout::fold(gradient.cuda()?, patches)?.into()),
        Kernels::Cpu => on_cpu("fold", gradient, |gradient| cpu::layout::fold(gradient, patches)),
    }
}
