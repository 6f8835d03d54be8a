//! The texts that a model continues, as it reads them.

use super::slide::Slide;
use crate::error::{Error, Result};
use regard_tensor::{Ids, Mask};
use std::ops::Range;

/// Texts aligned at their ends: shorter prompts are padded at the start.
pub(super) struct Texts {
    /// The tokens of each text, without padding.
    whole: Vec<Vec<u32>>,
    /// What of each the model reads: all, or what the window leaves of it.
    windows: Vec<Vec<u32>>,
    /// The same in columns, `None` where there is padding or a text has ended.
    columns: Vec<Vec<Option<u32>>>,
    /// How windows slide, and the context that they fit.
    sliding: Option<(Slide, usize)>,
}

impl Texts {
    /// Prompts, of which those that do not fit the context are an error without a window that slides.
    pub fn new(prompts: &[Vec<u32>], slide: Option<Slide>, limit: Option<usize>) -> Result<Self> {
        if prompts.is_empty() {
            return Err(Error::input("generation", "at least one prompt is needed"));
        }
        if let Some(number) = prompts.iter().position(Vec::is_empty) {
            let problem = format!("every prompt needs at least one token, prompt {number} has none");
            return Err(Error::input("generation", problem));
        }
        let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
        if let (None, Some(limit)) = (slide, limit.filter(|&limit| longest > limit)) {
            let problem = format!("a prompt of {longest} tokens does not fit its context of {limit}");
            return Err(Error::input("generation", problem));
        }
        let sliding = slide.zip(limit);
        let mut windows = prompts.to_vec();
        if let Some((slide, limit)) = sliding {
            for window in &mut windows {
                window.drain(slide.leaving(window.len(), limit));
            }
        }
        let mut texts = Self { whole: prompts.to_vec(), windows, columns: Vec::new(), sliding };
        texts.align(&vec![true; prompts.len()]);
        Ok(texts)
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// The whole of a text.
    pub fn text(&self, row: usize) -> &[u32] {
        &self.whole[row]
    }

    /// Whether a window has left something of a text behind.
    pub fn slid(&self, row: usize) -> bool {
        self.windows[row].len() < self.whole[row].len()
    }

    /// Adds a token to a text.
    pub fn push(&mut self, row: usize, token: u32) {
        self.whole[row].push(token);
        self.windows[row].push(token);
    }

    /// Adds the last token of each text that goes on as a column; false if a window had to slide, so that all columns are
    /// new. Each window slides by its own text, whatever its neighbours are.
    pub fn extend(&mut self, going_on: &[bool]) -> bool {
        let mut slid = false;
        if let Some((slide, limit)) = self.sliding {
            for (window, _) in self.windows.iter_mut().zip(going_on).filter(|(_, going_on)| **going_on) {
                slid |= window.len() > limit;
                window.drain(slide.leaving(window.len(), limit));
            }
        }
        if slid {
            self.align(going_on);
        } else {
            let last = |(window, &going_on): (&Vec<u32>, &bool)| window.last().copied().filter(|_| going_on);
            self.columns.push(self.windows.iter().zip(going_on).map(last).collect());
        }
        !slid
    }

    /// Columns of the windows of the texts that go on.
    fn align(&mut self, going_on: &[bool]) {
        let rows: Vec<&[u32]> = self
            .windows
            .iter()
            .zip(going_on)
            .map(|(window, &on)| if on { &window[..] } else { &[] })
            .collect();
        let width = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        let at = |row: &[u32], column: usize| (column + row.len()).checked_sub(width).map(|index| row[index]);
        self.columns = (0..width).map(|column| rows.iter().map(|row| at(row, column)).collect()).collect();
    }

    /// Ids (rows, columns) of a range, and which of them are not padding, if any text of the batch has padding.
    pub fn columns(&self, range: Range<usize>) -> Result<(Ids, Option<Mask>)> {
        let shape = [self.whole.len(), range.len()];
        let at = |row: usize, column: usize| self.columns[range.start + column][row];
        let mut ids = Vec::with_capacity(shape[0] * shape[1]);
        let mut real = Vec::with_capacity(shape[0] * shape[1]);
        for row in 0..shape[0] {
            for column in 0..shape[1] {
                let token = at(row, column);
                ids.push(token.unwrap_or(0));
                real.push(token.is_some());
            }
        }
        let padded = self.columns.iter().any(|column| column.contains(&None));
        let present = if padded { Some(Mask::new(&real, shape)?) } else { None };
        Ok((Ids::new(&ids, shape)?, present))
    }
}
