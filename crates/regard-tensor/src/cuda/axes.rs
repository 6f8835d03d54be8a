//! Arrays walked along several axes.

use super::error::{Result, ensure};
use bytemuck::{Pod, Zeroable};

const MOST: usize = 6;

/// The layout of `Axes` in `axes.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Axes {
    count: u32,
    lengths: [u32; MOST],
    // The kernel's structure has a gap here.
    gap: u32,
    first: [u64; MOST],
    second: [u64; MOST],
}

/// One axis: its length, and how far two arrays move along it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axis {
    pub length: usize,
    pub first: usize,
    pub second: usize,
}

/// The same walk with fewer axes: those that both arrays walk as one are joined, those of length 1 left out.
pub(super) fn join(axes: impl IntoIterator<Item = Axis>) -> Vec<Axis> {
    let mut joined: Vec<Axis> = Vec::new();
    for axis in axes.into_iter().filter(|axis| axis.length != 1) {
        match joined.last_mut() {
            Some(last)
                if last.first == axis.first * axis.length && last.second == axis.second * axis.length =>
            {
                *last = Axis { length: last.length * axis.length, ..axis };
            }
            _ => joined.push(axis),
        }
    }
    joined
}

impl Axes {
    /// For kernels. Fails with more axes than they take.
    pub fn new(axes: &[Axis], operation: &'static str) -> Result<Self> {
        let total: usize = axes.iter().map(|axis| axis.length).product();
        let fits = axes.len() <= MOST && u32::try_from(total).is_ok();
        ensure(
            fits,
            operation,
            format_args!("at most {MOST} axes and 2³² elements"),
            format_args!("{axes:?}"),
        )?;
        let mut all = Self { count: axes.len() as u32, ..Self::default() };
        for (i, axis) in axes.iter().enumerate() {
            all.lengths[i] = axis.length as u32;
            all.first[i] = axis.first as u64;
            all.second[i] = axis.second as u64;
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_are_walked_as_one_are_joined() {
        let axis = |length, first, second| Axis { length, first, second };
        let rows = [axis(2, 12, 0), axis(1, 7, 7), axis(3, 4, 0), axis(4, 1, 1)];
        assert_eq!(join(rows), [axis(6, 4, 0), axis(4, 1, 1)]);
        assert_eq!(join([axis(2, 12, 12), axis(3, 4, 4), axis(4, 1, 1)]), [axis(24, 1, 1)]);
        assert_eq!(join([axis(1, 5, 5)]), []);
    }
}
