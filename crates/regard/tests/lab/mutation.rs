//! Files with random changes: whatever is changed, a reader ends in a result or in an error, soon and in little memory.
//!
//! `REGARD_FUZZ=100000` tries that many of each kind; `records/fuzzing.md` has the counts of full runs.

use regard_nn::tensor::random::Key;
use std::path::Path;
use std::time::{Duration, Instant};

/// No file takes longer to be refused.
pub const LONGEST: Duration = Duration::from_secs(10);

/// How many changed files are tried.
pub fn count() -> u64 {
    std::env::var("REGARD_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(150)
}

/// Numbers and texts that parsers fear.
const FEARED: [&str; 18] = [
    "0",
    "-1",
    "1e999",
    "18446744073709551615",
    "9223372036854775807",
    "2147483648",
    "4294967296",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "[[[[[[[[[[[[[[[[",
    "{\"a\":",
    "\"\\ud800\"",
    "NaN",
    "0.5",
    "\"../../x\"",
];

/// One change: bytes flipped, cut, doubled, filled, a number replaced, or something feared put in.
pub fn mutate(bytes: &[u8], key: Key) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    for round in 0..=key.below(0, 0, 3) as u64 {
        let below = |element: u64, limit: usize| key.below(round + 1, element, limit.max(1));
        let (at, length) = (below(0, changed.len()), below(1, 40));
        let end = (at + length).min(changed.len());
        match below(2, 8) {
            0 => changed.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << below(3, 8)),
            1 => changed.truncate(at),
            2 => drop(changed.drain(at..end)),
            3 => {
                let again = changed[at..end].to_vec();
                changed.splice(at..at, again);
            }
            4 => changed[at..end].fill([0, 0xff, 0x7f, b'9'][below(3, 4)]),
            5 | 6 => replace_number(&mut changed, at, FEARED[below(3, FEARED.len())]),
            _ => drop(changed.splice(at..at, FEARED[below(3, FEARED.len())].bytes())),
        }
    }
    changed
}

/// Puts a text in the place of the next number.
fn replace_number(bytes: &mut Vec<u8>, from: usize, text: &str) {
    let Some(start) = (from..bytes.len()).find(|&i| bytes[i].is_ascii_digit()) else { return };
    let end = (start..bytes.len()).find(|&i| !bytes[i].is_ascii_digit()).unwrap_or(bytes.len());
    bytes.splice(start..end, text.bytes());
}

/// Tries mutations of one file; at least some of them must be refused, or nothing was tested.
pub fn attack(name: &str, path: &Path, open: impl Fn() -> bool) {
    attack_times(name, path, count(), open);
}

/// The same with so many mutations, for readers that take long.
pub fn attack_times(name: &str, path: &Path, count: u64, open: impl Fn() -> bool) {
    let good = std::fs::read(path).unwrap();
    assert!(open(), "{name} is fine as it is");
    let mut refused = 0;
    for case in 0..count {
        let bad = mutate(&good, Key::new(case).site(name));
        std::fs::write(path, &bad).unwrap();
        let before = Instant::now();
        refused += u64::from(!open());
        assert!(before.elapsed() < LONGEST, "{name}, case {case} took {:?}", before.elapsed());
    }
    std::fs::write(path, good).unwrap();
    assert!(refused > count / 10, "{name}: {refused} of {count} refused");
    report(name, count);
}

/// A line for `tools/hostile_day`, which adds up the counts.
#[allow(clippy::print_stdout)]
pub fn report(name: &str, count: u64) {
    println!("tried {count} files: {name}");
}
