//! Moving values: permuted axes, parts of an axis, arrays joined along an axis, image patches.

use super::axes::{Axes, Axis, join};
use super::error::{Result, ensure};
use super::launch::{Grid, arguments};
use super::memory::{Buffer, View, ViewMut};
use super::program::{Source, source};
use crate::shape::Shape;

pub use crate::kernels::layout::Patches;

static PROGRAM: Source = source!("layout.cu");

/// Moves values along axes on which `first` is the stride in `from` and `second` that in `to`.
fn transfer(from: View, mut to: ViewMut, axes: &[Axis]) -> Result<()> {
    let size = from.element().size();
    ensure(to.as_view().element() == from.element(), "layout", from.element().name(), "another type")?;
    for (len, stride) in [(from.len(), Axis::first as fn(&Axis) -> usize), (to.as_view().len(), Axis::second)]
    {
        let last: usize = axes.iter().map(|axis| axis.length.saturating_sub(1) * stride(axis)).sum();
        ensure(
            last < len || axes.iter().any(|axis| axis.length == 0),
            "layout",
            format_args!("below {len}"),
            last,
        )?;
    }
    let mut axes = join(axes.iter().copied());
    let mut count: usize = axes.iter().map(|axis| axis.length).product();
    // The widest unit that divides the innermost run and every stride and address.
    let mut unit = size;
    if let Some(inner) = axes.last().copied().filter(|inner| inner.first == 1 && inner.second == 1) {
        let outer = &axes[..axes.len() - 1];
        let divides = |bytes: usize| {
            let values = bytes / size;
            let strides = outer.iter().flat_map(|axis| [axis.first, axis.second]);
            strides.chain([inner.length]).all(|stride| stride.is_multiple_of(values))
                && [from.pointer(), to.as_view().pointer()].iter().all(|at| at.is_multiple_of(bytes as u64))
        };
        if let Some(&widest) = [16, 8, 4].iter().find(|&&bytes| bytes > size && divides(bytes)) {
            unit = widest;
            let values = widest / size;
            let last = axes.len() - 1;
            for axis in &mut axes[..last] {
                (axis.first, axis.second) = (axis.first / values, axis.second / values);
            }
            axes[last].length /= values;
            count /= values;
        }
    }
    let axes = Axes::new(&axes, "layout")?;
    let grid = Grid::over(count, 1);
    from.device().launch(
        &PROGRAM,
        &format!("move_{unit}"),
        grid,
        arguments![from, &mut to, &axes, count as u32],
    )
}

impl Axis {
    fn first(&self) -> usize {
        self.first
    }

    fn second(&self) -> usize {
        self.second
    }
}

/// The array with its axes in another order. `axes[i]` is the old axis that becomes axis `i`.
pub fn permute(x: View, shape: &Shape, axes: &[usize]) -> Result<Buffer> {
    ensure(x.len() == shape.count(), "permute", shape.count(), x.len())?;
    let mut out = x.device().allocate(x.len(), x.element())?;
    let old = shape.strides();
    let mut walk: Vec<Axis> =
        axes.iter().map(|&axis| Axis { length: shape[axis], first: old[axis], second: 0 }).collect();
    let mut stride = 1;
    for axis in walk.iter_mut().rev() {
        axis.second = stride;
        stride *= axis.length;
    }
    // Reading along one axis and writing along another goes through tiles.
    if let Some((matrices, rows, columns)) = as_transpose(&join(walk.iter().copied())) {
        let size = x.element().size();
        let tiles = rows.div_ceil(32) * columns.div_ceil(32);
        if (size == 2 || size == 4) && matrices <= 65_535 {
            let grid = Grid { blocks: (tiles, matrices, 1), ..Grid::new(1, 256) };
            let arguments = arguments![x, &out, rows as u32, columns as u32];
            x.device().launch(&PROGRAM, &format!("transpose_{size}"), grid, arguments)?;
            return Ok(out);
        }
    }
    transfer(x, out.view_mut(), &walk)?;
    Ok(out)
}

/// (matrices, rows, columns) of the input, if the walk exchanges the last two axes and nothing else.
fn as_transpose(walk: &[Axis]) -> Option<(usize, usize, usize)> {
    let (batch, columns, rows) = match *walk {
        [columns, rows] => (None, columns, rows),
        [batch, columns, rows] => (Some(batch), columns, rows),
        _ => return None,
    };
    let apart = rows.length * columns.length;
    let fits = columns.first == 1
        && rows.first == columns.length
        && batch.is_none_or(|batch| batch.first == apart && batch.second == apart);
    fits.then(|| (batch.map_or(1, |batch| batch.length), rows.length, columns.length))
}

