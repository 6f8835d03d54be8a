//! A few rows times a transposed matrix, which is read once, where it lies: each value is the dot product of two runs of memory.
//!
//! This is how a token is generated from weights of PyTorch's layout. One row can only be as fast as memory is; several rows
//! share every register of weights, so that the sums of a short text come at little more than the price of one token.

use super::{Matrix, Output, Product, Right};
use crate::cpu::simd::{Bf16, F16, Half};
use crate::cpu::threads::Shared;
use crate::cpu::tile;
use crate::storage::Values;
use pulp::{Simd, WithSimd};

/// Up to this many rows, if the sums are long: copying the matrix to panels takes as long as multiplying it with about so
/// many.
const ROWS: usize = 16;
/// Sums that are long enough for it: the end of each takes as long as a hundred of its products.
const LONG: usize = 1024;

/// Columns that a few rows meet in turn: of a usual width, they stay in the second-level cache.
const TOGETHER: usize = 32;

/// Whether this is the way to take a product.
pub(super) fn fits(product: &Product) -> bool {
    let Product { m, k, a, b, .. } = *product;
    b.row == 1 && b.column > 1 && (m <= super::few::FEW || m <= ROWS && k >= LONG && a.column == 1)
}

/// The values of some rows and columns, each given as first and how many.
#[inline(always)]
pub(super) fn dots<S: Simd>(
    s: S,
    product: Product,
    (first, rows): (usize, usize),
    (column, width): (usize, usize),
    out: &Shared<f32>,
) {
    let Product { n, k, a, b, output, .. } = product;
    // Rows in turn, so that columns come from memory once for all of them.
    for j in (column..column + width).step_by(TOGETHER) {
        let columns = (j, TOGETHER.min(column + width - j));
        if a.column == 1 {
            // A call: every kind of product would have a copy of it for every type.
            s.vectorize(Dots { a, b, n, k, rows: (first, rows), columns, out, output });
            continue;
        }
        for i in first..first + rows {
            // SAFETY: no other task has these rows and columns.
            let out = unsafe { out.range(i * n + j, columns.1) };
            for (j, out) in (j..).zip(out) {
                let dot = b.dot_apart(|p| a.values[i * a.row + p * a.column], j * b.column, k);
                *out = if output == Output::Add { *out + dot } else { dot };
            }
        }
    }
}

/// Some rows by some columns, for rows that lie in one piece.
struct Dots<'a> {
    a: Matrix<'a>,
    b: Right<'a>,
    n: usize,
    k: usize,
    /// First and how many.
    rows: (usize, usize),
    columns: (usize, usize),
    out: &'a Shared<f32>,
    output: Output,
}

impl WithSimd for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        match self.b.values {
            Values::F32(values) => self.all::<S, f32>(s, values, |s, from| {
                // SAFETY: `dot` only loads whole registers of what it was given.
                unsafe { tile::load(s, from) }
            }),
            // SAFETY: `dot` only loads whole registers of what it was given.
            Values::Bf16(bits) => self.all::<S, u16>(s, bits, |s, from| unsafe { Bf16::load(s, from) }),
            // SAFETY: `dot` only loads whole registers of what it was given.
            Values::F16(bits) => self.all::<S, u16>(s, bits, |s, from| unsafe { F16::load(s, from) }),
        }
    }
}

impl Dots<'_> {
    /// Four rows at a time, then as many as are left. Sums fill half of the registers: where there are few rows, each
    /// has several.
    #[inline(always)]
    fn all<S: Simd, T: Copy + Default>(
        &self,
        s: S,
        values: &[T],
        load: impl Fn(S, *const T) -> S::f32s + Copy,
    ) {
        let (mut row, end) = (self.rows.0, self.rows.0 + self.rows.1);
        while row < end {
            row += match end - row {
                1 => self.columns::<S, T, 1, 4>(s, row, values, load),
                2 => self.columns::<S, T, 2, 2>(s, row, values, load),
                3 => self.columns::<S, T, 3, 1>(s, row, values, load),
                _ => self.columns::<S, T, 4, 1>(s, row, values, load),
            };
        }
    }

    /// `M` rows by all columns, several columns side by side: rows are loaded once for all, and memory is asked for more
    /// than one column at a time.
    #[inline(always)]
    fn columns<S: Simd, T: Copy + Default, const M: usize, const Q: usize>(
        &self,
        s: S,
        row: usize,
        values: &[T],
        load: impl Fn(S, *const T) -> S::f32s + Copy,
    ) -> usize {
        let (mut j, end) = (self.columns.0, self.columns.0 + self.columns.1);
        while j < end {
            j += match end - j {
                4.. if S::REGISTER_COUNT >= 32 => self.block::<S, T, M, 4, Q>(s, (row, j), values, load),
                2.. => self.block::<S, T, M, 2, Q>(s, (row, j), values, load),
                _ => self.block::<S, T, M, 1, Q>(s, (row, j), values, load),
            };
        }
        M
    }

    /// `M` rows by `N` columns.
    #[inline(always)]
    fn block<S: Simd, T: Copy + Default, const M: usize, const N: usize, const Q: usize>(
        &self,
        s: S,
        (row, column): (usize, usize),
        values: &[T],
        load: impl Fn(S, *const T) -> S::f32s + Copy,
    ) -> usize {
        let (mut a, mut b) = ([&self.a.values[..0]; M], [&values[..0]; N]);
        for (i, a) in a.iter_mut().enumerate() {
            *a = &self.a.values[(row + i) * self.a.row..][..self.k];
        }
        for (j, b) in b.iter_mut().enumerate() {
            *b = &values[(column + j) * self.b.column..][..self.k];
        }
        let mut sums = [[[s.splat_f32s(0.0); Q]; N]; M];
        accumulate(s, a, b, load, &mut sums);
        for (i, sums) in sums.iter().enumerate() {
            // SAFETY: no other task has these rows and columns.
            let out = unsafe { self.out.range((row + i) * self.n + column, N) };
            for (out, &sums) in out.iter_mut().zip(sums) {
                let dot = s.reduce_sum_f32s(total(s, sums));
                *out = if self.output == Output::Add { *out + dot } else { dot };
            }
        }
        N
    }
}

