//! Output: results to standard output, remarks to standard error.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::Path;
use std::time::Duration;

/// Prints a line of results. A closed pipe (`| head`) is no failure.
pub fn line(text: impl std::fmt::Display) {
    if writeln!(stdout(), "{text}").is_err() {
        std::process::exit(0);
    }
}

/// A piece of a line of results, shown at once.
pub fn piece(text: &str) {
    let mut out = stdout();
    if write!(out, "{text}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// A remark that is not a result.
pub fn remark(text: impl std::fmt::Display) {
    // A closed standard error is no failure.
    let _ = writeln!(stderr(), "{text}");
}

/// Whether standard error is a terminal, so that a progress bar makes sense.
pub fn is_terminal() -> bool {
    stderr().is_terminal()
}

/// A path as a shell takes it, for commands that are to be copied.
pub fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    match !path.is_empty() && path.chars().all(plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', "'\\''")),
    }
}

/// A number with a comma every three digits.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A progress bar over so many things, on a terminal; nothing elsewhere.
pub fn bar(length: u64) -> indicatif::ProgressBar {
    if !is_terminal() {
        return indicatif::ProgressBar::hidden();
    }
    let style =
        indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len}  {elapsed_precise} left {eta_precise}");
    indicatif::ProgressBar::new(length)
        .with_style(style.unwrap_or_else(|_| indicatif::ProgressStyle::default_bar()))
}

/// The least fraction of work that must be done before the remaining time is estimated.
pub const LEAST_DONE: f64 = 0.02;

/// The remaining time of work of which a fraction is done, once that is enough for an estimate.
pub fn left(elapsed: Duration, done: f64) -> String {
    if done < LEAST_DONE {
        return String::new();
    }
    time_left(elapsed.as_secs_f64() * (1.0 - done).max(0.0) / done)
}

/// How many seconds are left, in words.
pub fn time_left(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 90.0 => format!(", about {seconds:.0} s left"),
        seconds => format!(", about {:.0} min left", seconds / 60.0),
    }
}

/// A duration for people.
pub fn duration(seconds: f64) -> String {
    match seconds {
        short if short < 90.0 => format!("{short:.0} s"),
        medium if medium < 5400.0 => format!("{:.0} min", medium / 60.0),
        long => format!("{:.1} h", long / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_can_be_copied_into_a_shell() {
        assert_eq!(quoted(Path::new("runs/bag-1")), "runs/bag-1");
        assert_eq!(quoted(Path::new("my runs/bag")), "'my runs/bag'");
        assert_eq!(quoted(Path::new("it's $HOME")), "'it'\\''s $HOME'");
    }
}
