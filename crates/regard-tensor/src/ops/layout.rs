//! The same values in another shape or order: reshape, permute, transpose, slice, select, concatenate.

use crate::error::{Error, Result, ensure_shape};
use crate::kernels::layout;
use crate::shape::Shape;
use crate::tape::Inputs;
use crate::tensor::{Tensor, ensure_same_device};

/// The shape with an axis taken out.
pub(super) fn without(shape: &Shape, axis: usize) -> Shape {
    let mut lengths = shape.to_vec();
    lengths.remove(axis);
    lengths.into()
}

/// The shape with another length of an axis.
pub(super) fn with_length(shape: &Shape, axis: usize, length: usize) -> Shape {
    let mut lengths = shape.to_vec();
    lengths[axis] = length;
    lengths.into()
}

impl Tensor {
    /// The same values in row-major order under another shape. Copies nothing.
    pub fn reshape(&self, shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        ensure_shape(
            shape.count() == self.count(),
            "reshape",
            || format!("a shape of {} values", self.count()),
            || shape.to_string(),
        )?;
        let old = self.shape().clone();
        Ok(self
            .detach()
            .with_shape(shape)
            .with_rule(&[self], || move |g: Tensor, inputs: &mut Inputs| inputs.send(0, g.with_shape(&old))))
    }

    /// The axes in another order: `axes[i]` is the old axis that becomes axis `i`.
    pub fn permute(&self, axes: &[usize]) -> Result<Tensor> {
        let mut sorted = axes.to_vec();
        sorted.sort_unstable();
        ensure_shape(
            sorted.iter().copied().eq(0..self.shape().rank()),
            "permute",
            || format!("each of {} axes once", self.shape().rank()),
            || format!("{axes:?}"),
        )?;
        let value = layout::permute(&self.array, self.shape(), axes)?;
        let shape: Vec<usize> = axes.iter().map(|&axis| self.shape()[axis]).collect();
        let mut back = vec![0; axes.len()];
        for (to, &from) in axes.iter().enumerate() {
            back[from] = to;
        }
        Ok(Tensor::from_array(value, shape)
            .with_rule(&[self], || move |g: Tensor, inputs: &mut Inputs| inputs.send(0, g.permute(&back)?)))
    }

    /// Two axes exchanged (counted from the end if negative).
    pub fn transpose(&self, a: isize, b: isize) -> Result<Tensor> {
        let (a, b) = (self.shape().axis("transpose", a)?, self.shape().axis("transpose", b)?);
        let mut axes: Vec<usize> = (0..self.shape().rank()).collect();
        axes.swap(a, b);
        self.permute(&axes)
    }

    /// `length` places of an axis from `start` on. Its gradient is zero elsewhere.
    pub fn slice(&self, axis: isize, start: usize, length: usize) -> Result<Tensor> {
        let axis = self.shape().axis("slice", axis)?;
        let around = self.shape().around(axis);
        ensure_shape(
            start.checked_add(length).is_some_and(|end| end <= around.1),
            "slice",
            || format!("a range within 0..{}", around.1),
            || format!("{start}..{}", start.saturating_add(length)),
        )?;
        let value = layout::slice(&self.array, around, start, length)?;
        let full = self.shape().clone();
        Ok(Tensor::from_array(value, with_length(&full, axis, length)).with_rule(&[self], || {
            move |g: Tensor, inputs: &mut Inputs| {
                let gradient = layout::unslice(&g.array, around, start, length)?;
                inputs.send(0, Tensor::from_array(gradient, &full))
            }
        }))
    }

    /// One place of an axis, which disappears.
    pub fn select(&self, axis: isize, index: usize) -> Result<Tensor> {
        let axis = self.shape().axis("select", axis)?;
        let shape = without(self.shape(), axis);
        self.slice(axis as isize, index, 1)?.reshape(shape)
    }

    /// Writes `part` over the places of an axis from `start` on: in place if nobody else holds these values, as in a
    /// cache that grows. Neither may be tracked: what is overwritten has no gradient.
    pub fn overwrite(&mut self, axis: isize, start: usize, part: &Tensor) -> Result<()> {
        let axis = self.shape().axis("overwrite", axis)?;
        let length = part.shape().get(axis).copied().unwrap_or(0);
        let around = self.shape().around(axis);
        ensure_shape(
            !self.is_tracked()
                && !part.is_tracked()
                && *part.shape() == with_length(self.shape(), axis, length)
                && start.checked_add(length).is_some_and(|end| end <= around.1),
            "overwrite",
            || format!("an untracked part like {} within 0..{} of axis {axis}", self.shape(), around.1),
            || format!("{} at {start}", part.shape()),
        )?;
        ensure_same_device("overwrite", [&*self, part])?;
        layout::overwrite(&mut self.array, around, start, &part.array)
    }
}

/// Tensors joined along an axis; they agree in all others. The gradient is cut at the seams.
pub fn concatenate(parts: &[&Tensor], axis: isize) -> Result<Tensor> {
    let Some(first) = parts.first() else {
        return Err(Error::shape("concatenate", "at least one tensor", "none"));
    };
    let axis = first.shape().axis("concatenate", axis)?;
    let mut shape = first.shape().to_vec();
    shape[axis] = 0;
    for part in parts {
        let mut rest = part.shape().to_vec();
        let length = rest.get(axis).copied().unwrap_or(0);
        if let Some(place) = rest.get_mut(axis) {
            *place = shape[axis];
        }
        ensure_shape(
            rest == shape,
            "concatenate",
            || format!("shapes like {} but for axis {axis}", first.shape()),
            || part.shape().to_string(),
        )?;
        shape[axis] += length;
    }
    ensure_same_device("concatenate", parts.iter().copied())?;
    let (outer, _, inner) = first.shape().around(axis);
    let lengths: Vec<usize> = parts.iter().map(|part| part.shape()[axis]).collect();
    let arrays: Vec<_> = parts.iter().map(|part| &part.array).collect();
    let widths: Vec<usize> = lengths.iter().map(|length| length * inner).collect();
    let value = layout::concatenate(&arrays, &widths, outer)?;
    Ok(Tensor::from_array(value, shape).with_rule(parts, || {
        move |g: Tensor, inputs: &mut Inputs| {
            let mut start = 0;
            for (input, &length) in lengths.iter().enumerate() {
                if inputs.wants(input) {
                    inputs.send(input, g.slice(axis as isize, start, length)?)?;
                }
                start += length;
            }
            Ok(())
        }
    }))
}
