//! Matrix products, on the `gemm` crate's micro-kernels and this engine's threads.

use super::simd::FlushDenormals;
use super::threads::{self, Shared};
use crate::array::Array;

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

/// The smallest share of a product worth handing to a thread, in multiply-adds: some 20 microseconds.
const SHARE: usize = 1 << 21;

/// The most tasks a product is cut into.
const MOST_TASKS: usize = 32;

/// How a product is cut: into bands of rows or of columns of the output, by its shape alone.
struct Cut {
    by_rows: bool,
    band: usize,
    tasks: usize,
}

fn cut(m: usize, n: usize, k: usize) -> Cut {
    let work = m.saturating_mul(n).saturating_mul(k);
    // Every band packs the other operand again, so bands are along the longer side.
    let by_rows = m >= n;
    let side = m.max(n);
    let tasks = (work / SHARE).clamp(1, MOST_TASKS).min(side.div_ceil(48).max(1));
    // Whole multiples of 48 rows keep the micro-kernel's tiles full (it takes 16 to 48 at a time).
    let band = side.div_ceil(tasks).next_multiple_of(if tasks > 1 { 48 } else { 1 });
    Cut { by_rows, band, tasks: if band == 0 { 0 } else { side.div_ceil(band) } }
}

/// `out (m×n, row-major) = a (m×k) · b (k×n)`, or added to it. `epilogue(first row, rows)` runs on each finished
/// band of whole rows while it is in the cache; products cut by columns call it once at the end.
pub(crate) fn product_then(
    (m, n, k): (usize, usize, usize),
    a: Matrix,
    b: Matrix,
    out: &mut [f32],
    output: Output,
    epilogue: impl Fn(usize, &mut [f32]) + Sync,
) {
    assert!(a.covers(m, k) && b.covers(k, n) && out.len() == m * n, "a matrix is smaller than its shape");
    if m == 0 || n == 0 {
        return;
    }
    let cut = cut(m, n, k);
    let shared = Shared::new(out);
    threads::run(cut.tasks, |task| {
        let start = task * cut.band;
        if cut.by_rows {
            let rows = cut.band.min(m - start);
            // SAFETY: bands of rows are disjoint, and lie inside the output by the assertion above.
            unsafe {
                tile((rows, n, k), a, start * a.row, b, 0, shared.pointer(start * n), n, output);
                epilogue(start, shared.range(start * n, rows * n));
            }
        } else {
            let columns = cut.band.min(n - start);
            // SAFETY: bands of columns are disjoint, and lie inside the output by the assertion above.
            unsafe { tile((m, columns, k), a, 0, b, start * b.column, shared.pointer(start), n, output) };
        }
    });
    if !cut.by_rows {
        let rows = threads::rows_per_task(n);
        threads::chunks(out, rows * n, |index, band| epilogue(index * rows, band));
    }
}

/// `out (m×n, row-major) = a (m×k) · b (k×n)`, or added to it.
pub(crate) fn product(shape: (usize, usize, usize), a: Matrix, b: Matrix, out: &mut [f32], output: Output) {
    product_then(shape, a, b, out, output, |_, _| {});
}

/// One side of a batch of products.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'a> {
    pub array: &'a Array,
    /// Whether each matrix lies with its rows and columns exchanged.
    pub transposed: bool,
    /// From one matrix to the next; 0 for one that all share.
    pub stride: usize,
}

impl Operand<'_> {
    /// Matrix number `index`, of `rows × columns`.
    fn matrix(&self, index: usize, rows: usize, columns: usize) -> Matrix<'_> {
        let values = &self.array.slice()[index * self.stride..];
        if self.transposed { Matrix::rows(values, rows).transposed() } else { Matrix::rows(values, columns) }
    }
}

/// Products of a batch of matrices, one after another.
pub(crate) fn batched(batch: usize, (m, n, k): (usize, usize, usize), a: Operand, b: Operand) -> Array {
    let size = m * n;
    Array::build(batch * size, |out| {
        if size == 0 {
            return;
        }
        if batch == 1 || size * k >= SHARE {
            for (i, out) in out.chunks_mut(size).enumerate() {
                product((m, n, k), a.matrix(i, m, k), b.matrix(i, k, n), out, Output::Replace);
            }
            return;
        }
        // Small products: several to a task.
        let together = (SHARE / (size * k).max(1)).clamp(1, batch.div_ceil(2));
        threads::chunks(out, together * size, |index, out| {
            for (j, out) in out.chunks_mut(size).enumerate() {
                let i = index * together + j;
                single((m, n, k), a.matrix(i, m, k), b.matrix(i, k, n), out, Output::Replace);
            }
        });
    })
}

/// A product on the calling thread alone.
pub(crate) fn single(
    (m, n, k): (usize, usize, usize),
    a: Matrix,
    b: Matrix,
    out: &mut [f32],
    output: Output,
) {
    assert!(a.covers(m, k) && b.covers(k, n) && out.len() >= m * n, "a matrix is smaller than its shape");
    // SAFETY: all three matrices cover their shapes.
    unsafe { tile((m, n, k), a, 0, b, 0, out.as_mut_ptr(), n, output) };
}

/// A product on the calling thread, written to rows `stride` apart.
///
/// # Safety
/// `a` from `a_start`, `b` from `b_start` and `out` must cover their shapes, and nobody else may touch `out`.
#[allow(clippy::too_many_arguments)] // the shape of the problem: two operands, an output, a place in each
unsafe fn tile(
    (m, n, k): (usize, usize, usize),
    a: Matrix,
    a_start: usize,
    b: Matrix,
    b_start: usize,
    out: *mut f32,
    stride: usize,
    output: Output,
) {
    let _flushed = FlushDenormals::new();
    // SAFETY: promised by the caller.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out,
            1,
            stride as isize,
            output == Output::Add,
            a.values.as_ptr().add(a_start),
            a.column as isize,
            a.row as isize,
            b.values.as_ptr().add(b_start),
            b.column as isize,
            b.row as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
