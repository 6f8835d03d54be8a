//! Shapes: the lengths of a tensor's axes, row-major.

use crate::error::{Error, Result, ensure_below};
use std::fmt;
use std::ops::Deref;

/// The lengths of the axes of a tensor, outermost first. A scalar has none.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// The number of values a tensor of this shape holds.
    ///
    /// Saturates instead of wrapping, so that allocating memory for an absurd shape fails.
    pub fn count(&self) -> usize {
        self.0.iter().fold(1, |product, &length| product.saturating_mul(length))
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The length of the last axis; 1 for a scalar.
    pub fn last(&self) -> usize {
        self.0.last().copied().unwrap_or(1)
    }

    /// The number of rows when all axes but the last are flattened into one.
    pub fn rows(&self) -> usize {
        self.0.split_last().map_or(1, |(_, outer)| outer.iter().product())
    }

    /// The product of the lengths before `axis`, the length of `axis`, and the product of those after it.
    pub(crate) fn around(&self, axis: usize) -> (usize, usize, usize) {
        (self.0[..axis].iter().product(), self.0[axis], self.0[axis + 1..].iter().product())
    }

    /// Row-major strides.
    pub(crate) fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1; self.rank()];
        for axis in (1..self.rank()).rev() {
            strides[axis - 1] = strides[axis] * self.0[axis];
        }
        strides
    }

    /// Resolves an axis counted from the end when negative, as in NumPy.
    pub(crate) fn axis(&self, operation: &'static str, axis: isize) -> Result<usize> {
        let resolved = if axis < 0 { axis + self.rank() as isize } else { axis };
        let index = usize::try_from(resolved).unwrap_or(usize::MAX);
        ensure_below(operation, "axis", index, self.rank())?;
        Ok(index)
    }

    /// The shape two shapes broadcast to, by NumPy's rules.
    pub(crate) fn broadcast(&self, other: &Self, operation: &'static str) -> Result<Self> {
        let rank = self.rank().max(other.rank());
        let mut lengths = vec![0; rank];
        for (from_end, length) in lengths.iter_mut().rev().enumerate() {
            let a = self.nth_last(from_end);
            let b = other.nth_last(from_end);
            *length = match (a, b) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => {
                    return Err(Error::shape(
                        operation,
                        "shapes that broadcast",
                        format!("{self} and {other}"),
                    ));
                }
            };
        }
        Ok(Self(lengths))
    }

    /// The length of the axis counted from the end; 1 beyond the first axis.
    pub(crate) fn nth_last(&self, axis: usize) -> usize {
        self.0.iter().rev().nth(axis).copied().unwrap_or(1)
    }

    /// Strides for reading `self` as if it had the shape `target`: 0 along broadcast axes.
    pub(crate) fn broadcast_strides(&self, target: &Self) -> Vec<usize> {
        let own = self.strides();
        let offset = target.rank() - self.rank();
        (0..target.rank())
            .map(|axis| match axis.checked_sub(offset) {
                Some(a) if self.0[a] != 1 => own[a],
                _ => 0,
            })
            .collect()
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl From<&[usize]> for Shape {
    fn from(lengths: &[usize]) -> Self {
        Self(lengths.to_vec())
    }
}

impl From<Vec<usize>> for Shape {
    fn from(lengths: Vec<usize>) -> Self {
        Self(lengths)
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(lengths: [usize; N]) -> Self {
        Self(lengths.to_vec())
    }
}

impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Self {
        shape.clone()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[")?;
        for (i, length) in self.0.iter().enumerate() {
            write!(f, "{}{length}", if i == 0 { "" } else { "×" })?;
        }
        write!(f, "]")
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
