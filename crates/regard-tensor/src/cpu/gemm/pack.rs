//! Operands in the form that tasks read them, copied once for all tasks by all threads.
//!
//! A product that takes several rounds has room for two: threads that find no task of a round any more copy the next one.

use super::Product;
use super::task::{DEPTH, PANEL, stretch};
use crate::cpu::simd::dispatch;
use crate::cpu::threads::Shared;
use crate::cpu::transpose::transpose;
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
    /// Products of a stretch.
    most: usize,
    rows: usize,
    panels: usize,
    /// Where the round begins, and how many products it has.
    depths: (usize, usize),
}

/// How many products a round has: as many stretches of the sums as there is room for.
pub(super) fn round(product: Product, share: Share) -> usize {
    let most = stretch(product.k);
    let (left, right) = sizes(product, share);
    (ROOM / (left + right).max(1)).clamp(1, product.k.div_ceil(most)) * most
}

/// How many values of each operand a stretch has.
fn sizes(product: Product, share: Share) -> (usize, usize) {
    let left = if share.left { product.m * TURNED_ROW } else { 0 };
    let right = if share.right { product.n.div_ceil(PANEL) * PANEL * stretch(product.k) } else { 0 };
    (left, right)
}

impl Packed {
    /// Room for a round, which [`Self::filling`] fills.
    pub fn new(product: Product, share: Share) -> Self {
        let most = stretch(product.k);
        let stretches = round(product, share) / most;
        let (left, right) = sizes(product, share);
        Self {
            left: Buffer::dirty(stretches * left),
            right: Buffer::dirty(stretches * right),
            share,
            most,
            rows: product.m,
            panels: product.n.div_ceil(PANEL),
            depths: (0, 0),
        }
    }

    /// The tasks that copy the products `start..start + count` of both operands.
    pub fn filling<'p>(&'p mut self, product: Product<'p>, depths: (usize, usize)) -> Filling<'p> {
        let Self { share, most, rows, panels, .. } = *self;
        self.depths = depths;
        let pieces = most.div_ceil(RIGHT_ROWS);
        Filling {
            product,
            depths,
            most,
            panels,
            bands: if share.left { rows.div_ceil(LEFT_ROWS) } else { 0 },
            pieces,
            rights: if share.right { panels * pieces } else { 0 },
            left: Shared::new(self.left.as_mut_slice()),
            right: Shared::new(self.right.as_mut_slice()),
        }
    }

    /// The products that it holds: from where on, and how many.
    pub fn depths(&self) -> (usize, usize) {
        self.depths
    }

    /// The rows of the left operand from `row` on, at the stretch that begins at `depth`.
    #[inline(always)]
    pub fn left(&self, row: usize, depth: usize) -> Option<&[f32]> {
        let index = (depth - self.depths.0) / self.most;
        self.share.left.then(|| &self.left.as_slice()[(index * self.rows + row) * TURNED_ROW..])
    }

    /// The panel that begins at a column, at the stretch that begins at `depth`.
    #[inline(always)]
    pub fn right(&self, column: usize, depth: usize) -> Option<&[f32]> {
        let panel = (depth - self.depths.0) / self.most * self.panels + column / PANEL;
        self.share.right.then(|| &self.right.as_slice()[panel * self.most * PANEL..])
    }
}

/// The copying of a round, in tasks.
pub(super) struct Filling<'p> {
    product: Product<'p>,
    depths: (usize, usize),
    most: usize,
    panels: usize,
    /// Tasks of a stretch: for the left operand, and for the right one by pieces of a panel.
    bands: usize,
    pieces: usize,
    rights: usize,
    left: Shared<f32>,
    right: Shared<f32>,
}

impl Filling<'_> {
    /// How many tasks there are.
    pub fn tasks(&self) -> usize {
        self.depths.1.div_ceil(self.most) * (self.bands + self.rights)
    }

    /// Does one of them.
    pub fn run(&self, task: usize) {
        let Self { product, most, panels, bands, pieces, rights, .. } = *self;
        let rows = product.m;
        let (index, task) = (task / (bands + rights), task % (bands + rights));
        let depth = self.depths.0 + index * most;
        let len = most.min(product.k - depth);
        if task < bands {
            let first = task * LEFT_ROWS;
            let count = LEFT_ROWS.min(rows - first);
            // SAFETY: each task has its own rows, and is run once.
            let to = unsafe { self.left.range((index * rows + first) * TURNED_ROW, count * TURNED_ROW) };
            dispatch(Turn { product, rows: (first, count), depths: (depth, len), to });
            return;
        }
        let (panel, from) = ((task - bands) / pieces, (task - bands) % pieces * RIGHT_ROWS);
        if from < len {
            let column = panel * PANEL;
            let columns = (column, PANEL.min(product.n - column));
            let depths = (depth + from, RIGHT_ROWS.min(len - from));
            let place = (index * panels + panel) * most * PANEL + from * PANEL;
            // SAFETY: each task has its own rows of a panel, and is run once.
            let to = unsafe { self.right.range(place, depths.1 * PANEL) };
            dispatch(Copy { product, columns, depths, to });
        }
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
    fn with_simd<S: Simd>(self, s: S) {
        let a = self.product.a;
        let from = &a.values[self.rows.0 * a.row + self.depths.0 * a.column..];
        transpose(s, (self.depths.1, self.rows.1), (from, a.column), (self.to, TURNED_ROW), 1.0);
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
