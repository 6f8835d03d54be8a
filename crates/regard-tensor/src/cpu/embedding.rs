//! Rows of a table by their ids, and the sums of gradients that go back to them.

use super::broadcast::AddInto;
use super::simd::{copy_widened, dispatch};
use super::threads;
use crate::array::Array;

/// The rows of `table` (each `width` wide, of any type) that `ids` name, one after another.
pub(crate) fn lookup(table: &Array, width: usize, ids: &[u32]) -> Array {
    let table = table.host_values();
    Array::build(ids.len() * width, |out| {
        let rows = threads::rows_per_task(width);
        threads::chunks(out, rows * width, |index, out| {
            for (row, &id) in out.chunks_mut(width.max(1)).zip(&ids[index * rows..]) {
                copy_widened(table.part(id as usize * width..(id as usize + 1) * width), row);
            }
        });
    })
}

/// For each group `order[starts[i]..starts[i + 1]]`, the sum of those rows of `x`, in that order.
pub(crate) fn sum_rows(x: &Array, width: usize, order: &[u32], starts: &[u32]) -> Array {
    let x = x.slice();
    let groups = starts.len() - 1;
    Array::build(groups * width, |out| {
        let together = threads::rows_per_task(width);
        threads::chunks(out, together * width, |index, out| {
            for (i, total) in out.chunks_mut(width.max(1)).enumerate() {
                let group = index * together + i;
                let members = &order[starts[group] as usize..starts[group + 1] as usize];
                total.fill(0.0);
                for &row in members {
                    dispatch(AddInto { total, x: &x[row as usize * width..] });
                }
            }
        });
    })
}

/// Adds row `i` of `values` to row `rows[i]` of `table`, in place.
pub(crate) fn add_rows(table: &mut Array, rows: &[u32], values: &Array) {
    if rows.is_empty() {
        return;
    }
    let values = values.slice();
    let width = values.len() / rows.len();
    let table = table.slice_mut();
    for (&row, values) in rows.iter().zip(values.chunks(width.max(1))) {
        let start = row as usize * width;
        dispatch(AddInto { total: &mut table[start..start + width], x: values });
    }
}
