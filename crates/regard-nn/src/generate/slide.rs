//! A window that slides over a text longer than the context.

use crate::error::{Error, Result};
use std::ops::Range;

/// What leaves a full context: the first tokens stay, the next ones go.
///
/// Positions are counted from the start of the window, so that the tokens that stay are read again after each slide: a
/// larger `drop` slides less often and leaves less to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slide {
    /// How many tokens at the beginning of a text stay, such as its start token.
    pub keep: usize,
    /// How many tokens after them leave at a time.
    pub drop: usize,
}

impl Slide {
    /// A window that drops a quarter of a context at a time.
    pub fn by_quarter(context: usize, keep: usize) -> Self {
        let keep = keep.min(context.saturating_sub(1));
        Self { keep, drop: ((context - keep) / 4).max(1) }
    }

    /// Returns an error if this does not fit a context.
    pub fn check(self, context: usize) -> Result<()> {
        if self.drop > 0 && self.keep.checked_add(self.drop).is_some_and(|both| both <= context) {
            return Ok(());
        }
        let problem = format!(
            "a context of {context} tokens cannot keep {} and drop {}: at least one must leave, at most all",
            self.keep, self.drop
        );
        Err(Error::configuration("generation", problem))
    }

    /// The tokens of a window that leave when there is room for `limit` of them.
    pub fn leaving(self, length: usize, limit: usize) -> Range<usize> {
        let too_many = length.saturating_sub(limit);
        self.keep..(self.keep + too_many.next_multiple_of(self.drop)).min(length)
    }
}
