//! Matrix products of any size and orientation.
//!
//! The output is cut into tasks (`task.rs` says how they go about it); long sums for a small output are cut along the sums
//! instead. Half of the products of a training step have a transposed operand, so none of the four orientations may be
//! slow.

mod cut;
mod dots;
mod few;
mod pack;
mod right;
mod task;
mod turn;

use super::broadcast::AddInto;
use super::simd::dispatch;
use super::threads;
use crate::array::Array;
use crate::kernels::matmul::Side;
use crate::pool::Buffer;
use pulp::{Simd, WithSimd};
pub(crate) use right::Right;
use task::in_tasks;

/// A matrix inside a slice: element (i, j) lies at `i * row + j * column`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub values: &'a [f32],
    pub row: usize,
    pub column: usize,
}

impl<'a> Matrix<'a> {
    /// A row-major matrix with `columns` columns.
    pub fn rows(values: &'a [f32], columns: usize) -> Self {
        Self { values, row: columns, column: 1 }
    }

    /// The same matrix with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self { values: self.values, row: self.column, column: self.row }
    }

    fn covers(&self, rows: usize, columns: usize) -> bool {
        rows == 0 || columns == 0 || (rows - 1) * self.row + (columns - 1) * self.column < self.values.len()
    }
}

/// What becomes of the values already in the output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Replace,
    Add,
}

/// What happens to finished values while they are in the cache.
pub(crate) trait Finish: Sync {
    /// `values` are the columns from `column` on of row `row`. No two calls get the same place.
    fn finish<S: Simd>(&self, s: S, row: usize, column: usize, values: &mut [f32]);
}

/// Nothing more happens.
impl Finish for () {
    #[inline(always)]
    fn finish<S: Simd>(&self, _: S, _: usize, _: usize, _: &mut [f32]) {}
}

/// Parts that long sums are cut into.
const PARTS: usize = 16;

/// Products of fewer multiply-adds than this are not worth a second thread.
const SMALL: usize = 1 << 17;

/// Sums of at least `LONG` products are cut into parts if the output has at most `FLAT` values (a megabyte a part), and
/// at least `THICK` rows and columns (else reading one of the operands is nearly all the work).
const LONG: usize = 4096;
const FLAT: usize = 1 << 18;
const THICK: usize = 32;

/// `out (m×n, row-major) = a (m×k) · b (k×n)`, or added to it: all but where it goes.
#[derive(Clone, Copy)]
struct Product<'a> {
    m: usize,
    n: usize,
    k: usize,
    a: Matrix<'a>,
    b: Right<'a>,
    output: Output,
}

/// `out (m×n, row-major) = a (m×k) · b (k×n)`, or added to it, then finished.
pub(crate) fn product_then<'a>(
    (m, n, k): (usize, usize, usize),
    a: Matrix<'a>,
    b: impl Into<Right<'a>>,
    out: &mut [f32],
    output: Output,
    finish: &impl Finish,
) {
    let b = b.into();
    assert!(a.covers(m, k) && b.covers(k, n) && out.len() == m * n, "a matrix is smaller than its shape");
    if m == 0 || n == 0 {
        return;
    }
    let product = Product { m, n, k, a, b, output };
    if k >= LONG && m * n <= FLAT && m.min(n) >= THICK {
        in_parts(product, out, finish);
    } else if few::fits(&product) {
        few::few_rows(product, out, finish);
    } else {
        // The smallest are not worth sharing.
        in_tasks(product, out, finish, m * n * k < SMALL);
    }
}

/// The same for long sums of a small output, such as the gradient of a weight over many words: each task takes a part of
/// the sums, so that both operands are read once, and the parts are added in order.
fn in_parts(product: Product, out: &mut [f32], finish: &impl Finish) {
    let Product { m, n, k, a, b, output } = product;
    let part = k.div_ceil(PARTS).next_multiple_of(16);
    let parts = k.div_ceil(part);
    let mut sums = Buffer::dirty(parts * m * n);
    threads::chunks(sums.as_mut_slice(), m * n, |index, sums| {
        let (start, len) = (index * part, part.min(k - index * part));
        let a = Matrix { values: &a.values[start * a.column..], ..a };
        let b = b.rows_from(start);
        in_tasks(Product { m, n, k: len, a, b, output: Output::Replace }, sums, &(), true);
    });
    let sums = sums.as_slice();
    let rows = threads::rows_per_task(n * parts);
    threads::chunks(out, rows * n, |index, out| {
        let start = index * rows * n;
        for i in 0..parts {
            let x = &sums[i * m * n + start..][..out.len()];
            if i == 0 && output == Output::Replace {
                out.copy_from_slice(x);
            } else {
                dispatch(AddInto { total: out, x });
            }
        }
        dispatch(FinishRows { first: index * rows, n, finish, out });
    });
}

