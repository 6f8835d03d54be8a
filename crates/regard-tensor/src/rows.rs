//! Sparse gradients: a few rows of a large table.

use crate::array::Array;
use crate::error::{Error, Result};
use crate::ids::Ids;
use crate::kernels::{embedding, layout};
use crate::tensor::{Tensor, ensure_same_device};

/// A sparse gradient that is zero except in some rows of a two-dimensional table, as the gradient of an embedding is.
///
/// Rows are sorted and distinct.
#[derive(Debug, Clone)]
pub struct RowGradient {
    table_rows: usize,
    rows: Ids,
    values: Tensor,
}

impl RowGradient {
    /// A gradient from its rows, ascending and distinct, with one row of values for each.
    pub fn new(rows: &[u32], values: &Tensor, table_rows: usize) -> Result<Self> {
        let shape = values.shape();
        let ascending = rows.windows(2).all(|pair| pair[0] < pair[1]);
        if shape.len() != 2 || shape[0] != rows.len() || !ascending {
            return Err(Error::shape("RowGradient", "ascending rows with values (rows, width)", shape));
        }
        let rows = Ids::new(rows, [rows.len()])?;
        rows.ensure_below(("RowGradient", "id"), table_rows)?;
        Ok(Self { table_rows, rows, values: values.detach() })
    }

    /// Sums the rows of `gradients` (one per id) that belong to the same id, in the order of the ids.
    pub(crate) fn gather(ids: &Ids, gradients: &Tensor, table_rows: usize) -> Result<Self> {
        let width = gradients.shape().last();
        let ids = ids.values();
        let mut order: Vec<u32> = (0..ids.len() as u32).collect();
        order.sort_by_key(|&index| ids[index as usize]);
        let mut rows: Vec<u32> = Vec::new();
        let mut starts: Vec<u32> = Vec::new();
        for (i, &index) in order.iter().enumerate() {
            let row = ids[index as usize];
            if rows.last() != Some(&row) {
                rows.push(row);
                starts.push(i as u32);
            }
        }
        starts.push(order.len() as u32);
        let count = ids.len();
        let (order, starts) = (Ids::row(order, count), Ids::row(starts, count + 1));
        let values = embedding::sum_rows(&gradients.array, width, &order, &starts)?;
        let values = Tensor::from_array(values, [rows.len(), width]);
        Ok(Self { table_rows, rows: Ids::row(rows, table_rows), values })
    }

    /// The indices of the rows that are not zero, ascending.
    pub fn rows(&self) -> &[u32] {
        self.rows.values()
    }

    /// The same indices as ids.
    pub(crate) fn row_ids(&self) -> &Ids {
        &self.rows
    }

    /// The values of these rows, one row each.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// The number of rows of the whole table.
    pub fn table_rows(&self) -> usize {
        self.table_rows
    }

    pub(crate) fn to_dense(&self) -> Result<Tensor> {
        let shape = [self.table_rows, self.values.shape().last()];
        self.add_to(Tensor::full_on(self.values.device(), shape, 0.0)?)
    }

    /// Adds these rows to a dense gradient, in place where possible.
    pub(crate) fn add_to(&self, mut dense: Tensor) -> Result<Tensor> {
        ensure_same_device("add", [&dense, &self.values])?;
        embedding::add_rows(&mut dense.array, &self.rows, &self.values.array)?;
        Ok(dense)
    }

    /// The sum of two gradients of one table.
    pub(crate) fn merge(&self, other: &Self) -> Result<Self> {
        ensure_same_device("add", [&self.values, &other.values])?;
        let ids: Vec<u32> = self.rows().iter().chain(other.rows()).copied().collect();
        let arrays = [&self.values.array, &other.values.array];
        let values = layout::concatenate(&arrays, &arrays.map(Array::len), 1)?;
        let values = Tensor::from_array(values, [ids.len(), self.values.shape().last()]);
        Self::gather(&Ids::row(ids, self.table_rows), &values, self.table_rows)
    }
}
