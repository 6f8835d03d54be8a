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

/// Values of a cache line.
const LINE: usize = 16;

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
}
