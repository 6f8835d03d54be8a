//! Sums, maxima and where they are, along one axis.

use super::columns;
use super::error::{Result, ensure};
use super::launch::{Grid, arguments};
use super::memory::{Buffer, Element, View};
use super::program::{Source, source};

static PROGRAM: Source = source!("reduce.cu");

/// An axis in the middle of an array: how many blocks before it, its length, how many values after it.
pub type Axis = (usize, usize, usize);

/// Rows longer than this are summed in pieces.
const PIECE: usize = 16_384;

/// The sums along an axis, as f32.
pub fn sum(x: View, (outer, length, inner): Axis) -> Result<Buffer> {
    ensure(x.len() == outer * length * inner, "sum", outer * length * inner, x.len())?;
    match (outer, inner) {
        (_, 1) => row_sums("sums", x, outer, length),
        (1, _) => columns::sums(x, length, inner),
        _ => {
            let out = x.device().allocate(outer * inner, Element::F32)?;
            let kernel = format!("axis_sums_{}", x.element().name());
            let grid = Grid::over(outer * inner, 1);
            x.device().launch(&PROGRAM, &kernel, grid, arguments![x, &out, outer, length, inner])?;
            Ok(out)
        }
    }
}

/// The sum of the squares of all values: one f32.
pub fn sum_of_squares(x: View) -> Result<Buffer> {
    row_sums("squares", x, 1, x.len())
}

fn row_sums(name: &str, x: View, rows: usize, length: usize) -> Result<Buffer> {
    let device = x.device();
    let pieces = length.div_ceil(PIECE).max(1);
    let out = device.allocate(rows * pieces, Element::F32)?;
    // A grid has at most 65,535 blocks in its second direction.
    for first in (0..rows).step_by(ROWS_AT_ONCE) {
        let count = ROWS_AT_ONCE.min(rows - first);
        let x = x.part(first * length, count * length)?;
        let to = out.view().part(first * pieces, count * pieces)?;
        let threads = length.div_ceil(x.element().per_vector()).next_power_of_two().clamp(32, 256);
        let grid = Grid { blocks: (pieces, count, 1), ..Grid::new(1, threads) };
        let kernel = format!("{name}_{}", x.element().name());
        device.launch(&PROGRAM, &kernel, grid, arguments![x, to, length, PIECE])?;
    }
    if pieces == 1 { Ok(out) } else { row_sums("sums", out.view(), rows, pieces) }
}

const ROWS_AT_ONCE: usize = 65_535;

/// The largest value along an axis and its place (the first of equals); NaN wins over everything.
pub fn max(x: View, (outer, length, inner): Axis) -> Result<(Buffer, Buffer)> {
    ensure(x.len() == outer * length * inner, "max", outer * length * inner, x.len())?;
    ensure(length > 0 || outer * inner == 0, "max", "at least one value", length)?;
    let device = x.device();
    let values = device.allocate(outer * inner, x.element())?;
    let places = device.allocate(outer * inner, Element::U32)?;
    if inner == 1 {
        let kernel = format!("row_max_{}", x.element().name());
        let grid = Grid::new(outer.div_ceil(8), 256);
        device.launch(&PROGRAM, &kernel, grid, arguments![x, &values, &places, outer, length])?;
    } else {
        let kernel = format!("axis_max_{}", x.element().name());
        let grid = Grid::over(outer * inner, 1);
        device.launch(&PROGRAM, &kernel, grid, arguments![x, &values, &places, outer, length, inner])?;
    }
    Ok((values, places))
}

/// Puts each value at its place along an axis that is zero elsewhere: the gradient of a maximum.
pub fn scatter(values: View, places: View, (outer, length, inner): Axis) -> Result<Buffer> {
    let fits = values.len() == outer * inner && places.len() == outer * inner;
    ensure(fits, "scatter", outer * inner, values.len())?;
    let device = values.device();
    let out = device.allocate(outer * length * inner, values.element())?;
    let kernel = format!("scatter_{}", values.element().name());
    let grid = Grid::over(out.len(), 1);
    device.launch(&PROGRAM, &kernel, grid, arguments![values, places, &out, outer, length, inner])?;
    Ok(out)
}
