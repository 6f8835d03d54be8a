//! The structures of `problem.cuh`, field by field. Pointers are addresses on the device, 0 for none.

use crate::cuda::memory::View;
use crate::kernels::attention::Strides;
use crate::kernels::dropout::Draws;
use bytemuck::{Pod, Zeroable};

/// Where heads lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Heads {
    pub data: u64,
    pub batch_stride: i64,
    pub head_stride: i64,
    pub row_stride: i64,
}

impl Heads {
    /// Heads in a view of the whole array.
    pub fn new(view: View, Strides { start, batch, head, row }: Strides) -> Self {
        let data = view.pointer() + (start * view.element().size()) as u64;
        Self { data, batch_stride: batch as i64, head_stride: head as i64, row_stride: row as i64 }
    }
}

/// The lists of a pattern's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Pattern {
    pub row_starts: u64,
    pub row_blocks: u64,
    pub column_starts: u64,
    pub column_blocks: u64,
    pub bits: u64,
    pub batch: i32,
    pub heads: i32,
}

/// Where the draws of dropout come from.
#[derive(Debug, Clone, Copy, PartialEq, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Dropout {
    key_at: u64,
    key: [u32; 2],
    first_example: u64,
    threshold: u32,
    scale: f32,
}

impl Dropout {
    /// The draws of an attention; a recording has an address for its key.
    pub fn new(draws: Draws, key_at: Option<u64>) -> Self {
        let Draws { key, first_example, threshold, scale, .. } = draws;
        Self { key_at: key_at.unwrap_or(0), key: key.halves(), first_example, threshold, scale }
    }
}

/// All that a kernel reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Problem {
    pub query: Heads,
    pub key: Heads,
    pub value: Heads,
    pub output: Heads,
    pub log_sum_exp: u64,
    pub upstream: Heads,
    pub query_gradient: Heads,
    pub key_gradient: Heads,
    pub value_gradient: Heads,
    pub saved_rows: u64,
    pub query_sums: u64,
    pub turns: u64,
    pub key_mask: u64,
    pub bias: u64,
    pub bias_gradient: u64,
    pub bias_batch_stride: i64,
    pub bias_head_stride: i64,
    pub sink: u64,
    pub sink_gradient: u64,
    pub pattern: Pattern,
    pub dropout: Dropout,
    pub batch: i32,
    pub heads: i32,
    pub kv_heads: i32,
    pub queries: i32,
    pub keys: i32,
    pub scale: f32,
    pub soft_cap: f32,
    // The kernel's structure ends at a multiple of 8 bytes.
    pub gap: u32,
}

/// A block of weights to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct WeightsBlock {
    pub out: u64,
    pub first_plane: i32,
    pub query_start: i32,
    pub queries: i32,
    pub key_start: i32,
    pub keys: i32,
    // The kernel's structure ends at a multiple of 8 bytes.
    pub gap: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes that the compiler reports for the structures of `problem.cuh` and `weights.cu`.
    #[test]
    fn structures_are_as_large_as_those_of_the_kernels() {
        assert_eq!((size_of::<Heads>(), size_of::<Pattern>(), size_of::<Dropout>()), (32, 48, 32));
        assert_eq!((size_of::<Problem>(), size_of::<WeightsBlock>()), (456, 32));
        assert_eq!(std::mem::offset_of!(Problem, saved_rows), 264);
        assert_eq!(std::mem::offset_of!(Problem, pattern), 344);
        assert_eq!(std::mem::offset_of!(Problem, batch), 424);
    }
}
