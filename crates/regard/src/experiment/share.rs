//! An experiment on several machines: each computes a share of its parts.
//!
//! The number of a part decides whose it is, not what is finished already. So shares may begin at any time and in any
//! order, on a disk that they share or in folders of their own, and no part is computed twice. A share writes parts and models only;
//! figures, tables and verdicts are written by a command without a share, once the parts are in its folder.

use super::store::Store;
use crate::error::usage_error;
use crate::terminal;
use anyhow::Result;
use clap::Args;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One of several shares of an experiment's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Its number, from 1.
    number: u64,
    /// How many there are.
    of: u64,
}

impl Share {
    /// Whether a part of a stage belongs to it: every N-th does. Each stage begins with another share, so that
    /// experiments of few parts do not all fall to the first.
    pub fn owns(self, experiment: &str, stage: &str, part: usize) -> bool {
        let first = experiment.bytes().chain(stage.bytes()).fold(0, |sum: u64, byte| sum + u64::from(byte));
        (first + part as u64) % self.of == self.number - 1
    }

    /// How many shares there are.
    pub fn of(self) -> u64 {
        self.of
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            Some((0, of)) if of > 0 => Err(format!("shares are counted from 1: 1/{of} to {of}/{of}")),
            _ => Err("a share is one of N, such as 2/8: the second of eight".to_owned()),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// The end of a share: what comes next needs parts that other shares compute.
#[derive(Debug)]
pub struct Pending {
    /// How many of them are missing.
    pub parts: usize,
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} parts belong to other shares", self.parts)
    }
}

impl std::error::Error for Pending {}

/// How the parts of experiments are divided among processes.
#[derive(Debug, Clone, Default, Args)]
pub struct Division {
    /// Compute only every N-th part, from the I-th on, for one of N processes or machines (docs/cluster.md)
    #[arg(long, value_name = "I/N", conflicts_with_all = ["merge", "record"], help_heading = "Several machines")]
    pub share: Option<Share>,
    /// Take finished parts and models from the folders of shares, then go on as usual
    #[arg(long, value_name = "FOLDER", num_args = 1.., help_heading = "Several machines")]
    pub merge: Vec<PathBuf>,
}

impl Division {
    /// Copies what the folders of shares have of some experiments, if any are to be merged.
    pub fn collect(&self, store: &Store, experiments: &[&str]) -> Result<()> {
        let (mut parts, mut models) = (0, 0);
        for folder in &self.merge {
            if !has_parts(folder, experiments) {
                let names = if let [name] = experiments { name } else { "any experiment" };
                return Err(usage_error(format!("{} has no parts of {names}", folder.display())));
            }
            let (more_parts, more_models) = store.merge(folder, experiments)?;
            (parts, models) = (parts + more_parts, models + more_models);
        }
        if let count @ 1.. = self.merge.len() {
            let folders = if count == 1 { "folder" } else { "folders" };
            terminal::remark(format!("merged from {count} {folders}: {parts} parts, {models} models"));
        }
        Ok(())
    }

    /// Reports parts that were in none of the merged folders.
    pub fn report_computed(&self, store: &Store) {
        if let (false, count @ 1..) = (self.merge.is_empty(), store.computed()) {
            terminal::remark(format!(
                "{count} parts were in none of the folders and were computed here: shares that have not ended, stages that need \
                 all parts of another, another build of the program, data of another date, or another kind of CPU"
            ));
        }
    }
}

fn has_parts(folder: &Path, experiments: &[&str]) -> bool {
    experiments.iter().any(|name| folder.join(name).join("parts").is_dir())
}

/// What became of a share, for the user.
pub fn report(share: Share, store: &Store, missing: usize) {
    let parts = |count| if count == 1 { "1 part".to_owned() } else { format!("{count} parts") };
    let (computed, missing) = (parts(store.computed()), (missing > 0).then(|| parts(missing)));
    let next = missing.map_or_else(
        || "all parts are there: the same command without --share writes figures and verdicts".to_owned(),
        |missing| {
            format!(
                "{missing} left to other shares; when they have ended: the same command without --share, and with \
                 --merge FOLDER… if they write to other folders"
            )
        },
    );
    terminal::remark(format!("share {share} is done, {computed} computed; {next}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_one_of_several() {
        assert_eq!("2/8".parse(), Ok(Share { number: 2, of: 8 }));
        for wrong in ["", "3", "0/4", "5/4", "0/0", "1/0", "-1/2", "1/2/3", "a/b", "1.5/2"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
        assert!("0/4".parse::<Share>().unwrap_err().contains("from 1"));
    }

    #[test]
    fn every_part_belongs_to_one_share_and_shares_are_even() {
        for of in 1..9 {
            let shares: Vec<Share> = (1..=of).map(|number| Share { number, of }).collect();
            let mut counts = vec![0; shares.len()];
            for part in 0..40 {
                let owners: Vec<usize> =
                    (0..shares.len()).filter(|&i| shares[i].owns("trial", "squares", part)).collect();
                assert_eq!(owners.len(), 1);
                counts[owners[0]] += 1;
            }
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
        }
    }
}
