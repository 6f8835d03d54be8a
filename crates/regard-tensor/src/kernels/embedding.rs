//! Rows of a table by their ids, and the sums of gradients that go back to them.

use super::memory::{convert, filled};
use super::{on_cpu, on_cpu_in_place};
use crate::array::Array;
use crate::error::Result;
use crate::ids::Ids;
use crate::storage::{DataType, Device, Kernels};
use crate::{cpu, cuda};

/// The rows of `table` (each `width` wide) that `ids` name, one after another.
pub(crate) fn lookup(table: &Array, width: usize, ids: &Ids) -> Result<Array> {
    match table.kernels() {
        Kernels::Cuda => {
            let ids = ids.cuda(table.device())?;
            Ok(cuda::embedding::lookup(table.cuda()?, width, ids.view()?, table.data_type().into())?.into())
        }
        // A table in main memory keeps its type: rows of 16-bit values are widened as they are copied.
        Kernels::Cpu if table.device() == Device::Cpu => {
            on_cpu("embedding", ids, |ids| cpu::embedding::lookup(table, width, ids.slice()))
        }
        Kernels::Cpu => on_cpu("embedding", (table, ids), |(table, ids)| {
            cpu::embedding::lookup(table, width, ids.slice())
        }),
    }
}

/// For each group `order[starts[i]..starts[i + 1]]`, the sum of those rows of `x`, in that order.
pub(crate) fn sum_rows(x: &Array, width: usize, order: &Ids, starts: &Ids) -> Result<Array> {
    match x.device() {
        Device::Cpu | Device::Cuda(_) | Device::Apart => {
            on_cpu("sum_rows", (x, order, starts), |(x, order, starts)| {
                cpu::embedding::sum_rows(x, width, order.slice(), starts.slice())
            })
        }
    }
}

/// Adds row `i` of `values` to row `rows[i]` of `table`, in place.
pub(crate) fn add_rows(table: &mut Array, rows: &Ids, values: &Array) -> Result<()> {
    match table.kernels() {
        Kernels::Cuda => {
            let (rows, values) = (rows.cuda(table.device())?, convert(values, table.data_type())?);
            Ok(cuda::embedding::add_rows(table.cuda_mut()?, rows.view()?, values.cuda()?)?)
        }
        Kernels::Cpu => on_cpu_in_place("add_rows", table, (rows, values), |table, (rows, values)| {
            cpu::embedding::add_rows(table, rows.slice(), values);
        }),
    }
}

/// Whether the gradient of a table on this device is made dense at once: sorting its ids would need them in main memory.
pub(crate) fn gradient_is_dense(g: &Array) -> bool {
    g.kernels() == Kernels::Cuda
}

/// The sums of the rows of `g` by their ids, as rows of a table with `rows` rows, added to a gradient if one is given.
pub(crate) fn dense_gradient(
    g: &Array,
    width: usize,
    ids: &Ids,
    rows: usize,
    total: Option<Array>,
) -> Result<Array> {
    let add = total.is_some();
    let mut table = match total {
        Some(total) => convert(&total, DataType::F32)?,
        None => filled(g.device(), rows * width, 0.0)?,
    };
    let ids = ids.cuda(g.device())?;
    cuda::embedding::gradient(g.cuda()?, width, ids.view()?, table.cuda_mut()?, add)?;
    Ok(table)
}
