//! Block-sparse attention masks: attention skips the blocks that a mask leaves empty.

mod lists;

use crate::error::{Result, ensure_shape};
use crate::ids::Mask;
pub(crate) use lists::Lists;
use std::sync::{Arc, OnceLock};

/// Queries and keys are grouped in blocks of this many.
pub const BLOCK: usize = 64;

/// An attention mask that stores only its non-empty blocks of 64 queries × 64 keys.
///
/// Time and memory of attention grow with the number of these blocks. Blocks in which every pair is allowed store no
/// bits; other blocks store one bit per pair.
///
/// ```
/// use regard_tensor::BlockMask;
/// // A window of 32 positions on either side.
/// let window = BlockMask::build(
///     (1000, 1000),
///     |query_block| (query_block.saturating_sub(1)..=query_block + 1).collect(),
///     |query, key| query.abs_diff(key) <= 32,
/// );
/// assert!(window.blocks() < 50);
/// ```
#[derive(Debug, Clone)]
pub struct BlockMask {
    queries: usize,
    keys: usize,
    batch: usize,
    heads: usize,
    /// For each plane (batch × heads) and query block: its key blocks, ascending.
    rows: Vec<Vec<Block>>,
    bits: Vec<Bits>,
    /// Created when a device first needs them; shared by clones.
    lists: Arc<OnceLock<Lists>>,
}

/// For each key of a block, one bit per query.
type Bits = [u64; BLOCK];

/// A non-empty block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub key_block: u32,
    /// The index of its bits; `None` if all pairs are allowed.
    bits: Option<u32>,
}

/// The bits of the queries of a block, from a decision about each pair.
fn by_pair(queries: usize, allowed: impl Fn(usize, usize) -> bool) -> impl Fn(usize, usize) -> u64 {
    move |query_block, key| {
        let block = query_block * BLOCK..((query_block + 1) * BLOCK).min(queries);
        block.enumerate().fold(0, |bits, (lane, query)| bits | u64::from(allowed(query, key)) << lane)
    }
}

impl BlockMask {
    /// A mask shared by all examples and heads.
    ///
    /// `candidates(query_block)` lists the key blocks to examine (a superset of the non-empty ones, in any order);
    /// `allowed(query, key)` decides each pair in them.
    pub fn build(
        (queries, keys): (usize, usize),
        candidates: impl Fn(usize) -> Vec<usize>,
        allowed: impl Fn(usize, usize) -> bool,
    ) -> Self {
        Self::build_by_key((queries, keys), candidates, by_pair(queries, allowed))
    }

    /// Like [`build`](Self::build), for patterns that know at once which queries of a block may attend to a key:
    /// `allowed(query_block, key)` has one bit per query, the lowest for the first. Bits beyond the last query are
    /// ignored.
    pub fn build_by_key(
        (queries, keys): (usize, usize),
        candidates: impl Fn(usize) -> Vec<usize>,
        allowed: impl Fn(usize, usize) -> u64,
    ) -> Self {
        let mut mask = Self::empty((queries, keys), (1, 1));
        for query_block in 0..queries.div_ceil(BLOCK) {
            let mut key_blocks = candidates(query_block);
            key_blocks.sort_unstable();
            key_blocks.dedup();
            key_blocks.retain(|&key_block| key_block < keys.div_ceil(BLOCK));
            mask.push_row(query_block, &key_blocks, &allowed);
        }
        mask
    }

    /// Converts a dense mask of shape (batch or 1, heads or 1, queries, keys), or (queries, keys) for all.
    pub fn from_mask(mask: &Mask) -> Result<Self> {
        let shape = mask.shape();
        ensure_shape(
            shape.rank() == 2 || shape.rank() == 4,
            "block mask",
            || "a mask of (queries, keys) or (batch, heads, queries, keys)".into(),
            || shape.to_string(),
        )?;
        let (queries, keys) = (shape.nth_last(1), shape.nth_last(0));
        let (batch, heads) = (shape.nth_last(3), shape.nth_last(2));
        let mut blocks = Self::empty((queries, keys), (batch, heads));
        let all: Vec<usize> = (0..keys.div_ceil(BLOCK)).collect();
        for plane in mask.values().chunks((queries * keys).max(1)) {
            for query_block in 0..queries.div_ceil(BLOCK) {
                blocks.push_row(query_block, &all, &by_pair(queries, |query, key| plane[query * keys + key]));
            }
        }
        Ok(blocks)
    }

