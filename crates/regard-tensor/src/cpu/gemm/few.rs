//! A few rows times a matrix, which is read once, where it lies: most of the work of generating a token.
//!
//! Nothing but the speed of memory matters here. A task takes a strip of columns, as wide as there are registers for its sums,
//! and a part of the sums, so that it reads long runs of memory and there are enough tasks for many cores; the parts are added in
//! order.

use super::{Finish, FinishRows, Output, Product};
use crate::cpu::broadcast::AddInto;
use crate::cpu::simd::{Bf16, F16, Half, dispatch};
use crate::cpu::threads::{self, Shared};
use crate::cpu::tile;
use crate::pool::Buffer;
use crate::storage::Values;
use pulp::{Simd, WithSimd};
use std::marker::PhantomData;

/// Up to this many rows.
pub(super) const FEW: usize = 4;

/// Columns of a strip: what sixteen of the widest registers hold, shared among the rows.
fn strip(rows: usize) -> usize {
    256 / rows.next_power_of_two()
}

/// Tasks that a product should have, and the fewest rows of the matrix that one of them reads.
const TASKS: usize = 48;
const DEPTH: usize = 32;

/// How many rows ahead memory is asked for, and the bytes that come at a time.
const AHEAD: usize = 8;
const LINE: usize = 64;

/// Whether this is the way to take a product: few rows, and a matrix whose rows lie in one piece.
pub(super) fn fits(product: &Product) -> bool {
    let Product { m, n, k, a, b, .. } = *product;
    m <= FEW && b.column == 1 && a.column == 1 && n >= strip(m) && k >= 2 * DEPTH
}

pub(super) fn few_rows(product: Product, out: &mut [f32], finish: &impl Finish) {
    let Product { m, n, k, output, .. } = product;
    let strips = n.div_ceil(strip(m));
    let part = k.div_ceil(TASKS.div_ceil(strips)).next_multiple_of(8).max(DEPTH);
    let parts = k.div_ceil(part);
    let mut sums = Buffer::dirty(parts * m * n);
    let shared = Shared::new(sums.as_mut_slice());
    threads::run(strips * parts, |task| {
        // Neighbouring strips of the same rows at the same time: together they read whole rows.
        let (index, first) = (task / strips, task % strips * strip(m));
        let columns = (first, strip(m).min(n - first));
        let depths = (index * part, part.min(k - index * part));
        dispatch(Strip { product, columns, depths, part: index, sums: &shared });
    });
    for (index, part) in sums.as_slice().chunks(m * n).enumerate() {
        if index == 0 && output == Output::Replace {
            out.copy_from_slice(part);
        } else {
            dispatch(AddInto { total: out, x: part });
        }
    }
    dispatch(FinishRows { first: 0, n, finish, out });
}

/// A strip of columns, and a part of its sums.
struct Strip<'a> {
    product: Product<'a>,
    columns: (usize, usize),
    depths: (usize, usize),
    part: usize,
    sums: &'a Shared<f32>,
}

/// How values become `f32` in registers.
trait Load {
    type Value: Copy;

    /// # Safety
    /// One register's worth of values must lie at `from`.
    unsafe fn load<S: Simd>(s: S, from: *const Self::Value) -> S::f32s;
}

/// `f32` values as they are.
struct Wide;

impl Load for Wide {
    type Value = f32;

    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, from: *const f32) -> S::f32s {
        // SAFETY: promised by the caller.
        unsafe { tile::load(s, from) }
    }
}

/// 16-bit values, widened.
struct Narrow<H>(PhantomData<H>);

impl<H: Half> Load for Narrow<H> {
    type Value = u16;

    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, from: *const u16) -> S::f32s {
        // SAFETY: promised by the caller.
        unsafe { H::load(s, from) }
    }
}

impl WithSimd for Strip<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        match self.product.b.values {
            Values::F32(values) => self.go::<S, Wide>(s, values),
            Values::Bf16(values) => self.go::<S, Narrow<Bf16>>(s, values),
            Values::F16(values) => self.go::<S, Narrow<F16>>(s, values),
        }
    }
}

