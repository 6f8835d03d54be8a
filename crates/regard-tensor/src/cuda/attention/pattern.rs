//! The blocks of a pattern, as kernels read them.

use super::problem::Pattern;
use crate::blocks::BlockMask;
use crate::cuda::arrays::Copy;
use crate::cuda::memory::Element;
use crate::error::Result;
use crate::storage::Device;

/// The lists of a pattern on the device.
pub(super) struct DevicePattern {
    row_starts: Copy,
    row_blocks: Copy,
    column_starts: Copy,
    column_blocks: Copy,
    bits: Copy,
}

impl DevicePattern {
    pub fn new(blocks: &BlockMask, device: Device) -> Result<Self> {
        let lists = blocks.lists();
        let copy = |memory| Copy::new(memory, Element::U8);
        Ok(Self {
            row_starts: copy(lists.row_starts.on(device)?),
            row_blocks: copy(lists.row_blocks.on(device)?),
            column_starts: copy(lists.column_starts.on(device)?),
            column_blocks: copy(lists.column_blocks.on(device)?),
            bits: copy(lists.bits.on(device)?),
        })
    }

    pub fn pointers(&self, blocks: &BlockMask) -> Result<Pattern> {
        let (batch, heads) = blocks.planes();
        Ok(Pattern {
            row_starts: self.row_starts.view()?.pointer(),
            row_blocks: self.row_blocks.view()?.pointer(),
            column_starts: self.column_starts.view()?.pointer(),
            column_blocks: self.column_blocks.view()?.pointer(),
            bits: self.bits.view()?.pointer(),
            batch: batch as i32,
            heads: heads as i32,
        })
    }
}
