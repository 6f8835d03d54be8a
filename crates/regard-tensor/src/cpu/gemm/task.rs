//! A band of rows by a few panels of 64 columns.
//!
//! A task takes up to 384 of the products that each value is a sum of, and goes through its panels: it copies the panel of the
//! right operand to where it stays in the nearest caches, and multiplies it with the band of the left operand, which is read
//! in place, value by value. Copies are cheap because a band is about a hundred rows tall or more; the left operand comes from
//! memory once for all panels. A transposed right operand is turned as its panels are copied, a transposed left one once
//! for all panels of a task.

use super::cut::Cut;
use super::dots;
use super::few::FEW;
use super::pack::{self, Filling, Packed, Share, TURNED_ROW};
use super::{Finish, Output, Product};
use crate::cpu::simd::dispatch;
use crate::cpu::threads::{self, Shared};
use crate::cpu::tile::{self, Operand, Start};
use crate::cpu::transpose::transpose;
use crate::pool::Buffer;
use pulp::{Simd, WithSimd};

/// Columns of a panel.
pub(super) const PANEL: usize = 64;

/// The most rows of the right operand that a panel holds at a time: 96 KiB, inside the second-level cache of any core.
/// Longer sums read and write the output once more for each further stretch.
pub(super) const DEPTH: usize = 384;

/// How many rows of the right operand a panel holds at a time: as even stretches of the sums as can be.
pub(super) fn stretch(k: usize) -> usize {
    k.div_ceil(k.div_ceil(DEPTH).max(1)).next_multiple_of(16).clamp(1, DEPTH)
}

/// A transposed left operand is copied if at least this many panels meet it; for fewer, each value is fetched from
/// where it lies.
const WORTH_TURNING: usize = 3;

/// Working memory of a thread.
struct Work {
    /// Some rows of a panel.
    copy: Buffer,
    /// The part of the output that hangs over its edge.
    edge: Buffer,
    /// The band's rows of a transposed left operand.
    turned: Buffer,
}

/// A product in tasks, or on this thread alone.
pub(super) fn in_tasks(product: Product, out: &mut [f32], finish: &impl Finish, alone: bool) {
    let Product { m, n, k, a, .. } = product;
    let Cut { band, bands, group, groups } = if alone { Cut::alone(m, n) } else { Cut::of(m, n, k) };
    let turns = a.row == 1 && a.column > 1 && m > FEW && n.div_ceil(PANEL) >= WORTH_TURNING;
    // What several tasks need in another form than it lies is copied once for all of them.
    let copies = !alone && !dots::fits(&product);
    let share = Share { left: copies && turns && groups > 1, right: copies && bands > 1 && k > 0 };
    let shared = Shared::new(out);
    let prepare = || Work {
        copy: Buffer::scratch(if share.right { 0 } else { stretch(k) * PANEL }),
        edge: Buffer::scratch(if n.is_multiple_of(PANEL) { 0 } else { band * PANEL }),
        turned: Buffer::scratch(if turns && !share.left { band * TURNED_ROW } else { 0 }),
    };
    let run = |work: &mut Work, task: usize, depths: (usize, usize), packed: Option<&Packed>| {
        // Tasks of the same rows follow each other, so that a thread keeps to its rows.
        let (first, column) = (task / groups * band, task % groups * group * PANEL);
        let (rows, columns) = ((first, band.min(m - first)), (column, (group * PANEL).min(n - column)));
        dispatch(Task { product, rows, columns, depths, packed, out: &shared, finish, work });
    };
    if alone {
        let mut work = prepare();
        (0..bands * groups).for_each(|task| run(&mut work, task, (0, k), None));
    } else if share.left || share.right {
        let round = pack::round(product, share);
        let depths = |start: usize| (start, round.min(k - start));
        let mut now = Packed::new(product, share);
        let mut then = (round < k).then(|| Packed::new(product, share));
        let first = now.filling(product, depths(0));
        threads::run(first.tasks(), |task| first.run(task));
        for start in (0..k).step_by(round) {
            let filling = then
                .as_mut()
                .filter(|_| start + round < k)
                .map(|then| then.filling(product, depths(start + round)));
            threads::run_with_then(
                bands * groups,
                prepare,
                |work, task| run(work, task, now.depths(), Some(&now)),
                filling.as_ref().map_or(0, Filling::tasks),
                |task| filling.iter().for_each(|filling| filling.run(task)),
            );
            if let Some(then) = &mut then {
                std::mem::swap(&mut now, then);
            }
        }
    } else {
        threads::run_with(bands * groups, prepare, |work, task| run(work, task, (0, k), None));
    }
}

/// A band of rows by a few panels of columns.
struct Task<'a, F> {
    product: Product<'a>,
    /// First and how many.
    rows: (usize, usize),
    columns: (usize, usize),
    /// Which of the products that each value is a sum of.
    depths: (usize, usize),
    packed: Option<&'a Packed>,
    out: &'a Shared<f32>,
    finish: &'a F,
    work: &'a mut Work,
}

impl<F: Finish> WithSimd for Task<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, s: S) {
        if dots::fits(&self.product) {
            dots::dots(s, self.product, self.rows, self.columns, self.out);
            self.finish(s, self.columns);
            return;
        }
        let most = stretch(self.product.k);
        let (start, count) = self.depths;
        for depth in (start..start + count.max(1)).step_by(most) {
            let len = most.min(self.product.k - depth);
            let a = self.left(s, depth, len);
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
    fn left<S: Simd>(&mut self, s: S, depth: usize, len: usize) -> Operand {
        let (first, rows) = self.rows;
        let from = &self.product.a.values
            [(first * self.product.a.row + depth * self.product.a.column).min(self.product.a.values.len())..];
        if let Some(turned) = self.packed.and_then(|packed| packed.left(first, depth)) {
            return Operand { start: turned.as_ptr(), row: TURNED_ROW, column: 1 };
        }
        let turned = self.work.turned.as_mut_slice();
        if turned.is_empty() {
            return Operand { start: from.as_ptr(), row: self.product.a.row, column: self.product.a.column };
        }
        transpose(s, (len, rows), (from, self.product.a.column), (turned, TURNED_ROW), 1.0);
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
        let few = self.product.m <= FEW && lanes == width && len > 0;
        let in_place = few.then(|| self.product.b.in_place(depth, column)).flatten();
        let b = if let Some(place) = in_place {
            (place, self.product.b.row)
        } else if let Some(panel) = self.packed.and_then(|packed| packed.right(column, depth)) {
            (panel.as_ptr(), PANEL)
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
}
