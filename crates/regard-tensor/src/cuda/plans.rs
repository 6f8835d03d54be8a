//! Which algorithm was the fastest for a product, kept on disk.
//!
//! A choice by time may differ from run to run, and with it the last bits of a product. Kept, it is made once for a device,
//! a version of cuBLASLt and a shape.

use super::program::{cache_folder, hash, write_aside};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// An algorithm as cuBLASLt describes it.
pub(super) type Words = [u64; 8];

/// The first line of a file. Files that begin otherwise are left alone and read as empty.
const HEADER: &str = "regard products 1";

/// The choices made so far, by a hash of the product's shape.
pub(super) struct Plans {
    file: Option<PathBuf>,
    known: BTreeMap<u64, Words>,
}

impl Plans {
    /// Those of a device under a version of cuBLASLt. A file that is missing or damaged has none.
    pub fn open(device: &str, version: usize) -> Self {
        let name = format!("products-{:016x}.txt", hash(&[device, &version.to_string()]));
        let file = cache_folder().map(|folder| folder.join(name));
        let text = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        Self { file, known: parse(&text).unwrap_or_default() }
    }

    pub fn get(&self, shape: u64) -> Option<Words> {
        self.known.get(&shape).copied()
    }

    pub fn put(&mut self, shape: u64, words: Words) {
        self.known.insert(shape, words);
        if let Some(file) = &self.file {
            // A cache that cannot be written costs time, not correctness.
            let _ = write_aside(file, text(&self.known).as_bytes());
        }
    }
}

fn text(known: &BTreeMap<u64, Words>) -> String {
    let mut text = format!("{HEADER}\n");
    for (shape, words) in known {
        let _ = write!(text, "{shape:016x}");
        for word in words {
            let _ = write!(text, " {word:016x}");
        }
        text.push('\n');
    }
    text
}

fn parse(text: &str) -> Option<BTreeMap<u64, Words>> {
    let lines = text.strip_prefix(HEADER)?.strip_prefix('\n')?.lines();
    lines
        .map(|line| {
            let mut numbers = line.split(' ').map(|number| u64::from_str_radix(number, 16).ok());
            let shape = numbers.next()??;
            let words: Vec<u64> = numbers.collect::<Option<_>>()?;
            Some((shape, words.try_into().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_as_they_were_written() {
        let known = BTreeMap::from([(7, [1, 2, 3, 4, 5, 6, 7, u64::MAX]), (u64::MAX, [0; 8])]);
        assert_eq!(parse(&text(&known)), Some(known));
    }

    #[test]
    fn damaged_files_have_no_choices() {
        let whole = text(&BTreeMap::from([(7, [1; 8])]));
        for broken in ["", "regard products 2\n", &whole[..whole.len() - 20], &whole.replace('1', "x")] {
            assert_eq!(parse(broken), None, "{broken:?}");
        }
    }
}
