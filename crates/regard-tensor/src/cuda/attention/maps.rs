//! Tensor maps: how Hopper's copy engine finds heads in memory.
//!
//! A map is made on the host and describes a matrix as (features, rows, heads, examples) with its strides. The engine copies boxes
//! of 64 features and 32 rows from it, in the layout that products by warpgroups read: see `wgmma.cuh`.

use super::problem::{Heads, Problem};
use crate::cuda::error::{Check, Result};
use crate::kernels::attention::Spec;
use cudarc::driver::sys::{
    self, CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 as BF16,
    CUtensorMapFloatOOBfill_enum::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE as ZEROS,
    CUtensorMapInterleave_enum::CU_TENSOR_MAP_INTERLEAVE_NONE as NO_INTERLEAVE,
    CUtensorMapL2promotion_enum::CU_TENSOR_MAP_L2_PROMOTION_L2_128B as L2_LINES,
    CUtensorMapSwizzle_enum::CU_TENSOR_MAP_SWIZZLE_128B as SWIZZLE_128,
};

/// Features and rows of a box.
const BOX: [u32; 4] = [64, 32, 1, 1];

/// The structure `Maps` of `wgmma.cuh`: queries, keys, values and the output's gradient.
pub(super) struct Maps([u64; 64]);

impl Maps {
    /// The maps of a problem in bf16 on the current device.
    pub fn new(spec: &Spec, problem: &Problem) -> Result<Self> {
        let Spec { batch, heads, kv_heads, queries, keys, width, value_width, .. } = *spec;
        // The forward pass has no upstream, and does not read its map.
        let upstream = if problem.upstream.data == 0 { &problem.query } else { &problem.upstream };
        let parts = [
            encode(&problem.query, [width, queries, heads, batch])?,
            encode(&problem.key, [width, keys, kv_heads, batch])?,
            encode(&problem.value, [value_width, keys, kv_heads, batch])?,
            encode(upstream, [value_width, queries, heads, batch])?,
        ];
        let mut words = [0; 64];
        for (to, map) in words.chunks_exact_mut(16).zip(&parts) {
            to.copy_from_slice(&map.opaque);
        }
        Ok(Self(words))
    }

    pub fn as_bytes(&self) -> &[u8] {
        bytemuck::bytes_of(&self.0)
    }
}

fn encode(heads: &Heads, sizes: [usize; 4]) -> Result<sys::CUtensorMap> {
    let sizes = sizes.map(|size| size as u64);
    // Of rows, heads and examples, in bytes. Those of axes of length 1 are never used, but must not be 0.
    let strides = [heads.row_stride, heads.head_stride, heads.batch_stride]
        .map(|stride| (stride.unsigned_abs() * 2).max(16));
    let mut map = sys::CUtensorMap { opaque: [0; 16] };
    // SAFETY: all pointers are to arrays of the rank's length (strides: one less) that outlive the call; the driver checks the rest.
    unsafe {
        sys::cuTensorMapEncodeTiled(
            &raw mut map,
            BF16,
            4,
            heads.data as *mut _,
            sizes.as_ptr(),
            strides.as_ptr(),
            BOX.as_ptr(),
            [1; 4].as_ptr(),
            NO_INTERLEAVE,
            SWIZZLE_128,
            L2_LINES,
            ZEROS,
        )
    }
    .check("cuTensorMapEncodeTiled")?;
    Ok(map)
}
