//! Who may attend to whom.
//!
//! Patterns compose: a union of a window, global tokens and random blocks is BigBird's, an intersection with
//! [`Pattern::Causal`] makes any pattern causal. What a pattern leaves out in whole blocks costs nothing.

use crate::error::{Error, Result};
use regard_tensor::ops::Allowed;
use regard_tensor::random::Key;
use regard_tensor::{BLOCK, BlockMask, Mask};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Who may attend to whom, by position (or, for [`Pattern::TopK`], by content).
///
/// With fewer queries than keys, the last query stands at the last key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Everyone to everyone.
    Full,
    /// Only to the same position and earlier ones.
    Causal,
    /// Up to so many positions before and after.
    Window {
        /// How far back.
        before: usize,
        /// How far ahead.
        after: usize,
    },
    /// These positions to everyone, and everyone to these.
    Global(Vec<usize>),
    /// Each block of 64 positions to so many blocks drawn at random.
    RandomBlocks {
        /// How many.
        count: usize,
        /// What the draw depends on.
        seed: u64,
    },
    /// To every position whose distance is a multiple of the stride (Child et al., 2019).
    Strided(usize),
    /// As a mask says: (queries, keys), or (batch or 1, heads or 1, queries, keys).
    #[serde(skip)]
    Explicit(Mask),
    /// Each query to the keys with its k highest scores, among those that the other parts of an intersection allow.
    /// Equal scores go to the earlier key.
    TopK(usize),
    /// Whatever any of these allows.
    Any(Vec<Pattern>),
    /// Whatever all of these allow.
    All(Vec<Pattern>),
}

impl Pattern {
    /// A window of `reach` positions to each side, and global positions (Beltagy et al., *Longformer*, 2020).
    pub fn longformer(reach: usize, global: Vec<usize>) -> Self {
        Self::Any(vec![Self::Window { before: reach, after: reach }, Self::Global(global)])
    }

    /// A window, global positions and random blocks (Zaheer et al., *Big Bird*, 2020).
    pub fn big_bird(reach: usize, global: Vec<usize>, random: usize, seed: u64) -> Self {
        let window = Self::Window { before: reach, after: reach };
        Self::Any(vec![window, Self::Global(global), Self::RandomBlocks { count: random, seed }])
    }

    /// The same pattern without looking ahead.
    #[must_use]
    pub fn causal(self) -> Self {
        Self::All(vec![Self::Causal, self])
    }

    /// Whether the pattern depends on the scores.
    pub fn by_content(&self) -> bool {
        match self {
            Self::TopK(_) => true,
            Self::Any(parts) | Self::All(parts) => parts.iter().any(Self::by_content),
            _ => false,
        }
    }

    /// The pattern for given lengths, ready for the tiled kernel and for the reference.
    pub fn compile(&self, queries: usize, keys: usize) -> Result<Allowed> {
        let mut causal = false;
        let mut rest = Vec::new();
        let parts = match self {
            Self::All(parts) => parts.as_slice(),
            one => std::slice::from_ref(one),
        };
        for part in parts {
            part.check(queries, keys)?;
            match part {
                Self::Full => {}
                Self::Causal => causal = true,
                // The scores decide later, among what is left.
                other if other.by_content() => {}
                other => rest.push(other),
            }
        }
        let blocks = match rest[..] {
            [] => None,
            [Self::Explicit(mask)] if mask.shape().rank() == 4 => Some(BlockMask::from_mask(mask)?),
            _ if rest.iter().any(|part| part.by_example()) => return Err(combined()),
            _ => Some(Grid::new(queries, keys, self).build(&rest)),
        };
        Ok(Allowed { causal, keys: None, blocks: blocks.map(Arc::new) })
    }

    fn check(&self, queries: usize, keys: usize) -> Result<()> {
        match self {
            Self::Strided(0) => Err(Error::configuration("pattern", "a stride must be at least 1")),
            Self::Explicit(mask) => match mask.shape()[..] {
                [rows, columns] | [_, _, rows, columns] if [rows, columns] == [queries, keys] => Ok(()),
                _ => {
                    let problem = format!(
                        "a mask for {queries} queries and {keys} keys was expected, got {}",
                        mask.shape()
                    );
                    Err(Error::configuration("pattern", problem))
                }
            },
            Self::Any(parts) | Self::All(parts) => {
                if parts.iter().any(Self::by_example) {
                    return Err(combined());
                }
                parts.iter().try_for_each(|part| part.check(queries, keys))
            }
            _ => Ok(()),
        }
    }

