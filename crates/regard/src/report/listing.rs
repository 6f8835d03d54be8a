//! The lines of our own code that a section speaks of, taken from the source itself so that they are never out of date.

use anyhow::{Context as _, Result};

/// A file of the program's own: its path in the repository and its text.
pub const STATISTICS: Source =
    Source { path: "crates/regard/src/statistics.rs", text: include_str!("../statistics.rs") };

macro_rules! library {
    ($($name:ident)*) => {
        $(
            /// A file of the library.
            pub const $name: Source = Source::of(regard_nn::source::$name);
        )*
        /// All of them.
        #[cfg(test)]
        pub const ALL: &[Source] = &[STATISTICS, $($name),*];
    };
}

library! {
    ATTENTION HEADS PATTERN POSITION BLOCK FEED_FORWARD LAYERS SENTIMENT TRANSFORMER TRAIN INFLUENCE TOKENS LINEAR
}

/// A file of the repository.
#[derive(Clone, Copy)]
pub struct Source {
    /// Its path.
    pub path: &'static str,
    text: &'static str,
}

impl Source {
    const fn of((path, text): (&'static str, &'static str)) -> Self {
        Self { path, text }
    }
}

/// An item, up to its closing brace: the number of its first line, and its lines without their indentation. It is found by the
/// beginnings of lines, each looked for after the one before: `["impl FeedForward", "pub fn forward("]`.
pub fn item(source: Source, begins: &[&str]) -> Result<(usize, String)> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut first = 0;
    for beginning in begins {
        let found = lines[first..].iter().position(|line| line.trim_start().starts_with(beginning));
        first +=
            found.with_context(|| format!("{} has no line that begins with {beginning}", source.path))?;
    }
    let line = lines.get(first).copied().unwrap_or_default();
    let indent = line.len() - line.trim_start().len();
    let closing = format!("{}}}", " ".repeat(indent));
    let last = (first..lines.len())
        .find(|&i| lines[i].trim_end() == closing)
        .with_context(|| format!("{begins:?} of {} has no end", source.path))?;
    let text: Vec<&str> =
        lines[first..=last].iter().map(|line| line.get(indent..).unwrap_or_default()).collect();
    Ok((first + 1, text.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_found_with_its_end() {
        let source = Source { path: "x.rs", text: "// a\nimpl A {\n    fn b() {\n        c\n    }\n}\n" };
        assert_eq!(item(source, &["impl A", "fn b("]).unwrap(), (3, "fn b() {\n    c\n}".to_owned()));
        assert!(item(source, &["fn z("]).is_err());
    }

    #[test]
    fn every_source_has_lines() {
        assert!(ALL.iter().all(|source| source.text.lines().count() > 10));
    }
}
