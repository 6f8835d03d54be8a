//! Rows of a table by their ids, and the sums of gradients that go back to them.

use super::error::{Result, ensure};
use super::launch::{Grid, arguments};
use super::memory::{Buffer, Element, View, ViewMut};
use super::program::{Source, source};
use super::sort::sort;

static PROGRAM: Source = source!("embedding.cu");

/// As many rows as a block of the gradient takes: see `embedding.cu`.
const PIECE: usize = 32;

/// The rows of `table` (each `width` wide) that `ids` name, one after another, as values of type `to`.
///
/// Ids beyond the table must be found before: the kernel does not check them.
pub fn lookup(table: View, width: usize, ids: View, to: Element) -> Result<Buffer> {
    ensure(ids.element() == Element::U32, "lookup", "ids", ids.element().name())?;
    let rows = ids.len();
    let out = ids.device().allocate(rows * width, to)?;
    let kernel = format!("lookup_{}_{}", table.element().name(), to.name());
    let grid = Grid::new(rows.div_ceil(8), 256);
    ids.device().launch(&PROGRAM, &kernel, grid, arguments![table, ids, &out, rows, width])?;
    Ok(out)
}

/// Adds row `i` of the gradient `g` to row `ids[i]` of `table`, or, without `add`, overwrites the rows that ids name with
/// their sums and leaves the others alone. Rows with one id are added up in an order that depends on the ids alone.
pub fn gradient(g: View, width: usize, ids: View, mut table: ViewMut, add: bool) -> Result<()> {
    let rows = ids.len();
    ensure(g.len() == rows * width, "embedding gradient", rows * width, g.len())?;
    ensure(table.as_view().element() == Element::F32, "embedding gradient", "f32 sums", "another type")?;
    if g.is_empty() {
        return Ok(());
    }
    let device = g.device();
    let (sorted, order) = sort(ids, table.as_view().len() / width)?;
    let pieces = rows.div_ceil(PIECE);
    let edges = device.allocate(2 * pieces * width, Element::F32)?;
    let vectors = width.div_ceil(g.element().per_vector());
    let grid = Grid { blocks: (pieces, vectors.div_ceil(128), 1), ..Grid::new(1, 128) };
    let kernel = format!("sum_by_id_{}", g.element().name());
    device.launch(
        &PROGRAM,
        &kernel,
        grid,
        arguments![g, &order, &sorted, &mut table, &edges, rows, width, add],
    )?;
    let grid = Grid { blocks: (pieces, width.div_ceil(128), 1), ..Grid::new(1, 128) };
    device.launch(&PROGRAM, "join", grid, arguments![&sorted, &edges, &mut table, rows, width, add])
}

/// Adds row `i` of `values` to row `rows[i]` of `table`. No row may be named twice.
pub fn add_rows(mut table: ViewMut, rows: View, values: View) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let width = values.len() / rows.len();
    ensure(values.len() == rows.len() * width, "add_rows", rows.len() * width, values.len())?;
    let grid = Grid::over(values.len(), 1);
    values.device().launch(
        &PROGRAM,
        "add_rows_f32",
        grid,
        arguments![&mut table, rows, values, rows.len(), width],
    )
}