    fn empty((queries, keys): (usize, usize), (batch, heads): (usize, usize)) -> Self {
        Self { queries, keys, batch, heads, rows: Vec::new(), bits: Vec::new(), lists: Arc::default() }
    }

    fn push_row(&mut self, query_block: usize, key_blocks: &[usize], allowed: &impl Fn(usize, usize) -> u64) {
        let queries = query_block * BLOCK..((query_block + 1) * BLOCK).min(self.queries);
        let real = u64::MAX >> (BLOCK - queries.len());
        let mut row = Vec::new();
        for &key_block in key_blocks {
            let keys = key_block * BLOCK..((key_block + 1) * BLOCK).min(self.keys);
            let mut bits: Bits = [0; BLOCK];
            let mut count = 0;
            for (word, key) in bits.iter_mut().zip(keys.clone()) {
                *word = allowed(query_block, key) & real;
                count += word.count_ones() as usize;
            }
            if count == queries.len() * keys.len() {
                row.push(Block { key_block: key_block as u32, bits: None });
            } else if count > 0 {
                row.push(Block { key_block: key_block as u32, bits: Some(self.bits.len() as u32) });
                self.bits.push(bits);
            }
        }
        self.rows.push(row);
    }

    /// The mask in the form that kernels of other devices read.
    pub(crate) fn lists(&self) -> &Lists {
        self.lists.get_or_init(|| Lists::new(self))
    }

    /// The number of non-empty blocks, over all planes.
    pub fn blocks(&self) -> usize {
        self.rows.iter().map(Vec::len).sum()
    }

    /// The number of queries and of keys.
    pub fn lengths(&self) -> (usize, usize) {
        (self.queries, self.keys)
    }

    /// The number of examples and of heads with a mask of their own (1: shared by all).
    pub fn planes(&self) -> (usize, usize) {
        (self.batch, self.heads)
    }

    /// Whether a query may attend to a key.
    pub fn allows(&self, (example, head): (usize, usize), query: usize, key: usize) -> bool {
        let row = self.row(example, head, query / BLOCK);
        row.iter().find(|block| block.key_block as usize == key / BLOCK).is_some_and(|&block| {
            self.bits(block).is_none_or(|bits| bits[key % BLOCK] >> (query % BLOCK) & 1 == 1)
        })
    }

    pub(crate) fn row(&self, example: usize, head: usize, query_block: usize) -> &[Block] {
        let plane = (example % self.batch) * self.heads + head % self.heads;
        &self.rows[plane * self.queries.div_ceil(BLOCK) + query_block]
    }

    pub(crate) fn bits(&self, block: Block) -> Option<&Bits> {
        block.bits.map(|index| &self.bits[index as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_dense_mask() {
        let mask =
            Mask::from_fn([2, 3, 70, 130], |at| (at[0] + at[1] * at[2] + at[3]) % 3 == 0 && at[3] > 64);
        let blocks = BlockMask::from_mask(&mask).unwrap();
        for (flat, &allowed) in mask.values().iter().enumerate() {
            let (key, rest) = (flat % 130, flat / 130);
            let (query, plane) = (rest % 70, rest / 70);
            assert_eq!(blocks.allows((plane / 3, plane % 3), query, key), allowed);
        }
        // The first of three key blocks is empty in each of the 2 × 3 × 2 rows.
        assert_eq!(blocks.blocks(), 24);
    }

    #[test]
    fn full_blocks_store_no_bits() {
        let all = BlockMask::build((100, 100), |_| vec![0, 1], |_, _| true);
        assert_eq!((all.blocks(), all.bits.len()), (4, 0));
    }
}
