//! Small products with everything in registers: the heart of attention and of the LSTM.
//!
//! `c (m × n) = a (m × k) · b (k × n)`, where a row of `b` and `c` lies in vector registers and single values of `a`
//! are broadcast. `a` may be read with any strides, so a transposed operand costs nothing.

use pulp::{Simd, WithSimd};

/// A place in memory and the distances between its rows and columns.
#[derive(Clone, Copy)]
pub(crate) struct Operand {
    pub start: *const f32,
    pub row: usize,
    pub column: usize,
}

/// Rows of a register tile: with four registers of columns they fill 24 of 32 registers, with two 12 of 16.
pub(crate) const ROWS: usize = 6;

/// What the accumulators start from.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    Zero,
    /// What is in `c` already.
    Output,
    /// The same row of values for each row of `c`.
    Row(*const f32),
}

/// The product, for `n` a multiple of the number of lanes.
///
/// # Safety
/// `a` must cover m×k values, `b` k rows of `n`, `c` m rows of `n` (and `Start::Row` `n` values); `c` overlaps none.
#[inline(always)]
pub(crate) unsafe fn product<S: Simd>(
    s: S,
    shape: (usize, usize, usize),
    a: Operand,
    b: (*const f32, usize),
    c: (*mut f32, usize),
    start: Start,
) {
    // A call, not a copy of sixteen blocks at every place that multiplies: those were more than half of the engine's code.
    s.vectorize(Product { shape, a, b, c, start });
}

/// The arguments of [`product`], which vouches for them.
struct Product {
    shape: (usize, usize, usize),
    a: Operand,
    b: (*const f32, usize),
    c: (*mut f32, usize),
    start: Start,
}

impl WithSimd for Product {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let Self { shape, a, b, c, start } = self;
        // SAFETY: promised to `product`, the only one to make this.
        unsafe { panels(s, shape, a, b, c, start) };
    }
}

/// All columns of a product, a few registers at a time.
#[inline(always)]
unsafe fn panels<S: Simd>(
    s: S,
    (m, n, k): (usize, usize, usize),
    a: Operand,
    (b, b_row): (*const f32, usize),
    (c, c_row): (*mut f32, usize),
    start: Start,
) {
    debug_assert_eq!(n % S::F32_LANES, 0);
    let mut column = 0;
    // SAFETY: each call stays inside the operands that the caller vouches for.
    unsafe {
        while column < n {
            let vectors = (n - column) / S::F32_LANES;
            let (b, c) = (b.add(column), c.add(column));
            let start = match start {
                Start::Row(row) => Start::Row(row.add(column)),
                other => other,
            };
            let taken = if S::REGISTER_COUNT >= 32 && vectors >= 4 {
                columns::<S, ROWS, 4>(s, m, k, a, (b, b_row), (c, c_row), start);
                4
            } else if S::REGISTER_COUNT >= 32 && vectors == 3 {
                columns::<S, ROWS, 3>(s, m, k, a, (b, b_row), (c, c_row), start);
                3
            } else if vectors >= 2 {
                columns::<S, ROWS, 2>(s, m, k, a, (b, b_row), (c, c_row), start);
                2
            } else {
                columns::<S, ROWS, 1>(s, m, k, a, (b, b_row), (c, c_row), start);
                1
            };
            column += taken * S::F32_LANES;
        }
    }
}

/// All rows of `N` registers of columns, `M` rows at a time.
#[inline(always)]
unsafe fn columns<S: Simd, const M: usize, const N: usize>(
    s: S,
    m: usize,
    k: usize,
    a: Operand,
    b: (*const f32, usize),
    (c, c_row): (*mut f32, usize),
    start: Start,
) {
    let mut row = 0;
    // SAFETY: as in `product`.
    unsafe {
        while row + M <= m {
            // At most one block each of 4, 2 and 1 rows is left.
            let a = Operand { start: a.start.add(row * a.row), ..a };
            rows::<S, M, N>(s, k, a, b, (c.add(row * c_row), c_row), start);
            row += M;
        }
        for size in [4, 2, 1] {
            if row + size <= m {
                let a = Operand { start: a.start.add(row * a.row), ..a };
                let c = (c.add(row * c_row), c_row);
                match size {
                    4 => rows::<S, 4, N>(s, k, a, b, c, start),
                    2 => rows::<S, 2, N>(s, k, a, b, c, start),
                    _ => rows::<S, 1, N>(s, k, a, b, c, start),
                }
                row += size;
            }
        }
    }
}

/// One block of `M` rows and `N` registers.
#[inline(always)]
unsafe fn rows<S: Simd, const M: usize, const N: usize>(
    s: S,
    k: usize,
    a: Operand,
    (b, b_row): (*const f32, usize),
    (c, c_row): (*mut f32, usize),
    start: Start,
) {
    // SAFETY: as in `product`.
    unsafe {
        let mut sums = [[s.splat_f32s(0.0); N]; M];
        match start {
            Start::Zero => {}
            Start::Output => {
                for (i, sums) in sums.iter_mut().enumerate() {
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum = load(s, c.add(i * c_row + j * S::F32_LANES));
                    }
                }
            }
            Start::Row(row) => {
                for sums in &mut sums {
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum = load(s, row.add(j * S::F32_LANES));
                    }
                }
            }
        }
        accumulate(s, k, a, (b, b_row), &mut sums);
        for (i, sums) in sums.iter().enumerate() {
            for (j, sum) in sums.iter().enumerate() {
                store(s, c.add(i * c_row + j * S::F32_LANES), *sum);
            }
        }
    }
}

