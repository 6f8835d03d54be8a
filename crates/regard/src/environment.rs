//! Settings of the environment, checked when the program starts: one with a mistake in it is an error, not the default.

use crate::bad_usage;
use anyhow::Result;

/// The most threads that the engine starts.
const MOST_THREADS: usize = 256;
/// The instruction sets that `REGARD_SIMD` may name.
const INSTRUCTIONS: [&str; 3] = ["avx512", "avx2", "portable"];

/// How long other ranks may be silent, in seconds: longer than it takes two signs of life to arrive.
const PATIENCE: std::ops::RangeInclusive<u64> = 5..=86_400;

/// Rejects `REGARD_THREADS`, `REGARD_SIMD`, `REGARD_MEMORY` and `REGARD_PATIENCE` with values that mean nothing.
pub fn check() -> Result<()> {
    check_with(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
}

fn check_with(variable: impl Fn(&str) -> Option<String>) -> Result<()> {
    if let Some(threads) = variable("REGARD_THREADS")
        && !threads.parse().is_ok_and(|count: usize| (1..=MOST_THREADS).contains(&count))
    {
        bad_usage!(
            "REGARD_THREADS={threads}: expected a number of threads from 1 to {MOST_THREADS}; unset it to use all cores"
        );
    }
    if let Some(simd) = variable("REGARD_SIMD")
        && !INSTRUCTIONS.contains(&simd.as_str())
    {
        bad_usage!(
            "REGARD_SIMD={simd}: expected {}; unset it to use the best that the machine has",
            INSTRUCTIONS.join(", ")
        );
    }
    if let Some(memory) = variable("REGARD_MEMORY")
        && !memory.parse().is_ok_and(|megabytes: u64| megabytes > 0)
    {
        bad_usage!("REGARD_MEMORY={memory}: expected the most memory to use, in MB, such as 4096");
    }
    if let Some(patience) = variable("REGARD_PATIENCE")
        && !patience.parse().is_ok_and(|seconds: u64| PATIENCE.contains(&seconds))
    {
        let (least, most) = (PATIENCE.start(), PATIENCE.end());
        bad_usage!(
            "REGARD_PATIENCE={patience}: expected how long a rank may be silent, in seconds from {least} to {most}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_with;

    #[test]
    fn values_that_mean_nothing_are_rejected() {
        let check = |name: &'static str, value: &str| {
            check_with(|asked| (asked == name).then(|| value.to_owned())).map_err(|error| error.to_string())
        };
        for (name, good) in [
            ("REGARD_THREADS", "1"),
            ("REGARD_THREADS", "256"),
            ("REGARD_SIMD", "avx2"),
            ("REGARD_SIMD", "portable"),
            ("REGARD_MEMORY", "512"),
            ("REGARD_PATIENCE", "40"),
            ("REGARD_OTHER", "anything"),
        ] {
            assert_eq!(check(name, good), Ok(()), "{name}={good}");
        }
        for threads in ["0", "-3", "", "two", "1.5", "257", "99999999999999999999"] {
            let problem = check("REGARD_THREADS", threads).unwrap_err();
            assert!(problem.starts_with(&format!("REGARD_THREADS={threads}: ")), "{problem}");
        }
        for simd in ["nonsense", "", "AVX2", "sse"] {
            assert!(check("REGARD_SIMD", simd).unwrap_err().contains("avx512, avx2, portable"), "{simd}");
        }
        for memory in ["0", "-1", "4G", "lots"] {
            assert!(check("REGARD_MEMORY", memory).unwrap_err().contains("in MB"), "{memory}");
        }
        for patience in ["0", "4", "-1", "1m", "86401"] {
            assert!(check("REGARD_PATIENCE", patience).unwrap_err().contains("in seconds"), "{patience}");
        }
    }
}
