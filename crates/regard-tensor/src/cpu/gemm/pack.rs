//! Operands in the form that tasks read them, copied once for all tasks by all threads.

use super::Product;
use super::task::{DEPTH, PANEL, stretch};
use crate::cpu::simd::dispatch;
use crate::cpu::threads::{self, Shared};
use crate::cpu::tile;
use crate::pool::Buffer;
use pulp::{Simd, WithSimd};

/// How far apart the rows of a transposed left operand begin: not a power of two, so that they do not fight for the same
/// cache lines.
pub(super) const TURNED_ROW: usize = DEPTH + 16;

/// Which operands are copied.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub left: bool,
    pub right: bool,
}

/// The values of a round that fit the caches which all cores share: 4 MiB, but at least one stretch of the sums.
const ROOM: usize = 1 << 20;

/// Rows of the left and of the right operand that one thread copies at a time.
const LEFT_ROWS: usize = 48;
const RIGHT_ROWS: usize = 96;

/// A few stretches of the sums (a round) of the operands that are copied.
pub(super) struct Packed {
    /// For each stretch its rows of the left operand, `TURNED_ROW` apart.
    left: Buffer,
    /// For each stretch its panels, one after another.
    right: Buffer,
    share: Share,
    /// Products of a stretch, and of a round.
    most: usize,
    pub round: usize,
    rows: usize,
    panels: usize,
    /// Where the round begins.
    start: usize,
}

impl Packed {
    pub fn new(product: Product, share: Share) -> Self {
        let (most, panels) = (stretch(product.k), product.n.div_ceil(PANEL));
        let left = if share.left { product.m * TURNED_ROW } else { 0 };
        let right = if share.right { panels * PANEL * most } else { 0 };
        let stretches = (ROOM / (left + right).max(1)).clamp(1, product.k.div_ceil(most));
        Self {
            left: Buffer::dirty(stretches * left),
            right: Buffer::dirty(stretches * right),
            share,
            most,
            round: stretches * most,
            rows: product.m,
            panels,
            start: 0,
        }
    }

    /// Copies the products `start..start + count` of both operands.
    pub fn fill(&mut self, product: Product, (start, count): (usize, usize)) {
        let Self { share, most, rows, panels, .. } = *self;
        self.start = start;
        let stretches = count.div_ceil(most);
        let bands = if share.left { rows.div_ceil(LEFT_ROWS) } else { 0 };
        let pieces = most.div_ceil(RIGHT_ROWS);
        let rights = if share.right { panels * pieces } else { 0 };
        let (left, right) = (Shared::new(self.left.as_mut_slice()), Shared::new(self.right.as_mut_slice()));
        threads::run(stretches * (bands + rights), |task| {
            let (index, task) = (task / (bands + rights), task % (bands + rights));
            let depth = start + index * most;
            let len = most.min(product.k - depth);
            if task < bands {
                let first = task * LEFT_ROWS;
                let count = LEFT_ROWS.min(rows - first);
                // SAFETY: each task has its own rows.
                let to = unsafe { left.range((index * rows + first) * TURNED_ROW, count * TURNED_ROW) };
                dispatch(Turn { product, rows: (first, count), depths: (depth, len), to });
            } else {
                let (panel, from) = ((task - bands) / pieces, (task - bands) % pieces * RIGHT_ROWS);
                if from < len {
                    let column = panel * PANEL;
                    let columns = (column, PANEL.min(product.n - column));
                    let depths = (depth + from, RIGHT_ROWS.min(len - from));
                    let place = (index * panels + panel) * most * PANEL + from * PANEL;
                    // SAFETY: each task has its own rows of a panel.
                    let to = unsafe { right.range(place, depths.1 * PANEL) };
                    dispatch(Copy { product, columns, depths, to });
                }
            }
        });
    }

    /// The rows of the left operand from `row` on, at the stretch that begins at `depth`.
    #[inline(always)]
    pub fn left(&self, row: usize, depth: usize) -> Option<&[f32]> {
        let index = (depth - self.start) / self.most;
        self.share.left.then(|| &self.left.as_slice()[(index * self.rows + row) * TURNED_ROW..])
    }

    /// The panel that begins at a column, at the stretch that begins at `depth`.
    #[inline(always)]
    pub fn right(&self, column: usize, depth: usize) -> Option<&[f32]> {
        let panel = (depth - self.start) / self.most * self.panels + column / PANEL;
        self.share.right.then(|| &self.right.as_slice()[panel * self.most * PANEL..])
    }
}

/// Transposes some rows of the left operand.
struct Turn<'a> {
    product: Product<'a>,
    /// First and how many.
    rows: (usize, usize),
    depths: (usize, usize),
    to: &'a mut [f32],
}

impl WithSimd for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let a = self.product.a;
        let from = &a.values[self.rows.0 * a.row + self.depths.0 * a.column..];
        tile::transpose((self.depths.1, self.rows.1), (from, a.column), (self.to, TURNED_ROW), 1.0);
    }
}

/// Copies some rows of a panel.
struct Copy<'a> {
    product: Product<'a>,
    columns: (usize, usize),
    depths: (usize, usize),
    to: &'a mut [f32],
}

impl WithSimd for Copy<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        self.product.b.copy_panel(s, self.columns, self.depths, self.to);
    }
}