/// The same values under a larger shape that theirs broadcasts to.
pub fn expand(x: View, from: &Shape, to: &Shape) -> Result<Buffer> {
    ensure(x.len() == from.count(), "expand", from.count(), x.len())?;
    let mut out = x.device().allocate(to.count(), x.element())?;
    if out.is_empty() {
        return Ok(out);
    }
    let (read, written) = (from.broadcast_strides(to), to.strides());
    let strides = read.iter().zip(&written);
    let walk: Vec<Axis> =
        to.iter().zip(strides).map(|(&length, (&first, &second))| Axis { length, first, second }).collect();
    transfer(x, out.view_mut(), &walk)?;
    Ok(out)
}

/// Rows of `width` values between two arrays: `outer` of them, `strides` apart in the first and in the second.
fn rows(from: View, to: ViewMut, outer: usize, width: usize, strides: (usize, usize)) -> Result<()> {
    let axes = [
        Axis { length: outer, first: strides.0, second: strides.1 },
        Axis { length: width, first: 1, second: 1 },
    ];
    transfer(from, to, &axes)
}

/// `length` places of an axis from `start` on; `outer` blocks of `full × inner` values.
pub fn slice(
    x: View,
    (outer, full, inner): (usize, usize, usize),
    start: usize,
    length: usize,
) -> Result<Buffer> {
    let mut out = x.device().allocate(outer * length * inner, x.element())?;
    if !out.is_empty() {
        let from = x.part(start * inner, x.len() - start * inner)?;
        rows(from, out.view_mut(), outer, length * inner, (full * inner, length * inner))?;
    }
    Ok(out)
}

/// The opposite of [`slice`]: zeros with `x` in their place.
pub fn unslice(x: View, (outer, full, inner): (usize, usize, usize), start: usize) -> Result<Buffer> {
    let mut out = x.device().zeros(outer * full * inner, x.element())?;
    overwrite(out.view_mut(), (outer, full, inner), start, x)?;
    Ok(out)
}

/// Writes a part over `start..` of an axis.
pub fn overwrite(
    x: ViewMut,
    (outer, full, inner): (usize, usize, usize),
    start: usize,
    part: View,
) -> Result<()> {
    if part.is_empty() {
        return Ok(());
    }
    let width = part.len() / outer.max(1);
    ensure(start * inner + width <= full * inner, "overwrite", full * inner, start * inner + width)?;
    let rest = x.as_view().len() - start * inner;
    rows(part, x.part(start * inner, rest)?, outer, width, (width, full * inner))
}

/// Arrays joined along an axis: each has `outer` blocks of its own width.
pub fn concatenate(parts: &[View], outer: usize) -> Result<Buffer> {
    ensure(!parts.is_empty(), "concatenate", "at least one array", 0)?;
    let first = parts[0];
    let total: usize = parts.iter().map(View::len).sum();
    let mut out = first.device().allocate(total, first.element())?;
    let mut start = 0;
    for part in parts {
        overwrite(out.view_mut(), (outer, total / outer.max(1), 1), start, *part)?;
        start += part.len() / outer.max(1);
    }
    Ok(out)
}

impl Patches {
    /// The walk over (batch, patch row, patch column, channel, row, column): the image's strides first.
    fn walk(self) -> [Axis; 6] {
        let Self { batch, channels, height, width, size } = self;
        let (down, across) = (height / size, width / size);
        let patch = channels * size * size;
        let axis = |length, first, second| Axis { length, first, second };
        [
            axis(batch, channels * height * width, down * across * patch),
            axis(down, size * width, across * patch),
            axis(across, size, patch),
            axis(channels, height * width, size * size),
            axis(size, width, size),
            axis(size, 1, 1),
        ]
    }

    fn pixels(self) -> usize {
        self.batch * self.channels * self.height * self.width
    }
}

/// Images (batch, channels, height, width) to patches (batch, patches, channels · size · size).
pub fn unfold(x: View, patches: Patches) -> Result<Buffer> {
    ensure(x.len() == patches.pixels(), "unfold", patches.pixels(), x.len())?;
    let mut out = x.device().allocate(patches.batch * patches.count() * patches.values(), x.element())?;
    transfer(x, out.view_mut(), &patches.walk())?;
    Ok(out)
}

/// The gradient of [`unfold`]: patches back into their images. Pixels outside every patch get 0.
pub fn fold(gradient: View, patches: Patches) -> Result<Buffer> {
    ensure(
        gradient.len() == patches.batch * patches.count() * patches.values(),
        "fold",
        patches.batch * patches.count() * patches.values(),
        gradient.len(),
    )?;
    let mut out = gradient.device().zeros(patches.pixels(), gradient.element())?;
    let walk =
        patches.walk().map(|axis| Axis { length: axis.length, first: axis.second, second: axis.first });
    transfer(gradient, out.view_mut(), &walk)?;
    Ok(out)
}
