//! Sentences and their translations: two files, line by line.

use super::file::Lines;
use super::memory::MemoryBudget;
use crate::error::{Error, Result};
use std::path::Path;

/// A sentence and its translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// In the language to translate from.
    pub source: String,
    /// In the language to translate to.
    pub target: String,
}

/// The pairs of two files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parallel {
    /// The pairs, in the order of the files, without white space at their ends.
    pub pairs: Vec<Pair>,
    /// How many lines were left out because one side or both were empty.
    pub empty: usize,
}

impl Parallel {
    /// Reads two files that say the same, line by line; they must have equally many.
    pub fn open(source: impl AsRef<Path>, target: impl AsRef<Path>) -> Result<Self> {
        let (source, target) = (source.as_ref(), target.as_ref());
        let (mut sources, mut targets) = (Lines::open(source)?, Lines::open(target)?);
        let (mut parallel, mut budget) = (Self::default(), MemoryBudget::new(source));
        loop {
            let line = (sources.next()?, targets.next()?);
            match line {
                (Some(source), Some(target)) => {
                    let (source, target) = (source.trim(), target.trim());
                    if source.is_empty() || target.is_empty() {
                        parallel.empty += 1;
                    } else {
                        budget.add::<Pair>(&[source.len(), target.len()])?;
                        parallel.pairs.push(Pair { source: source.to_owned(), target: target.to_owned() });
                    }
                }
                (None, None) => break,
                (Some(_), None) => return Err(shorter(target, &targets, sources, source)?),
                (None, Some(_)) => return Err(shorter(source, &sources, targets, target)?),
            }
        }
        if parallel.pairs.is_empty() {
            let problem = format!("no pairs of sentences in it and {}", target.display());
            return Err(Error::file(source, problem));
        }
        Ok(parallel)
    }
}

/// The error about a file that ended before its counterpart.
fn shorter(path: &Path, ended: &Lines, mut other: Lines, other_path: &Path) -> Result<Error> {
    while other.next()?.is_some() {}
    let problem = format!(
        "it has {} lines, but {} has {}: they must be translations line by line",
        ended.number(),
        other_path.display(),
        other.number()
    );
    Ok(Error::file(path, problem))
}
