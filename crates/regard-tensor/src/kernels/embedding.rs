//! Rows of a table by their ids, and the sums of gradients that go back to them.

use super::{on_cpu, on_cpu_in_place};
use crate::array::Array;
use crate::cpu;
use crate::error::Result;
use crate::ids::Ids;
use crate::storage::Device;

/// The rows of `table` (each `width` wide) that `ids` name, one after another.
pub(crate) fn lookup(table: &Array, width: usize, ids: &Ids) -> Result<Array> {
    match table.device() {
        // A table of 16-bit values is widened here, whole. A kernel that widens the rows it copies can take it as it is,
        // through `Array::view`: the table then is no operand of `on_cpu`.
        Device::Cpu | Device::Apart => on_cpu("embedding", (table, ids), |(table, ids)| {
            cpu::embedding::lookup(table, width, ids.slice())
        }),
    }
}

/// For each group `order[starts[i]..starts[i + 1]]`, the sum of those rows of `x`, in that order.
pub(crate) fn sum_rows(x: &Array, width: usize, order: &Ids, starts: &Ids) -> Result<Array> {
    match x.device() {
        Device::Cpu | Device::Apart => on_cpu("sum_rows", (x, order, starts), |(x, order, starts)| {
            cpu::embedding::sum_rows(x, width, order.slice(), starts.slice())
        }),
    }
}

/// Adds row `i` of `values` to row `rows[i]` of `table`, in place.
pub(crate) fn add_rows(table: &mut Array, rows: &Ids, values: &Array) -> Result<()> {
    match table.device() {
        Device::Cpu | Device::Apart => {
            on_cpu_in_place("add_rows", table, (rows, values), |table, (rows, values)| {
                cpu::embedding::add_rows(table, rows.slice(), values);
            })
        }
    }
}
