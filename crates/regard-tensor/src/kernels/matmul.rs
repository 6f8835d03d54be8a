//! Products of a batch of matrices.

use super::memory::convert;
use super::on_cpu;
use crate::array::Array;
use crate::error::Result;
use crate::storage::Kernels;
use crate::{cpu, cuda};

/// One side of a batch of products.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub array: &'a Array,
    /// Whether each matrix lies with its rows and columns exchanged.
    pub transposed: bool,
    /// From one matrix to the next; 0 for one that all share.
    pub stride: usize,
}

/// `a (m×k) · b (k×n)` for each of a batch of matrices, one after another.
pub(crate) fn batched(batch: usize, sizes: (usize, usize, usize), a: Side, b: Side) -> Result<Array> {
    match a.array.kernels() {
        Kernels::Cuda => {
            let right = convert(b.array, a.array.data_type())?;
            cuda::linear::batched(batch, sizes, a, Side { array: &right, ..b })
        }
        Kernels::Cpu => on_cpu("matmul", (a.array, b.array), |(left, right)| {
            cpu::gemm::batched(batch, sizes, Side { array: left, ..a }, Side { array: right, ..b })
        }),
    }
}
