//! Transposing a matrix while it is copied: sixteen by sixteen in registers with AVX-512, else four by four.

use pulp::{Simd, WithSimd};

/// Values of a cache line, and of the widest register.
const LINE: usize = 16;

/// [`Transpose`], in a kernel.
#[inline(always)]
pub(crate) fn transpose<S: Simd>(
    s: S,
    shape: (usize, usize),
    from: (&[f32], usize),
    to: (&mut [f32], usize),
    scale: f32,
) {
    // A call: it would be copied to every place that transposes.
    s.vectorize(Transpose { shape, from, to, scale });
}

/// Copies rows × columns values to their transpose, scaled; of both, it says how far rows are apart.
pub(crate) struct Transpose<'a> {
    pub shape: (usize, usize),
    pub from: (&'a [f32], usize),
    pub to: (&'a mut [f32], usize),
    pub scale: f32,
}

impl WithSimd for Transpose<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { shape: (rows, columns), from: (from, from_row), to: (to, to_row), scale } = self;
        if rows == 0 || columns == 0 {
            return;
        }
        assert!(from_row >= columns && to_row >= rows);
        let from = &from[..(rows - 1) * from_row + columns];
        let to = &mut to[..(columns - 1) * to_row + rows];
        let sizes = (rows / LINE * LINE, columns / LINE * LINE);
        let (wide_rows, wide_columns) = if has_wide_blocks::<S>() { sizes } else { (0, 0) };
        let (whole_rows, whole_columns) = (rows / 4 * 4, columns / 4 * 4);
        // A cache line of columns at a time: each line of `from` is read once, and few of `to` are open.
        for line in (0..whole_columns).step_by(LINE) {
            let first = if line < wide_columns { wide_rows } else { 0 };
            // SAFETY: the rows and columns of each block lie in the slices above, which reach to the last; there are wide blocks
            // only where the processor has them.
            unsafe {
                for r in (0..first).step_by(LINE) {
                    let (from, to) =
                        (from.as_ptr().add(r * from_row + line), to.as_mut_ptr().add(line * to_row + r));
                    transpose_wide_block((from, from_row), (to, to_row), scale);
                }
                for r in (first..whole_rows).step_by(4) {
                    for c in (line..whole_columns.min(line + LINE)).step_by(4) {
                        let (from, to) =
                            (from.as_ptr().add(r * from_row + c), to.as_mut_ptr().add(c * to_row + r));
                        transpose_block((from, from_row), (to, to_row), scale);
                    }
                }
            }
        }
        for r in 0..rows {
            for c in if r < whole_rows { whole_columns } else { 0 }..columns {
                to[c * to_row + r] = from[r * from_row + c] * scale;
            }
        }
    }
}

/// Whether blocks of sixteen by sixteen can be transposed in registers.
#[inline(always)]
fn has_wide_blocks<S: Simd>() -> bool {
    #[cfg(target_arch = "x86_64")]
    return crate::cpu::simd::is::<S, pulp::x86::V4>();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Sixteen by sixteen, with fewer instructions a value than four by four.
///
/// # Safety
/// Sixteen values must lie at each of sixteen rows, of `from` and, to be written, of `to`, and there must be such blocks.
#[inline(always)]
unsafe fn transpose_wide_block(
    (from, from_row): (*const f32, usize),
    (to, to_row): (*mut f32, usize),
    scale: f32,
) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: promised by the caller.
    unsafe {
        use crate::cpu::simd::wide;
        for (i, words) in wide::transposed(from.cast(), 4 * from_row).into_iter().enumerate() {
            wide::store(to.add(i * to_row), wide::scaled_words(words, scale));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, from_row, to, to_row, scale);
}

/// Four by four, by shuffles: every x86-64 processor has them, but compilers do not find them here by themselves.
///
/// # Safety
/// Four values must lie at each of four rows, of `from` and, to be written, of `to`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_block(
    (from, from_row): (*const f32, usize),
    (to, to_row): (*mut f32, usize),
    scale: f32,
) {
    use std::arch::x86_64::{
        _mm_loadu_ps, _mm_movehl_ps, _mm_movelh_ps, _mm_mul_ps, _mm_set1_ps, _mm_storeu_ps, _mm_unpackhi_ps,
        _mm_unpacklo_ps,
    };
    // SAFETY: SSE is part of x86-64; the places are promised by the caller.
    unsafe {
        let scale = _mm_set1_ps(scale);
        let line = |i: usize| _mm_mul_ps(_mm_loadu_ps(from.add(i * from_row)), scale);
        let (a, b, c, d) = (line(0), line(1), line(2), line(3));
        let (ab_low, ab_high) = (_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
        let (cd_low, cd_high) = (_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
        _mm_storeu_ps(to, _mm_movelh_ps(ab_low, cd_low));
        _mm_storeu_ps(to.add(to_row), _mm_movehl_ps(cd_low, ab_low));
        _mm_storeu_ps(to.add(2 * to_row), _mm_movelh_ps(ab_high, cd_high));
        _mm_storeu_ps(to.add(3 * to_row), _mm_movehl_ps(cd_high, ab_high));
    }
}

/// # Safety
/// Four values must lie at each of four rows, of `from` and, to be written, of `to`.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn transpose_block(
    (from, from_row): (*const f32, usize),
    (to, to_row): (*mut f32, usize),
    scale: f32,
) {
    for r in 0..4 {
        for c in 0..4 {
            // SAFETY: promised by the caller.
            unsafe { *to.add(c * to_row + r) = *from.add(r * from_row + c) * scale };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::dispatch;

    struct Turn<'a>((usize, usize), &'a [f32], &'a mut [f32]);

    impl WithSimd for Turn<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, s: S) {
            let (rows, columns) = self.0;
            transpose(s, self.0, (self.1, columns + 1), (self.2, rows + 2), 2.0);
        }
    }

    #[test]
    fn transposes_of_any_size() {
        for (rows, columns) in
            [(1, 1), (3, 5), (4, 4), (7, 9), (16, 16), (64, 64), (13, 16), (33, 50), (19, 16), (100, 37)]
        {
            let from: Vec<f32> = (0..rows * (columns + 1)).map(|i| i as f32).collect();
            let mut to = vec![0.5; columns * (rows + 2)];
            dispatch(Turn((rows, columns), &from, &mut to));
            for c in 0..columns {
                for r in 0..rows + 2 {
                    let want = if r < rows { 2.0 * from[r * (columns + 1) + c] } else { 0.5 };
                    assert_eq!(to[c * (rows + 2) + r], want, "{rows}×{columns} at {r},{c}");
                }
            }
        }
    }
}