    /// Whether this is a mask that may differ between examples and heads.
    fn by_example(&self) -> bool {
        matches!(self, Self::Explicit(mask) if mask.shape().rank() == 4)
    }

    /// The pattern as an explicit mask (queries, keys): for tests and pictures. Content is not looked at.
    pub fn mask(&self, queries: usize, keys: usize) -> Result<Mask> {
        self.check(queries, keys)?;
        if let Self::Explicit(mask) = self {
            // Refused unless all examples and heads share it.
            return Ok(Mask::new(mask.values(), [queries, keys])?);
        }
        let grid = Grid::new(queries, keys, self);
        Ok(Mask::from_fn([queries, keys], |at| grid.allows(self, at[0], at[1])))
    }
}

fn combined() -> Error {
    Error::configuration("pattern", "a mask inside a union or intersection must be (queries, keys)")
}

/// The lengths a pattern is laid over, and the blocks drawn for it.
struct Grid {
    queries: usize,
    keys: usize,
    /// By (seed, count): the key blocks of each block of positions.
    draws: BTreeMap<(u64, usize), Vec<Vec<usize>>>,
}

impl Grid {
    fn new(queries: usize, keys: usize, pattern: &Pattern) -> Self {
        let mut grid = Self { queries, keys, draws: BTreeMap::new() };
        grid.draw(pattern);
        grid
    }

