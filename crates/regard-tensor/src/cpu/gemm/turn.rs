//! Transposing a matrix while it is copied to a panel: the weights of PyTorch's layers lie that way.
//!
//! With the widest registers, sixteen runs of a cache line each are transposed at a time, and 16-bit values go through it in
//! pairs, before they are widened: a value takes a sixth of a cycle instead of a whole one, which matters for texts of a few
//! dozen tokens. No value is computed with on its way, so that any bits can be copied.

use super::task::PANEL;
use crate::cpu::simd::Half;
#[cfg(target_arch = "x86_64")]
use crate::cpu::simd::wide;
use bytemuck::TransparentWrapper;
use pulp::Simd;
use std::marker::PhantomData;

/// Values of a run.
pub(super) trait Turned: Copy {
    /// As an `f32`.
    fn wide(self) -> f32;

    /// Values of a cache line.
    const LINE: usize = 64 / size_of::<Self>();

    /// Writes the transpose of a cache line of each of sixteen runs, the rows of which lie a panel apart.
    ///
    /// # Safety
    /// Sixteen runs of a line each must lie at `from`, as many lines of sixteen values must be writable at `to`, and the
    /// processor must have AVX-512.
    #[cfg(target_arch = "x86_64")]
    unsafe fn block(from: *const Self, run: usize, to: *mut f32);
}

impl Turned for f32 {
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn block(from: *const Self, run: usize, to: *mut f32) {
        // SAFETY: promised by the caller.
        unsafe {
            for (i, words) in wide::transposed(from.cast(), 4 * run).into_iter().enumerate() {
                wide::store(to.add(i * PANEL), words);
            }
        }
    }
}

/// A value of 16 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Narrow<H>(u16, PhantomData<H>);

// SAFETY: it is transparent, and the other field has no size.
unsafe impl<H> TransparentWrapper<u16> for Narrow<H> {}

impl<H> Narrow<H> {
    /// Bit patterns as such values.
    #[inline(always)]
    pub fn all(bits: &[u16]) -> &[Self] {
        Self::wrap_slice(bits)
    }
}

impl<H: Half> Turned for Narrow<H> {
    #[inline(always)]
    fn wide(self) -> f32 {
        H::widen(self.0)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn block(from: *const Self, run: usize, to: *mut f32) {
        // SAFETY: promised by the caller.
        unsafe {
            for (i, pairs) in wide::transposed(from.cast(), 2 * run).into_iter().enumerate() {
                let (even, odd) = H::split(pairs);
                wide::store(to.add(2 * i * PANEL), even);
                wide::store(to.add((2 * i + 1) * PANEL), odd);
            }
        }
    }
}

/// `to[i][j] = from[j][i]` for `columns` runs of `len` values, `run` apart.
#[inline(always)]
pub(super) fn turn<S: Simd, T: Turned>(
    (columns, len): (usize, usize),
    (from, run): (&[T], usize),
    to: &mut [f32],
) {
    if columns == 0 || len == 0 {
        return;
    }
    let from = &from[..(columns - 1) * run + len];
    let to = &mut to[..(len - 1) * PANEL + columns];
    let (mut whole_columns, mut whole) = (0, 0);
    #[cfg(target_arch = "x86_64")]
    if crate::cpu::simd::is::<S, pulp::x86::V4>() {
        (whole_columns, whole) = (columns / 16 * 16, len / T::LINE * T::LINE);
        for column in (0..whole_columns).step_by(16) {
            for start in (0..whole).step_by(T::LINE) {
                // SAFETY: lines and columns of the slices above, which reach to the last; the type shows what the processor
                // has.
                unsafe {
                    let from = from.as_ptr().add(column * run + start);
                    T::block(from, run, to.as_mut_ptr().add(start * PANEL + column));
                }
            }
        }
    }
    // What is left at the edges, or all of it: a few columns at a time, so that few lines are open.
    for column in (0..columns).step_by(16) {
        let some = column..columns.min(column + 16);
        let first = if column < whole_columns { whole } else { 0 };
        for i in first..len {
            for j in some.clone() {
                to[i * PANEL + j] = from[j * run + i].wide();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::{Bf16, F16, dispatch};
    use pulp::WithSimd;

    struct Run<'a, T>((usize, usize), &'a [T], &'a mut [f32]);

    impl<T: Turned> WithSimd for Run<'_, T> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            turn::<S, T>(self.0, (self.1, self.0.1 + 3), self.2);
        }
    }

    /// Every value arrives at its place with its bits, whatever they are, and nothing else is written.
    fn check<T: Turned>(values: &[T]) {
        for (columns, len) in [(1, 1), (16, 16), (16, 32), (17, 33), (64, 96), (63, 50), (48, 7), (5, 64)] {
            let mut to = vec![0.5; len * PANEL];
            dispatch(Run((columns, len), values, &mut to));
            for i in 0..len {
                for j in 0..PANEL {
                    let want = if j < columns { values[j * (len + 3) + i].wide() } else { 0.5 };
                    assert_eq!(to[i * PANEL + j].to_bits(), want.to_bits(), "{columns}×{len} at {i},{j}");
                }
            }
        }
    }

    #[test]
    fn panels_are_transposed_bit_for_bit() {
        let bits: Vec<u16> =
            (0..64 * 99_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u16 & 0x83ff).collect();
        check(Narrow::<Bf16>::all(&bits));
        check(Narrow::<F16>::all(&bits));
        // Denormal numbers among them, which kernels would flush if they computed with them.
        let words: Vec<f32> =
            (0..64 * 99_u32).map(|i| f32::from_bits(i.wrapping_mul(40_503) & 0x807f_ffff)).collect();
        check(&words);
    }
}
