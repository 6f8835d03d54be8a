//! A band of rows by a few panels of 64 columns.
//!
//! A task takes up to 384 of the products that each value is a sum of, and goes through its panels: it copies the panel of the
//! right operand to where it stays in the nearest caches, and multiplies it with the band of the left operand, which is read
//! in place, value by value. Copies are cheap because a band is about a hundred rows tall or more; the left operand comes from
//! memory once for all panels. A transposed right operand is turned as its panels are copied, a transposed left one once
//! for all panels of a task.

use super::{Finish, Output, Product};
use crate::cpu::simd::dispatch;
use crate::cpu::threads::{self, Shared};
use crate::cpu::tile::{self, Operand, Start};
use crate::pool::Buffer;
use pulp::{Simd, WithSimd};

/// Columns of a panel.
pub(super) const PANEL: usize = 64;

/// The most rows of the right operand that a panel holds at a time: 96 KiB, inside the second-level cache of any core.
/// Longer sums read and write the output once more for each further stretch.
const DEPTH: usize = 384;

/// How many rows of the right operand a panel holds at a time: as even stretches of the sums as can be.
fn stretch(k: usize) -> usize {
    k.div_ceil(k.div_ceil(DEPTH).max(1)).next_multiple_of(16).clamp(1, DEPTH)
}

/// The fewest and the most rows of a band: enough to pay for the copies of panels, few enough to share among threads and
/// for a stretch of the left operand to stay in the second-level cache while panel after panel meets it.
const BAND: (usize, usize) = (96, 512);

/// The most panels of a task.
const PANELS: usize = 16;

/// Up to this many rows, a product is a handful of vectors times a matrix: copying the matrix would cost more than it
/// saves.
const FEW: usize = 4;

/// A transposed left operand is copied if at least this many panels meet it; for fewer, each value is fetched from
/// where it lies.
const WORTH_TURNING: usize = 3;

/// How far apart the rows of that copy begin: not a power of two, so that they do not fight for the same cache lines.
const TURNED_ROW: usize = DEPTH + 16;

/// How a product is cut into tasks.
#[derive(Clone, Copy)]
struct Cut {
    /// Rows of a task.
    band: usize,
    /// Panels of a task.
    group: usize,
    /// Groups side by side.
    groups: usize,
    tasks: usize,
}

impl Cut {
    /// Wide tasks are best, since they read the left operand least; they are made narrower, and bands shorter, only to
    /// have as many tasks as are wanted.
    fn of(m: usize, n: usize, wanted: usize) -> Self {
        let panels = n.div_ceil(PANEL);
        let group = panels.div_ceil(wanted.div_ceil(m.div_ceil(BAND.1))).clamp(1, PANELS);
        let groups = panels.div_ceil(group);
        let even = m.div_ceil(wanted.div_ceil(groups));
        let band = even.clamp(BAND.0, BAND.1).next_multiple_of(tile::ROWS);
        Self { band, group, groups, tasks: groups * m.div_ceil(band) }
    }
}

/// Working memory of a task.
struct Work {
    /// Some rows of a panel.
    copy: Buffer,
    /// The part of the output that hangs over its edge.
    edge: Buffer,
    /// The band's rows of a transposed left operand.
    turned: Buffer,
}

/// A product in at least as many tasks as are wanted, if it is large enough; one is for this thread alone.
pub(super) fn in_tasks(product: Product, out: &mut [f32], finish: &impl Finish, wanted: usize) {
    let Product { m, n, k, a, .. } = product;
    let Cut { band, group, groups, tasks } = Cut::of(m, n, wanted);
    let turns = a.row == 1 && a.column > 1 && group >= WORTH_TURNING && m > FEW;
    let shared = Shared::new(out);
    let prepare = || Work {
        copy: Buffer::dirty(stretch(k) * PANEL),
        edge: Buffer::dirty(if n.is_multiple_of(PANEL) { 0 } else { band.min(m) * PANEL }),
        turned: Buffer::dirty(if turns { band.min(m) * TURNED_ROW } else { 0 }),
    };
    let run = |work: &mut Work, task: usize| {
        let (first, column) = (task / groups * band, task % groups * group * PANEL);
        let (rows, columns) = ((first, band.min(m - first)), (column, (group * PANEL).min(n - column)));
        dispatch(Task { product, rows, columns, out: &shared, finish, work });
    };
    if wanted == 1 {
        let mut work = prepare();
        (0..tasks).for_each(|task| run(&mut work, task));
    } else {
        threads::run_with(tasks, prepare, run);
    }
}

/// A band of rows by a few panels of columns.
struct Task<'a, F> {
    product: Product<'a>,
    /// First and how many.
    rows: (usize, usize),
    columns: (usize, usize),
    out: &'a Shared<f32>,
    finish: &'a F,
    work: &'a mut Work,
}