    fn draw(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::RandomBlocks { count, seed } => {
                let key = Key::new(*seed).site("random blocks");
                let blocks = self.keys.div_ceil(BLOCK);
                let draw = |block| key.permutation(block as u64, blocks).into_iter().take(*count).collect();
                let drawn = (0..blocks).map(draw).collect();
                self.draws.insert((*seed, *count), drawn);
            }
            Pattern::Any(parts) | Pattern::All(parts) => parts.iter().for_each(|part| self.draw(part)),
            _ => {}
        }
    }

    fn drawn(&self, seed: u64, count: usize, block: usize) -> &[usize] {
        self.draws.get(&(seed, count)).and_then(|drawn| drawn.get(block)).map_or(&[], Vec::as_slice)
    }

    /// The position of a query among the keys; before the first for the surplus when there are more queries than keys.
    fn position(&self, query: usize) -> isize {
        query as isize + self.keys as isize - self.queries as isize
    }

    fn allows(&self, pattern: &Pattern, query: usize, key: usize) -> bool {
        let ahead = key as isize - self.position(query);
        match pattern {
            Pattern::Full | Pattern::TopK(_) => true,
            Pattern::Causal => ahead <= 0,
            Pattern::Window { before, after } => {
                ahead <= 0 && ahead.unsigned_abs() <= *before || ahead > 0 && ahead as usize <= *after
            }
            Pattern::Global(positions) => {
                positions.contains(&key)
                    || usize::try_from(self.position(query)).is_ok_and(|place| positions.contains(&place))
            }
            Pattern::RandomBlocks { count, seed } => {
                let drawn = |place: usize| self.drawn(*seed, *count, place / BLOCK).contains(&(key / BLOCK));
                usize::try_from(self.position(query)).is_ok_and(drawn)
            }
            Pattern::Strided(stride) => ahead.unsigned_abs().is_multiple_of((*stride).max(1)),
            Pattern::Explicit(mask) => mask.values()[query * self.keys + key],
            Pattern::Any(parts) => parts.iter().any(|part| self.allows(part, query, key)),
            Pattern::All(parts) => parts.iter().all(|part| self.allows(part, query, key)),
        }
    }

    /// The blocks of keys that may hold something for a block of queries.
    fn candidates(&self, pattern: &Pattern, block: usize) -> Vec<usize> {
        let blocks = self.keys.div_ceil(BLOCK);
        let all = || (0..blocks).collect();
        let first = self.position(block * BLOCK);
        let last = self.position(((block + 1) * BLOCK).min(self.queries)) - 1;
        // Blocks of the keys from one position to another, both included.
        let between = |from: isize, to: isize| -> Vec<usize> {
            if self.keys == 0 || to < 0 || from >= self.keys as isize {
                return Vec::new();
            }
            (from.max(0) as usize / BLOCK..=(to as usize).min(self.keys - 1) / BLOCK).collect()
        };
        match pattern {
            Pattern::Full | Pattern::TopK(_) | Pattern::Explicit(_) => all(),
            Pattern::Causal => between(0, last),
            Pattern::Window { before, after } => {
                between(first.saturating_sub_unsigned(*before), last.saturating_add_unsigned(*after))
            }
            Pattern::Global(positions) => {
                let here = |&place: &usize| (first..=last).contains(&(place as isize));
                if positions.iter().any(here) { all() } else { positions.iter().map(|p| p / BLOCK).collect() }
            }
            Pattern::RandomBlocks { count, seed } => between(first, last)
                .iter()
                .flat_map(|&block| self.drawn(*seed, *count, block))
                .copied()
                .collect(),
            Pattern::Strided(stride) => {
                let meets = |key_block: &usize| {
                    let (from, to) = (key_block * BLOCK, ((key_block + 1) * BLOCK).min(self.keys) - 1);
                    let (low, high) = (from as isize - last, to as isize - first);
                    let stride = (*stride).max(1) as isize;
                    low.div_euclid(stride) != high.div_euclid(stride) || low.rem_euclid(stride) == 0
                };
                (0..blocks).filter(meets).collect()
            }
            Pattern::Any(parts) => parts.iter().flat_map(|part| self.candidates(part, block)).collect(),
            Pattern::All(parts) => {
                let mut left: Vec<usize> = all();
                for part in parts {
                    let allowed = self.candidates(part, block);
                    left.retain(|block| allowed.contains(block));
                }
                left
            }
        }
    }

    /// Which queries of a block may attend to a key, a bit for each: what [`Grid::allows`] says of them one by one.
    fn column(&self, pattern: &Pattern, block: usize, key: usize) -> u64 {
        let first = self.position(block * BLOCK);
        // The queries that stand from one position to another, both included.
        let between = |from: isize, to: isize| {
            let lane = |place: isize| place.saturating_sub(first).clamp(0, BLOCK as isize) as u32;
            below(lane(to.saturating_add(1))) & !below(lane(from))
        };
        let at = key as isize;
        match pattern {
            Pattern::Full | Pattern::TopK(_) => u64::MAX,
            Pattern::Causal => between(at, isize::MAX),
            Pattern::Window { before, after } => {
                between(at.saturating_sub_unsigned(*after), at.saturating_add_unsigned(*before))
            }
            Pattern::Global(positions) if positions.contains(&key) => u64::MAX,
            Pattern::Global(positions) => {
                positions.iter().fold(0, |bits, &place| bits | between(place as isize, place as isize))
            }
            Pattern::RandomBlocks { count, seed } => {
                let last = first + BLOCK as isize - 1;
                let blocks = first.max(0) as usize / BLOCK..(last + 1).max(0) as usize / BLOCK + 1;
                let drawn = blocks.filter(|&block| self.drawn(*seed, *count, block).contains(&(key / BLOCK)));
                drawn.fold(0, |bits, block| {
                    bits | between((block * BLOCK) as isize, ((block + 1) * BLOCK) as isize - 1)
                })
            }
            Pattern::Strided(_) | Pattern::Explicit(_) => {
                let queries = block * BLOCK..((block + 1) * BLOCK).min(self.queries);
                queries
                    .enumerate()
                    .fold(0, |bits, (lane, query)| bits | u64::from(self.allows(pattern, query, key)) << lane)
            }
            Pattern::Any(parts) => parts.iter().fold(0, |bits, part| bits | self.column(part, block, key)),
            Pattern::All(parts) => {
                parts.iter().fold(u64::MAX, |bits, part| bits & self.column(part, block, key))
            }
        }
    }

    fn build(&self, parts: &[&Pattern]) -> BlockMask {
        let all = Pattern::All(parts.iter().map(|&part| part.clone()).collect());
        let candidates = |block: usize| self.candidates(&all, block);
        BlockMask::build_by_key((self.queries, self.keys), candidates, |block, key| {
            self.column(&all, block, key)
        })
    }
}

/// The bits of so many lanes, from the lowest.
fn below(lanes: u32) -> u64 {
    u64::MAX.checked_shl(lanes).map_or(u64::MAX, |above| !above)
}
