//! Parallel corpora: two files of sentences, aligned line by line.

use super::file::Lines;
use super::memory::MemoryBudget;
use crate::error::{Error, Result};
use std::path::Path;

/// A sentence and its translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The sentence in the source language.
    pub source: String,
    /// The sentence in the target language.
    pub target: String,
}

/// The pairs of two files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Parallel {
    /// The pairs in the order of the files, with surrounding white space removed.
    pub pairs: Vec<Pair>,
    /// The number of lines that were left out because one or both sides were empty.
    pub empty: usize,
}

impl Parallel {
    /// Reads two files that are translations of each other, with the same number of lines.
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

/// The error for a file that ends before its counterpart.
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
