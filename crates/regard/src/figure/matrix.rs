//! A table of values for heat maps.

use anyhow::{Result, ensure};

/// Values in rows and columns. A value that is not finite is missing.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    values: Vec<f32>,
}

impl Matrix {
    /// The most rows or columns.
    pub const LARGEST: usize = 16_384;

    /// Values row by row.
    pub fn new(rows: usize, columns: usize, values: Vec<f32>) -> Result<Self> {
        ensure!(
            rows <= Self::LARGEST && columns <= Self::LARGEST,
            "a matrix of {rows} × {columns} is too large to draw: at most {} either way",
            Self::LARGEST
        );
        ensure!(
            values.len() == rows * columns,
            "a matrix of {rows} × {columns} has {} values, not {}",
            rows * columns,
            values.len()
        );
        Ok(Self { rows, columns, values })
    }

    /// Values by a formula of row and column; at most [`LARGEST`](Self::LARGEST) of either.
    pub fn from_fn(rows: usize, columns: usize, value: impl Fn(usize, usize) -> f32) -> Self {
        let (rows, columns) = (rows.min(Self::LARGEST), columns.min(Self::LARGEST));
        let values = (0..rows * columns).map(|index| value(index / columns, index % columns)).collect();
        Self { rows, columns, values }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The value of a cell; not a number outside the table.
    pub fn at(&self, row: usize, column: usize) -> f32 {
        if row < self.rows && column < self.columns {
            self.values[row * self.columns + column]
        } else {
            f32::NAN
        }
    }

    /// The least and the greatest finite value.
    pub fn extent(&self) -> Option<(f32, f32)> {
        let finite = self.values.iter().copied().filter(|value| value.is_finite());
        finite.fold(None, |extent, value| {
            let (low, high) = extent.unwrap_or((value, value));
            Some((value.min(low), value.max(high)))
        })
    }
}