impl<F: Finish> WithSimd for Task<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, s: S) {
        if self.rows.1 <= FEW && self.product.b.row == 1 && self.product.b.column > 1 {
            self.dots(s);
            self.finish(s, self.columns);
            return;
        }
        let most = stretch(self.product.k);
        for depth in (0..self.product.k.max(1)).step_by(most) {
            let len = most.min(self.product.k - depth);
            let a = self.left(depth, len);
            for column in (0..self.columns.1).step_by(PANEL) {
                let columns = (self.columns.0 + column, PANEL.min(self.columns.1 - column));
                self.panel(s, a, columns, (depth, len));
                if depth + len == self.product.k {
                    self.finish(s, columns);
                }
            }
        }
    }
}

impl<F: Finish> Task<'_, F> {
    /// The band's rows of the left operand, in place or transposed to where they lie well.
    #[inline(always)]
    fn left(&mut self, depth: usize, len: usize) -> Operand {
        let (first, rows) = self.rows;
        let from = &self.product.a.values
            [(first * self.product.a.row + depth * self.product.a.column).min(self.product.a.values.len())..];
        let turned = self.work.turned.as_mut_slice();
        if turned.is_empty() {
            return Operand { start: from.as_ptr(), row: self.product.a.row, column: self.product.a.column };
        }
        tile::transpose((len, rows), (from, self.product.a.column), (turned, TURNED_ROW), 1.0);
        Operand { start: turned.as_ptr(), row: TURNED_ROW, column: 1 }
    }

    /// Adds `len` products, from `depth` on, to each value of a panel's columns.
    #[inline(always)]
    fn panel<S: Simd>(
        &mut self,
        s: S,
        a: Operand,
        (column, width): (usize, usize),
        (depth, len): (usize, usize),
    ) {
        let (first, rows) = self.rows;
        let lanes = width.next_multiple_of(S::F32_LANES);
        let fresh = depth == 0 && self.product.output == Output::Replace;
        let in_place =
            (rows <= FEW && lanes == width && len > 0).then(|| self.product.b.in_place(depth, column));
        let b = if let Some(place) = in_place.flatten() {
            (place, self.product.b.row)
        } else {
            let to = self.work.copy.as_mut_slice();
            self.product.b.copy_panel(s, (column, width), (depth, len), to);
            (self.work.copy.as_slice().as_ptr(), PANEL)
        };
        let start = if fresh { Start::Zero } else { Start::Output };
        if lanes == width {
            let c = (self.out.pointer(first * self.product.n + column), self.product.n);
            // SAFETY: `product_then` checked that the matrices cover their shapes; the copies have `len` rows of a panel
            // and `len` values for each row of the band; no other task writes these rows and columns.
            unsafe { tile::product(s, (rows, lanes, len), a, b, c, start) };
            return;
        }
        // Columns beyond the output's edge are computed elsewhere and not copied back.
        let Self { product, work, out, .. } = self;
        let edge = work.edge.as_mut_slice();
        // SAFETY: no other task has these rows and columns.
        let row = |i: usize| unsafe { out.range((first + i) * product.n + column, width) };
        if !fresh {
            for (i, edge) in edge.chunks_exact_mut(PANEL).take(rows).enumerate() {
                edge[..width].copy_from_slice(row(i));
            }
        }
        // SAFETY: as above; the edge has rows of a panel.
        unsafe { tile::product(s, (rows, lanes, len), a, b, (edge.as_mut_ptr(), PANEL), start) };
        for (i, edge) in edge.chunks_exact(PANEL).take(rows).enumerate() {
            row(i).copy_from_slice(&edge[..width]);
        }
    }

    #[inline(always)]
    fn finish<S: Simd>(&self, s: S, (column, width): (usize, usize)) {
        for row in self.rows.0..self.rows.0 + self.rows.1 {
            // SAFETY: no other task has these rows and columns.
            let values = unsafe { self.out.range(row * self.product.n + column, width) };
            self.finish.finish(s, row, column, values);
        }
    }

    /// A few rows against a transposed matrix: each value is the dot product of two runs of memory.
    #[inline(always)]
    fn dots<S: Simd>(&self, s: S) {
        let ((first, rows), (column, width)) = (self.rows, self.columns);
        let Product { n, k, a, b, output, .. } = self.product;
        for j in column..column + width {
            // Rows in turn, so that the run of the matrix comes from memory once.
            for i in first..first + rows {
                let start = j * b.column;
                let dot = if a.column == 1 {
                    b.dot(s, &a.values[i * a.row..][..k], start)
                } else {
                    b.dot_apart(|p| a.values[i * a.row + p * a.column], start, k)
                };
                // SAFETY: no other task has these rows and columns.
                let out = unsafe { self.out.range(i * n + j, 1) };
                out[0] = if output == Output::Add { out[0] + dot } else { dot };
            }
        }
    }
}