/// The sum of one, two or four registers.
#[inline(always)]
fn total<S: Simd, const Q: usize>(s: S, sums: [S::f32s; Q]) -> S::f32s {
    match Q {
        1 => sums[0],
        2 => s.add_f32s(sums[0], sums[Q / 2]),
        _ => s.add_f32s(s.add_f32s(sums[0], sums[Q / 4]), s.add_f32s(sums[Q / 2], sums[Q - 1])),
    }
}

/// Adds the products of `M` runs with `N` others as long, each in `Q` running sums of a register; `load` reads a register.
#[inline(always)]
fn accumulate<S: Simd, T: Copy + Default, const M: usize, const N: usize, const Q: usize>(
    s: S,
    a: [&[f32]; M],
    b: [&[T]; N],
    load: impl Fn(S, *const T) -> S::f32s,
    sums: &mut [[[S::f32s; Q]; N]; M],
) {
    let len = a[0].len();
    assert!(a.iter().all(|a| a.len() == len) && b.iter().all(|b| b.len() == len));
    // Written out for each running sum: those whose place is known when this is compiled stay in registers.
    let (mut at, whole) = (0, len / (Q * S::F32_LANES) * (Q * S::F32_LANES));
    while at < whole {
        step::<S, T, M, N, Q, 0>(s, a, b, at, &load, sums);
        if Q > 1 {
            step::<S, T, M, N, Q, 1>(s, a, b, at, &load, sums);
        }
        if Q > 2 {
            step::<S, T, M, N, Q, 2>(s, a, b, at, &load, sums);
            step::<S, T, M, N, Q, 3>(s, a, b, at, &load, sums);
        }
        at += Q * S::F32_LANES;
    }
    // Less than a register for each running sum is left.
    if at < len {
        last::<S, T, M, N, Q, 0>(s, a, b, at, &load, sums);
        if Q > 1 {
            last::<S, T, M, N, Q, 1>(s, a, b, at, &load, sums);
        }
        if Q > 2 {
            last::<S, T, M, N, Q, 2>(s, a, b, at, &load, sums);
            last::<S, T, M, N, Q, 3>(s, a, b, at, &load, sums);
        }
    }
}

/// Register `I` of those from `at` on, which lies wholly inside the slices.
#[inline(always)]
fn step<S: Simd, T: Copy, const M: usize, const N: usize, const Q: usize, const I: usize>(
    s: S,
    a: [&[f32]; M],
    b: [&[T]; N],
    at: usize,
    load: &impl Fn(S, *const T) -> S::f32s,
    sums: &mut [[[S::f32s; Q]; N]; M],
) {
    let at = at + I * S::F32_LANES;
    let mut columns = [s.splat_f32s(0.0); N];
    for (column, b) in columns.iter_mut().zip(b) {
        // The same place of the column that comes after these, once for each line.
        if I.is_multiple_of(2) || size_of::<T>() > 2 {
            tile::prefetch(b.as_ptr().wrapping_add(N * b.len() + at).cast());
        }
        *column = load(s, b.as_ptr().wrapping_add(at));
    }
    for (a, sums) in a.iter().zip(sums) {
        // SAFETY: inside the slice.
        let x = unsafe { tile::load(s, a.as_ptr().add(at)) };
        for (sums, column) in sums.iter_mut().zip(columns) {
            sums[I] = s.mul_add_e_f32s(x, column, sums[I]);
        }
    }
}

/// The same for a register that may reach beyond the end, or lie there.
#[inline(always)]
fn last<S: Simd, T: Copy + Default, const M: usize, const N: usize, const Q: usize, const I: usize>(
    s: S,
    a: [&[f32]; M],
    b: [&[T]; N],
    at: usize,
    load: &impl Fn(S, *const T) -> S::f32s,
    sums: &mut [[[S::f32s; Q]; N]; M],
) {
    let (start, len) = (at + I * S::F32_LANES, a[0].len());
    if start >= len {
        return;
    }
    let rest = start..len.min(start + S::F32_LANES);
    let mut columns = [s.splat_f32s(0.0); N];
    for (column, b) in columns.iter_mut().zip(b) {
        let mut padded = [T::default(); 16];
        padded[..rest.len()].copy_from_slice(&b[rest.clone()]);
        *column = load(s, padded.as_ptr());
    }
    for (a, sums) in a.iter().zip(sums) {
        let x = s.partial_load_f32s(&a[rest.clone()]);
        for (sums, column) in sums.iter_mut().zip(columns) {
            sums[I] = s.mul_add_e_f32s(x, column, sums[I]);
        }
    }
}
