//! A block mask as kernels of other devices read it: lists of its blocks by row and by column.

use super::{BLOCK, BlockMask};
use crate::copies::Copies;
use std::fmt;

/// A block in a row (its key block) or column (its query block), and the index of its 64 words of bits (−1 for none).
type Listed = [i32; 2];

/// The non-empty blocks of a mask. Each plane has one more start than it has rows (columns).
pub(crate) struct Lists {
    pub row_starts: Copies<i32>,
    pub row_blocks: Copies<Listed>,
    pub column_starts: Copies<i32>,
    pub column_blocks: Copies<Listed>,
    pub bits: Copies<u64>,
}

impl Lists {
    pub fn new(mask: &BlockMask) -> Self {
        let (rows, columns) = (mask.queries.div_ceil(BLOCK), mask.keys.div_ceil(BLOCK));
        let (mut by_row, mut by_column) = (List::default(), List::default());
        for plane in mask.rows.chunks(rows.max(1)) {
            let mut transposed = vec![Vec::new(); columns];
            by_row.start();
            for (row, blocks) in (0_i32..).zip(plane) {
                for block in blocks {
                    let bits = block.bits.map_or(-1, u32::cast_signed);
                    by_row.blocks.push([block.key_block.cast_signed(), bits]);
                    transposed[block.key_block as usize].push([row, bits]);
                }
                by_row.start();
            }
            by_column.start();
            for blocks in transposed {
                by_column.blocks.extend(blocks);
                by_column.start();
            }
        }
        Self {
            row_starts: Copies::new(by_row.starts.into()),
            row_blocks: Copies::new(by_row.blocks.into()),
            column_starts: Copies::new(by_column.starts.into()),
            column_blocks: Copies::new(by_column.blocks.into()),
            bits: Copies::new(mask.bits.iter().flatten().copied().collect()),
        }
    }
}

impl fmt::Debug for Lists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lists of {} blocks", self.row_blocks.count())
    }
}

/// Blocks in sequence, and where each row (column) starts.
#[derive(Default)]
struct List {
    starts: Vec<i32>,
    blocks: Vec<Listed>,
}

impl List {
    fn start(&mut self) {
        self.starts.push(self.blocks.len() as i32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Mask;

    #[test]
    fn rows_and_columns_list_the_same_blocks() {
        // Two planes of 2 × 3 blocks: the second key block is full for the second query block, the third is empty.
        let mask = Mask::from_fn([1, 2, 70, 130], |at| {
            at[3] < 64 && at[2] % 64 == at[3] || at[3] / 64 == 1 && at[2] >= 64
        });
        let mask = BlockMask::from_mask(&mask).unwrap();
        let lists = Lists::new(&mask);
        assert_eq!(lists.row_starts.read(), [0, 1, 3, 3, 4, 6]);
        assert_eq!(lists.row_blocks.read(), [[0, 0], [0, 1], [1, -1], [0, 2], [0, 3], [1, -1]]);
        assert_eq!(lists.column_starts.read(), [0, 2, 3, 3, 3, 5, 6, 6]);
        assert_eq!(lists.column_blocks.read(), [[0, 0], [1, 1], [1, -1], [0, 2], [1, 3], [1, -1]]);
        assert_eq!(lists.bits.read().len(), 4 * BLOCK);
        assert_eq!(lists.bits.read()[5], 1 << 5);
    }
}
