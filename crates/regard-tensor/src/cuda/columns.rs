//! The sum of each column of a matrix.

use super::device::Device;
use super::error::{Result, ensure};
use super::launch::{Grid, arguments};
use super::memory::{Buffer, Element, View, ViewMut};
use super::pointwise;
use super::program::{Source, source};
use crate::ops::Function;

static PROGRAM: Source = source!("columns.cu");

/// The most bands that rows are split into: their sums are added up by far fewer blocks.
const MOST_BANDS: usize = 256;

/// Fewer rows than this are not worth a band.
const LEAST_ROWS: usize = 64;

/// How rows are split into bands, by the shape and the device alone.
struct Bands {
    count: usize,
    rows: usize,
    tiles: usize,
}

impl Bands {
    fn new(device: &Device, rows: usize, columns: usize, element: Element) -> Self {
        let tiles = columns.div_ceil(32 * element.per_vector());
        let wanted = (8 * device.multiprocessors()).div_ceil(tiles.max(1));
        let most = rows.div_ceil(LEAST_ROWS).clamp(1, MOST_BANDS);
        let per_band = rows.div_ceil(wanted.clamp(1, most)).max(1);
        Self { count: rows.div_ceil(per_band).max(1), rows: per_band, tiles }
    }

    fn grid(&self) -> Grid {
        Grid { blocks: (self.tiles, self.count, 1), ..Grid::new(1, 256) }
    }
}

/// The sum of each column of (rows, columns), as f32.
pub fn sums(x: View, rows: usize, columns: usize) -> Result<Buffer> {
    let mut out = x.device().allocate(columns, Element::F32)?;
    write_sums(x, rows, columns, out.view_mut(), false)?;
    Ok(out)
}

/// Adds the sum of each column to `total`.
pub fn add_sums(x: View, rows: usize, columns: usize, total: ViewMut) -> Result<()> {
    write_sums(x, rows, columns, total, true)
}

fn write_sums(x: View, rows: usize, columns: usize, mut out: ViewMut, add: bool) -> Result<()> {
    ensure(x.len() == rows * columns, "column sums", rows * columns, x.len())?;
    let fits = out.as_view().len() == columns && out.as_view().element() == Element::F32;
    ensure(fits, "column sums", format_args!("{columns} f32 sums"), out.as_view().len())?;
    let device = x.device();
    let bands = Bands::new(device, rows, columns, x.element());
    let kernel = format!("sums_{}", x.element().name());
    if bands.count == 1 {
        let arguments = arguments![x, &mut out, rows, columns, bands.rows, add];
        return device.launch(&PROGRAM, &kernel, bands.grid(), arguments);
    }
    let partial = device.allocate(bands.count * columns, Element::F32)?;
    device.launch(
        &PROGRAM,
        &kernel,
        bands.grid(),
        arguments![x, &partial, rows, columns, bands.rows, false],
    )?;
    join(&partial, bands.count, columns, &mut out, add)
}

/// Adds up the rows of partial sums that few hundred blocks left, as f32.
pub(super) fn join(
    partial: &Buffer,
    rows: usize,
    columns: usize,
    out: &mut ViewMut,
    add: bool,
) -> Result<()> {
    let grid = Grid::new(columns.div_ceil(32 * Element::F32.per_vector()), 1024);
    partial.device().launch(&PROGRAM, "join", grid, arguments![partial, out, rows, columns, add])
}

/// The gradient of f(x + bias) with respect to x, from what f saved and the gradient `g` above it, and the sum of each of
/// its columns: the gradient of the bias.
pub fn function_sums(
    function: Function,
    saved: View,
    g: View,
    rows: usize,
    columns: usize,
) -> Result<(Buffer, Buffer)> {
    for view in [saved, g] {
        let fits = view.len() == rows * columns && view.element() == g.element();
        ensure(fits, "function sums", rows * columns, view.len())?;
    }
    let device = g.device();
    let bands = Bands::new(device, rows, columns, g.element());
    let out = device.allocate(g.len(), g.element())?;
    let partial = device.allocate(bands.count * columns, Element::F32)?;
    let kernel = format!("function_sums_{}_{}", pointwise::name(function), g.element().name());
    let arguments = arguments![saved, g, &out, &partial, rows, columns, bands.rows];
    device.launch(&PROGRAM, &kernel, bands.grid(), arguments)?;
    if bands.count == 1 {
        return Ok((out, partial));
    }
    let mut total = device.allocate(columns, Element::F32)?;
    join(&partial, bands.count, columns, &mut total.view_mut(), false)?;
    Ok((out, total))
}
