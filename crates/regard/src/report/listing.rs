//! The lines of our own code that a section quotes, taken from the source itself so that they are never out of date.

use super::html::escape;
use anyhow::{Context as _, Result};

macro_rules! library {
    ($($name:ident)*) => {
        $(
            /// A file of the library.
            const $name: (&str, &str) = regard_nn::source::$name;
        )*
    };
}

library! { ATTENTION PATTERN POSITION SENTIMENT TRAIN INFLUENCE LINEAR }

const WORKED: (&str, &str) = super::worked::SOURCE;
const WHOLE_GPT: (&str, &str) = super::whole_gpt::SOURCE;
const STATISTICS: (&str, &str) = ("crates/regard/src/statistics.rs", include_str!("../statistics.rs"));

/// Some lines of a file of the repository.
pub struct Excerpt {
    /// Its path, and its text.
    source: (&'static str, &'static str),
    /// The beginnings of lines, each looked for after the one before: the last of them is the first line of the excerpt.
    begins: &'static [&'static str],
    /// The beginning of the last line; without one it is the line that closes the item.
    last: Option<&'static str>,
}

/// What an excerpt says.
pub struct Lines {
    /// The path of the file.
    pub path: &'static str,
    /// The number of its first line.
    pub first: usize,
    /// The lines without their common indentation.
    pub text: String,
}

macro_rules! excerpts {
    ($($name:ident: $source:ident [$($begin:literal),*] $(to $last:literal)?;)*) => {
        $(
            #[allow(missing_docs)] // named after what it shows
            pub const $name: Excerpt =
                Excerpt { source: $source, begins: &[$($begin),*], last: excerpts!(@last $($last)?) };
        )*
        /// All of them.
        #[cfg(test)]
        const ALL: &[(&str, Excerpt)] = &[$((stringify!($name), $name)),*];
    };
    (@last) => { None };
    (@last $last:literal) => { Some($last) };
}

excerpts! {
    ENCODE: WORKED ["pub fn tokens("];
    EMBED: WORKED ["pub fn vectors("];
    ONE_HEAD: WORKED ["pub fn one_head("];
    DOT_PRODUCT: ATTENTION ["pub fn scaled_dot_product("];
    MASK: PATTERN ["fn allows("] to "}";
    MANY_HEADS: WORKED ["pub fn many_heads("];
    SINUSOIDAL: POSITION ["pub fn sinusoidal("];
    ROTATED: WORKED ["pub fn rotated("];
    BLOCK: WORKED ["pub fn block("];
    GPT: WHOLE_GPT ["pub fn gpt("];
    CAUSAL_ATTENTION: WHOLE_GPT ["fn causal_attention("];
    ONE_STEP: WORKED ["pub fn one_step("] to "let after";
    UPDATE: TRAIN ["pub fn update("] to "let mut updates";
    ADDITIVE: WORKED ["pub fn additive("];
    POOLING: SENTIMENT ["fn hidden(", "let mut states"] to "};";
    ROLLOUT: INFLUENCE ["pub fn rollout("];
    LINEAR_ATTENTION: LINEAR ["} else {"] to "let total = sums";
    SLOPE: STATISTICS ["pub fn slope("] to "let slope";
}

impl Excerpt {
    /// Its lines, read from the source.
    pub fn lines(&self) -> Result<Lines> {
        let (path, text) = self.source;
        let lines: Vec<&str> = text.lines().collect();
        let starts = |line: &str, beginning: &str| line.trim_start().starts_with(beginning);
        let mut first = 0;
        for beginning in self.begins {
            let found = lines[first..].iter().position(|line| starts(line, beginning));
            first += found.with_context(|| format!("{path} has no line that begins with {beginning}"))?;
        }
        let line = lines.get(first).copied().unwrap_or_default();
        let indent = line.len() - line.trim_start().len();
        let closing = format!("{}}}", " ".repeat(indent));
        let last = (first..lines.len())
            .find(|&at| match self.last {
                Some(last) => at > first && starts(lines[at], last),
                None => lines[at].trim_end() == closing,
            })
            .with_context(|| format!("{:?} of {path} has no end", self.begins))?;
        let text: Vec<&str> =
            lines[first..=last].iter().map(|line| line.get(indent..).unwrap_or_default()).collect();
        Ok(Lines { path, first: first + 1, text: text.join("\n") })
    }
}

/// Code with its comments set apart.
pub fn highlighted(code: &str) -> String {
    let line = |line: &str| match line.split_once("//") {
        Some((before, comment)) => {
            format!("{}<span class=\"comment\">//{}</span>", escape(before), escape(comment))
        }
        None => escape(line),
    };
    code.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: (&str, &str) = ("x.rs", "// a\nimpl A {\n    fn b() {\n        c\n        d\n    }\n}\n");

    #[test]
    fn an_item_is_found_with_its_end() {
        let whole = Excerpt { source: SAMPLE, begins: &["impl A", "fn b("], last: None }.lines().unwrap();
        assert_eq!((whole.first, whole.text.as_str()), (3, "fn b() {\n    c\n    d\n}"));
        let part = Excerpt { source: SAMPLE, begins: &["fn b("], last: Some("c") }.lines().unwrap();
        assert_eq!(part.text, "fn b() {\n    c");
        assert!(Excerpt { source: SAMPLE, begins: &["fn z("], last: None }.lines().is_err());
    }

    #[test]
    fn every_excerpt_is_there_and_short_enough_to_be_read() {
        for (name, excerpt) in ALL {
            let lines = excerpt.lines().unwrap_or_else(|error| panic!("{name}: {error}"));
            let count = lines.text.lines().count();
            assert!((2..=24).contains(&count), "{name} has {count} lines:\n{}", lines.text);
            assert!(lines.text.lines().all(|line| line.chars().count() <= 124), "{name} is too wide");
        }
    }

    #[test]
    fn comments_are_set_apart() {
        assert_eq!(highlighted("a < b // why"), "a &lt; b <span class=\"comment\">// why</span>");
    }
}
