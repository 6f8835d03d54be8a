//! Gradients of a few rows of a large table.

use crate::cpu;
use crate::ids::Ids;
use crate::tensor::Tensor;
use std::sync::Arc;

/// A gradient that is zero except in some rows of a two-dimensional table, as that of an embedding is.
///
/// Rows are sorted and distinct.
#[derive(Debug, Clone)]
pub struct RowGradient {
    table_rows: usize,
    rows: Arc<[u32]>,
    values: Tensor,
}

impl RowGradient {
    /// Sums the rows of `gradients` (one for each id) that belong to the same id, in the order of the ids.
    pub(crate) fn gather(ids: &Ids, gradients: &Tensor, table_rows: usize) -> Self {
        let width = gradients.shape().last();
        let mut order: Vec<u32> = (0..ids.values().len() as u32).collect();
        order.sort_by_key(|&place| ids.values()[place as usize]);
        let mut rows: Vec<u32> = Vec::new();
        let mut starts: Vec<u32> = Vec::new();
        for (i, &place) in order.iter().enumerate() {
            let row = ids.values()[place as usize];
            if rows.last() != Some(&row) {
                rows.push(row);
                starts.push(i as u32);
            }
        }
        starts.push(order.len() as u32);
        let values = cpu::embedding::sum_rows(&gradients.array, width, &order, &starts);
        let values = Tensor::from_array(values, [rows.len(), width]);
        Self { table_rows, rows: rows.into(), values }
    }

    /// The rows that are not zero, ascending.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Their values, one row each.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// The number of rows of the whole table.
    pub fn table_rows(&self) -> usize {
        self.table_rows
    }

    pub(crate) fn to_dense(&self) -> Tensor {
        self.add_to(Tensor::zeros([self.table_rows, self.values.shape().last()]))
    }

    /// Adds these rows to a dense gradient, in place where possible.
    pub(crate) fn add_to(&self, mut dense: Tensor) -> Tensor {
        cpu::embedding::add_rows(&mut dense.array, &self.rows, &self.values.array);
        dense
    }

    pub(crate) fn merge(&self, other: &Self) -> Self {
        let width = self.values.shape().last();
        let ids: Vec<u32> = self.rows.iter().chain(other.rows.iter()).copied().collect();
        let mut values = self.values.to_vec();
        values.extend_from_slice(&other.values.values());
        let count = ids.len();
        // Sizes agree by construction.
        let ids = Ids::new(&ids, [count]).expect("one id a row");
        let values = Tensor::new(&values, [count, width]).expect("one row an id");
        Self::gather(&ids, &values, self.table_rows)
    }
}
