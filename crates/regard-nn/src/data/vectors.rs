//! Word vectors in the text formats of GloVe (Pennington et al., 2014) and fastText (Bojanowski et al., 2017).
//!
//! Each line has a word and its numbers, separated by single spaces; fastText's first line gives the number of words and
//! dimensions. Some words of GloVe's largest file contain spaces, so the numbers are counted from the end of the line.

use super::file::Lines;
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::path::Path;

/// The maximum dimension of a vector.
pub const DIMENSION_LIMIT: usize = 1 << 14;

/// The vectors of the requested words.
#[derive(Debug, Clone, PartialEq)]
pub struct WordVectors {
    dimension: usize,
    /// The vectors found, concatenated.
    values: Vec<f32>,
    /// The index of each requested word's vector.
    rows: Vec<Option<usize>>,
    others: usize,
}

impl WordVectors {
    /// Reads the vectors of `words`. Other lines are counted and checked only for their number of fields. The first line of
    /// a duplicate word counts.
    pub fn open<W: AsRef<str>>(path: impl AsRef<Path>, words: &[W]) -> Result<Self> {
        let path = path.as_ref();
        let mut lines = Lines::open(path)?;
        let mut wanted: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, word) in words.iter().enumerate() {
            wanted.entry(word.as_ref()).or_default().push(index);
        }
        let mut vectors = Self { dimension: 0, values: Vec::new(), rows: vec![None; words.len()], others: 0 };
        let mut announced = None;
        while let Some(line) = lines.next()? {
            let added = vectors.add(line.trim_end_matches(' '), &wanted, &mut announced);
            added.map_err(|problem| Error::line(path, lines.number(), problem))?;
        }
        let found = lines.number() - usize::from(announced.is_some());
        if vectors.dimension == 0 || found == 0 {
            return Err(Error::file(path, "the file has no vectors"));
        }
        if let Some(count) = announced.filter(|&count| count != found) {
            let problem = format!(
                "the first line announces {count} words, but there are {found}: is the file incomplete?"
            );
            return Err(Error::file(path, problem));
        }
        Ok(vectors)
    }

    /// The length of a vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The vector of the requested word with this index, if the file has it.
    pub fn vector(&self, index: usize) -> Option<&[f32]> {
        let row = (*self.rows.get(index)?)?;
        Some(&self.values[row * self.dimension..][..self.dimension])
    }

    /// The number of requested words that were found.
    pub fn found(&self) -> usize {
        self.rows.iter().flatten().count()
    }

    /// The number of other lines in the file.
    pub fn others(&self) -> usize {
        self.others
    }

    fn add(
        &mut self,
        line: &str,
        wanted: &HashMap<&str, Vec<usize>>,
        announced: &mut Option<usize>,
    ) -> std::result::Result<(), String> {
        if self.dimension == 0 {
            let first = header(line);
            *announced = first.map(|(count, _)| count);
            let dimension = first.map_or_else(|| line.matches(' ').count(), |(_, dimension)| dimension);
            if dimension == 0 || dimension > DIMENSION_LIMIT {
                return Err(format!("expected a word and 1 to {DIMENSION_LIMIT} numbers, got {dimension}"));
            }
            self.dimension = dimension;
            if first.is_some() {
                return Ok(());
            }
        }
        // The last d fields are numbers; everything before them is the word.
        let Some((at, _)) = line.rmatch_indices(' ').nth(self.dimension - 1) else {
            let got = line.matches(' ').count();
            return Err(format!("expected a word and {} numbers, got {got}", self.dimension));
        };
        let indices = match wanted.get(&line[..at]) {
            Some(indices) if indices.iter().all(|&index| self.rows[index].is_none()) => indices,
            _ => {
                self.others += 1;
                return Ok(());
            }
        };
        let row = self.values.len() / self.dimension;
        for number in line[at + 1..].split(' ') {
            match number.parse::<f32>() {
                Ok(value) if value.is_finite() => self.values.push(value),
                _ => return Err(format!("expected a number, got {number:?}")),
            }
        }
        for &index in indices {
            self.rows[index] = Some(row);
        }
        Ok(())
    }
}

/// fastText's first line: the number of words and of dimensions.
fn header(line: &str) -> Option<(usize, usize)> {
    let (count, dimension) = line.split_once(' ')?;
    Some((count.parse().ok()?, dimension.parse().ok()?))
}
