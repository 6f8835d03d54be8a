//! Memory: how much there is, and a budget for what is read from files.
//!
//! A limit of bytes read is no limit of memory: a table of many tiny fields takes thirty times its size once each field is a
//! string of its own. Readers therefore count what they keep, and stop with an error at [`limit`] bytes.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

/// The memory that may be used, in bytes: `REGARD_MEMORY` (in MB), or else what is [`available`].
pub fn limit() -> u64 {
    let set = std::env::var("REGARD_MEMORY").ok().and_then(|megabytes| megabytes.parse::<u64>().ok());
    set.map_or_else(available, |megabytes| megabytes.saturating_mul(1_000_000))
}

/// The memory that this process can still get, in bytes: the least of what the machine has free, what its control groups
/// leave, and what its own limit of address space leaves. Without Linux's files about these it is a tebibyte, which still
/// rejects absurd sizes.
pub fn available() -> u64 {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let proc = |name: &str| read(&Path::new("/proc").join(name)).unwrap_or_default();
    let machine = kilobytes(&proc("meminfo"), "MemAvailable:");
    let space = limit_of(&proc("self/limits"), "Max address space")
        .map(|most| most.saturating_sub(kilobytes(&proc("self/status"), "VmSize:").unwrap_or(0)));
    let groups = group_limits(&proc("self/cgroup"), Path::new("/sys/fs/cgroup"), &read);
    machine.into_iter().chain(space).chain(groups).min().unwrap_or(1 << 40)
}

/// The bytes of a line such as `MemAvailable:   123 kB`.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024))
}

/// The soft limit in a line of `/proc/self/limits`; none if it is unlimited.
fn limit_of(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
}

/// What the control groups of a process leave it, from its own group up to the root.
fn group_limits(groups: &str, root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Vec<u64> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        // The second version has one hierarchy for all, the first has one of its own for memory.
        let (folder, most, used, cached) = match controllers {
            "" => (root.to_owned(), "memory.max", "memory.current", "file "),
            "memory" => {
                (root.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache ")
            }
            _ => continue,
        };
        for group in Path::new(group.trim_start_matches('/')).ancestors() {
            let number = |name: &str| read(&folder.join(group).join(name))?.trim().parse::<u64>().ok();
            let (Some(most), Some(used)) = (number(most), number(used)) else { continue };
            // Cached files count as used, and are given up when memory is short.
            let statistics = read(&folder.join(group).join("memory.stat")).unwrap_or_default();
            let cached = statistics.lines().find_map(|line| line.strip_prefix(cached)?.trim().parse().ok());
            found.push(most.saturating_sub(used.saturating_sub(cached.unwrap_or(0))));
        }
    }
    found
}

/// What a vector or string of so many bytes takes: allocators hand out multiples of 16 bytes, at least 32.
pub fn allocated(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes.saturating_add(8).next_multiple_of(16).max(32) }
}

/// The memory that the contents of a file may take. Half of [`limit`]: tokens, batches and a model are to fit beside them.
#[derive(Debug)]
pub struct MemoryBudget {
    path: PathBuf,
    limit: u64,
    used: u64,
}

impl MemoryBudget {
    /// A budget for what is read from a file or folder.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned(), limit: limit() / 2, used: 0 }
    }

    /// Counts an element of a vector, and strings of these lengths that belong to it.
    pub fn add<T>(&mut self, strings: &[usize]) -> Result<()> {
        // A vector grows to twice its size, and holds the old elements beside the new ones while it does.
        let bytes = 2 * size_of::<T>() + strings.iter().map(|&bytes| allocated(bytes)).sum::<usize>();
        self.used = self.used.saturating_add(bytes as u64);
        if self.used <= self.limit {
            return Ok(());
        }
        let megabytes = self.limit / 1_000_000;
        Err(Error::file(
            &self.path,
            format!(
                "its contents take more than {megabytes} MB of memory, half of what is available: use a part of it, or raise \
                 REGARD_MEMORY (in MB)"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_all_groups_counts() {
        let files = [
            ("/groups/a/b/memory.max", "1000\n"),
            ("/groups/a/b/memory.current", "900\n"),
            ("/groups/a/b/memory.stat", "anon 200\nfile 700\nfile_mapped 1\n"),
            ("/groups/a/memory.max", "max\n"),
            ("/groups/a/memory.current", "5000\n"),
            ("/groups/memory/old/memory.limit_in_bytes", "600\n"),
            ("/groups/memory/old/memory.usage_in_bytes", "100\n"),
        ];
        let read = |path: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        };
        let limits = |groups: &str| group_limits(groups, Path::new("/groups"), &read);
        assert_eq!(limits("0::/a/b\n"), [800]);
        assert_eq!(limits("4:cpu,cpuacct:/old\n3:memory:/old\n"), [500]);
        assert_eq!(limits("nonsense\n0::/elsewhere\n"), [0; 0]);
        assert_eq!(kilobytes("MemFree: 1 kB\nMemAvailable:  20 kB\n", "MemAvailable:"), Some(20 * 1024));
        let limits =
            "Max cpu time   unlimited  unlimited seconds\nMax address space   4096  unlimited bytes\n";
        assert_eq!(limit_of(limits, "Max address space"), Some(4096));
        assert_eq!(limit_of(limits, "Max cpu time"), None);
    }

    #[test]
    fn a_budget_ends_with_the_name_of_the_file() {
        let mut budget = MemoryBudget { path: "some.tsv".into(), limit: 1000, used: 0 };
        budget.add::<[u64; 10]>(&[5, 100]).unwrap();
        assert_eq!(budget.used, 160 + 32 + 112);
        budget.add::<u8>(&[600]).unwrap();
        let error = budget.add::<u8>(&[600]).unwrap_err().to_string();
        assert!(error.starts_with("some.tsv: ") && error.contains("REGARD_MEMORY"), "{error}");
    }
}