/// Finishes whole rows.
struct FinishRows<'a, F> {
    first: usize,
    n: usize,
    finish: &'a F,
    out: &'a mut [f32],
}

impl<F: Finish> WithSimd for FinishRows<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        for (i, row) in self.out.chunks_mut(self.n).enumerate() {
            self.finish.finish(s, self.first + i, 0, row);
        }
    }
}

/// `out (m×n, row-major) = a (m×k) · b (k×n)`, or added to it.
pub(crate) fn product<'a>(
    shape: (usize, usize, usize),
    a: Matrix<'a>,
    b: impl Into<Right<'a>>,
    out: &mut [f32],
    output: Output,
) {
    product_then(shape, a, b, out, output, &());
}

impl Side<'_> {
    /// Matrix number `index`, of `rows × columns`.
    fn matrix(&self, index: usize, rows: usize, columns: usize) -> Matrix<'_> {
        let values = &self.array.slice()[index * self.stride..];
        if self.transposed { Matrix::rows(values, rows).transposed() } else { Matrix::rows(values, columns) }
    }
}

/// Products of a batch of matrices, one after another.
pub(crate) fn batched(batch: usize, (m, n, k): (usize, usize, usize), a: Side, b: Side) -> Array {
    let size = m * n;
    Array::build(batch * size, |out| {
        if size == 0 {
            return;
        }
        // Products too small to share are shared out whole, several to a task.
        let together = if size * k < SMALL { (SMALL / (size * k).max(1)).min(batch).max(1) } else { 1 };
        if together == 1 {
            for (i, out) in out.chunks_mut(size).enumerate() {
                product((m, n, k), a.matrix(i, m, k), b.matrix(i, k, n), out, Output::Replace);
            }
            return;
        }
        threads::chunks(out, together * size, |index, out| {
            for (j, out) in out.chunks_mut(size).enumerate() {
                let i = index * together + j;
                product((m, n, k), a.matrix(i, m, k), b.matrix(i, k, n), out, Output::Replace);
            }
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small whole numbers: every order of summation gives the same result, so the comparison is exact.
    fn numbers(count: usize, salt: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7 + salt * 3 + i / 5) % 9) as f32 - 4.0).collect()
    }

    /// Every orientation of a product, replaced and added to, at places `apart` rows and columns from each other.
    fn check(m: usize, n: usize, k: usize, apart: usize) {
        let (left, right) = (numbers(m * k, 1), numbers(k * n, 2));
        for orientation in 0..4 {
            let turned = |side: usize| orientation & side != 0;
            let a = if turned(1) { Matrix::rows(&left, m).transposed() } else { Matrix::rows(&left, k) };
            let b = if turned(2) { Matrix::rows(&right, k).transposed() } else { Matrix::rows(&right, n) };
            for output in [Output::Replace, Output::Add] {
                let mut out = vec![1.0; m * n];
                product((m, n, k), a, b, &mut out, output);
                for i in (0..m).step_by(apart).chain([m - 1]) {
                    for j in (0..n).step_by(apart).chain([n - 1]) {
                        let one = |p| a.values[i * a.row + p * a.column] * b.values[p * b.row + j * b.column];
                        let sum: f32 = (0..k).map(one).sum();
                        let want = sum + if output == Output::Add { 1.0 } else { 0.0 };
                        assert_eq!(out[i * n + j], want, "{m}×{n}×{k} way {orientation} at {i},{j}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_orientation_and_size_is_exact() {
        let sizes = [1, 2, 4, 5, 6, 7, 63, 64, 65, 97, 130];
        for &m in &sizes {
            for &n in &sizes {
                for k in [0, 1, 3, 17, 64, 257] {
                    check(m, n, k, 40);
                }
            }
        }
        // Several bands and several panels to a task; sums in several stretches, with operands copied for all threads in
        // several rounds; a few rows in strips; then sums in parts.
        check(601, 1605, 300, 71);
        check(100, 130, 800, 31);
        check(300, 1700, 1000, 71);
        for (m, n) in [(1, 700), (2, 300), (3, 333), (4, 200)] {
            check(m, n, 300, 31);
        }
        for (m, n) in [(THICK, 65), (63, 200), (130, 64)] {
            check(m, n, LONG + 1, 31);
        }
    }
}
