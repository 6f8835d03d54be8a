//! Moving values: permuted axes, parts of an axis, arrays joined along an axis, image patches.

use super::threads;
use crate::array::Array;
use crate::kernels::layout::Patches;
use crate::kernels::reduce::Axis;
use crate::shape::Shape;

/// The array with its axes in another order. `axes[i]` is the old axis that becomes axis `i`.
pub(crate) fn permute(x: &Array, shape: &Shape, axes: &[usize]) -> Array {
    let x = x.slice();
    let old = shape.strides();
    let lengths: Vec<usize> = axes.iter().map(|&axis| shape[axis]).collect();
    let strides: Vec<usize> = axes.iter().map(|&axis| old[axis]).collect();
    let (Some(&length), Some(&stride)) = (lengths.last(), strides.last()) else {
        return Array::copy_of(x);
    };
    Array::build(x.len(), |out| {
        let rows = threads::rows_per_task(length);
        threads::chunks(out, rows * length, |index, out| {
            for (row, out) in out.chunks_mut(length.max(1)).enumerate() {
                let mut rest = index * rows + row;
                let mut start = 0;
                for axis in (0..lengths.len() - 1).rev() {
                    start += rest % lengths[axis] * strides[axis];
                    rest /= lengths[axis];
                }
                if stride == 1 {
                    out.copy_from_slice(&x[start..start + length]);
                } else {
                    for (i, out) in out.iter_mut().enumerate() {
                        *out = x[start + i * stride];
                    }
                }
            }
        });
    })
}

/// `length` places of an axis from `start` on; `outer` blocks of `full × inner` values.
pub(crate) fn slice(x: &Array, (outer, full, inner): Axis, start: usize, length: usize) -> Array {
    let x = x.slice();
    Array::build(outer * length * inner, |out| {
        threads::chunks(out, (length * inner).max(1), |block, out| {
            let from = (block * full + start) * inner;
            out.copy_from_slice(&x[from..from + out.len()]);
        });
    })
}

/// The opposite of [`slice`]: zeros with `x` in their place.
pub(crate) fn unslice(x: &Array, (outer, full, inner): Axis, start: usize, length: usize) -> Array {
    let x = x.slice();
    Array::build(outer * full * inner, |out| {
        threads::chunks(out, (full * inner).max(1), |block, out| {
            out[..start * inner].fill(0.0);
            let part = &x[block * length * inner..(block + 1) * length * inner];
            out[start * inner..(start + length) * inner].copy_from_slice(part);
            out[(start + length) * inner..].fill(0.0);
        });
    })
}

/// Writes a part over `start..` of an axis.
pub(crate) fn overwrite(x: &mut Array, (outer, full, inner): Axis, start: usize, part: &Array) {
    let width = part.len() / outer.max(1);
    let (x, part) = (x.slice_mut(), part.slice());
    for block in 0..if width == 0 { 0 } else { outer } {
        let place = (block * full + start) * inner;
        x[place..place + width].copy_from_slice(&part[block * width..(block + 1) * width]);
    }
}

/// Arrays joined along an axis: each has `outer` blocks of its own width.
pub(crate) fn concatenate(parts: &[&Array], widths: &[usize], outer: usize) -> Array {
    let total: usize = widths.iter().sum();
    Array::build(outer * total, |out| {
        threads::chunks(out, total.max(1), |block, out| {
            let mut rest = out;
            for (part, width) in parts.iter().zip(widths) {
                let (place, after) = rest.split_at_mut(*width);
                place.copy_from_slice(&part.slice()[block * width..(block + 1) * width]);
                rest = after;
            }
        });
    })
}

impl Patches {
    /// Calls `f(patch row start in the unfolded array, pixel row start in the image)` for each run of `size` pixels
    /// of image `image`.
    fn runs(self, image: usize, mut f: impl FnMut(usize, usize)) {
        for patch in 0..self.count() {
            let (top, left) = (patch / self.across() * self.size, patch % self.across() * self.size);
            for channel in 0..self.channels {
                for row in 0..self.size {
                    let to = (patch * self.channels + channel) * self.size * self.size + row * self.size;
                    let pixel =
                        ((image * self.channels + channel) * self.height + top + row) * self.width + left;
                    f(to, pixel);
                }
            }
        }
    }
}

/// Images (batch, channels, height, width) to patches (batch, patches, channels · size · size).
pub(crate) fn unfold(x: &Array, patches: Patches) -> Array {
    let x = x.slice();
    let per_image = patches.count() * patches.values();
    Array::build(patches.batch * per_image, |out| {
        threads::chunks(out, per_image.max(1), |image, out| {
            patches.runs(image, |to, from| {
                out[to..to + patches.size].copy_from_slice(&x[from..from + patches.size]);
            });
        });
    })
}

/// The gradient of [`unfold`]: patches back into their images. Pixels outside every patch get 0.
pub(crate) fn fold(gradient: &Array, patches: Patches) -> Array {
    let gradient = gradient.slice();
    let pixels = patches.channels * patches.height * patches.width;
    let per_image = patches.count() * patches.values();
    let mut out = Array::zeros(patches.batch * pixels);
    threads::chunks(out.slice_mut(), pixels.max(1), |image, out| {
        patches.runs(image, |from, to| {
            let (from, to) = (image * per_image + from, to - image * pixels);
            out[to..to + patches.size].copy_from_slice(&gradient[from..from + patches.size]);
        });
    });
    out
}