/// `sums += a · b` over `k` steps, for kernels that finish the sums themselves.
///
/// # Safety
/// `a` must cover M×k values and `b` k rows of `N` registers.
#[inline(always)]
pub(crate) unsafe fn accumulate<S: Simd, const M: usize, const N: usize>(
    s: S,
    k: usize,
    a: Operand,
    (b, b_row): (*const f32, usize),
    sums: &mut [[S::f32s; N]; M],
) {
    // SAFETY: promised by the caller.
    unsafe {
        let mut a_step = a.start;
        let mut b_step = b;
        for _ in 0..k {
            prefetch(a_step.wrapping_add(AHEAD * a.column));
            let mut vectors = [s.splat_f32s(0.0); N];
            for (j, vector) in vectors.iter_mut().enumerate() {
                *vector = load(s, b_step.add(j * S::F32_LANES));
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                let value = s.splat_f32s(*a_step.add(i * a.row));
                for (sum, vector) in sums.iter_mut().zip(vectors) {
                    *sum = s.mul_add_e_f32s(value, vector, *sum);
                }
            }
            a_step = a_step.wrapping_add(a.column);
            b_step = b_step.wrapping_add(b_row);
        }
    }
}

/// How many steps ahead the left operand is asked for.
const AHEAD: usize = 8;

/// Asks for the memory at an address, which need not be valid.
#[inline(always)]
pub(crate) fn prefetch(address: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault; SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for `n` rows of `width` values, soon to be read.
#[inline(always)]
pub(crate) fn ask_for((rows, row): (&[f32], usize), n: usize, width: usize) {
    for i in 0..n {
        for place in (0..width).step_by(LINE) {
            prefetch(rows.as_ptr().wrapping_add(i * row + place));
        }
    }
}

/// # Safety
/// One register's worth of values must lie at `from`.
#[inline(always)]
pub(crate) unsafe fn load<S: Simd>(_: S, from: *const f32) -> S::f32s {
    // SAFETY: promised by the caller; every bit pattern is a valid register, and no alignment is assumed.
    unsafe { from.cast::<S::f32s>().read_unaligned() }
}

/// # Safety
/// One register's worth of values must be writable at `to`.
#[inline(always)]
pub(crate) unsafe fn store<S: Simd>(_: S, to: *mut f32, values: S::f32s) {
    // SAFETY: promised by the caller.
    unsafe { to.cast::<S::f32s>().write_unaligned(values) }
}

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

/// Values of a cache line.
const LINE: usize = 16;

/// Whether blocks of sixteen by sixteen can be transposed in registers.
#[inline(always)]
fn has_wide_blocks<S: Simd>() -> bool {
    #[cfg(target_arch = "x86_64")]
    return crate::cpu::simd::is::<S, pulp::x86::V4>();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Sixteen by sixteen: five times as fast as in blocks of four.
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
    use pulp::WithSimd;

    struct Run<'a>((usize, usize, usize), &'a [f32], &'a [f32], &'a mut [f32], Start);

    impl WithSimd for Run<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, s: S) {
            let (m, n, k) = self.0;
            let a = Operand { start: self.1.as_ptr(), row: k, column: 1 };
            // SAFETY: the slices have these sizes.
            unsafe { product(s, (m, n, k), a, (self.2.as_ptr(), n), (self.3.as_mut_ptr(), n), self.4) };
        }
    }

    #[test]
    fn every_block_shape_is_exact() {
        // Whole numbers: every order of summation gives the same result.
        for m in 1..14 {
            for n in [16, 32, 48, 64, 80] {
                for k in [0, 1, 3, 8] {
                    let a: Vec<f32> = (0..m * k).map(|i| (i % 7) as f32 - 3.0).collect();
                    let b: Vec<f32> = (0..k * n).map(|i| (i % 5) as f32 - 2.0).collect();
                    let row: Vec<f32> = (0..n).map(|j| j as f32).collect();
                    for which in 0..3 {
                        let mut c = vec![2.0; m * n];
                        let start = [Start::Zero, Start::Output, Start::Row(row.as_ptr())][which];
                        dispatch(Run((m, n, k), &a, &b, &mut c, start));
                        for i in 0..m {
                            for j in 0..n {
                                let from = [0.0, 2.0, row[j]][which];
                                let want = (0..k).fold(from, |sum, p| sum + a[i * k + p] * b[p * n + j]);
                                assert_eq!(c[i * n + j], want, "{m}×{n}×{k} at {i},{j}");
                            }
                        }
                    }
                }
            }
        }
    }

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