impl Strip<'_> {
    #[inline(always)]
    fn go<S: Simd, L: Load>(&self, s: S, values: &[L::Value]) {
        let (m, width) = (self.product.m, self.columns.1);
        let mut column = 0;
        // All registers at once where the strip is whole, else as many as there are columns.
        while column + 16 * S::F32_LANES <= width && m == 1 && S::REGISTER_COUNT >= 32 {
            self.block::<S, L, 1, 16>(s, values, column);
            column += 16 * S::F32_LANES;
        }
        while column + 8 * S::F32_LANES <= width && m <= 2 && S::REGISTER_COUNT >= 32 {
            match m {
                1 => self.block::<S, L, 1, 8>(s, values, column),
                _ => self.block::<S, L, 2, 8>(s, values, column),
            }
            column += 8 * S::F32_LANES;
        }
        while column + 2 * S::F32_LANES <= width {
            match m {
                1 => self.block::<S, L, 1, 2>(s, values, column),
                2 => self.block::<S, L, 2, 2>(s, values, column),
                3 => self.block::<S, L, 3, 2>(s, values, column),
                _ => self.block::<S, L, 4, 2>(s, values, column),
            }
            column += 2 * S::F32_LANES;
        }
        self.rest(column);
    }

    /// `M` rows by `N` registers of columns.
    #[inline(always)]
    fn block<S: Simd, L: Load, const M: usize, const N: usize>(
        &self,
        s: S,
        values: &[L::Value],
        column: usize,
    ) {
        let Product { m, n, k, a, b, .. } = self.product;
        let (first, (start, len)) = (self.columns.0 + column, self.depths);
        assert!(M == m && first + N * S::F32_LANES <= n && start + len <= k);
        let lines = (N * S::F32_LANES * size_of::<L::Value>()).div_ceil(LINE);
        let mut sums = [[s.splat_f32s(0.0); N]; M];
        // SAFETY: rows below m, columns below n and depths below k, which the matrices were checked to cover; each task has
        // its own strip of its own part.
        unsafe {
            let mut from = values.as_ptr().wrapping_add(start * b.row + first);
            let mut left = a.values.as_ptr().wrapping_add(start);
            for _ in 0..len {
                for line in 0..lines {
                    tile::prefetch(
                        from.wrapping_add(AHEAD * b.row).cast::<f32>().wrapping_add(line * LINE / 4),
                    );
                }
                let mut vectors = [s.splat_f32s(0.0); N];
                for (j, vector) in vectors.iter_mut().enumerate() {
                    *vector = L::load(s, from.add(j * S::F32_LANES));
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let value = s.splat_f32s(*left.add(i * a.row));
                    for (sum, vector) in sums.iter_mut().zip(vectors) {
                        *sum = s.mul_add_e_f32s(value, vector, *sum);
                    }
                }
                from = from.wrapping_add(b.row);
                left = left.wrapping_add(1);
            }
            for (i, sums) in sums.iter().enumerate() {
                let to = self.sums.pointer((self.part * m + i) * n + first);
                for (j, sum) in sums.iter().enumerate() {
                    tile::store(s, to.add(j * S::F32_LANES), *sum);
                }
            }
        }
    }

    /// The last columns, one by one.
    #[inline(always)]
    fn rest(&self, column: usize) {
        let Product { m, n, a, b, .. } = self.product;
        let (first, end) = (self.columns.0 + column, self.columns.0 + self.columns.1);
        for i in 0..m {
            // SAFETY: each task has its own strip of its own part.
            let to = unsafe { self.sums.range((self.part * m + i) * n + first, end - first) };
            to.fill(0.0);
            for p in self.depths.0..self.depths.0 + self.depths.1 {
                let value = a.values[i * a.row + p];
                for (to, j) in to.iter_mut().zip(first..end) {
                    *to = value.mul_add(b.at(p * b.row + j), *to);
                }
            }
        }
    }
}
