//! Text as HTML.

use std::fmt::Write as _;

/// Text with the signs that HTML gives a meaning written as entities.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

/// Prose with `code`, *emphasis*, $formulas$ and [links](address).
pub fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '$', '[']) {
        out.push_str(&plain(&rest[..at]));
        let mark = rest[at..].chars().next().unwrap_or(' ');
        let inside = &rest[at + 1..];
        let end = if mark == '[' { inside.find(']') } else { inside.find(mark) };
        let Some(end) = end else {
            out.push_str(&escape(&rest[at..=at]));
            rest = inside;
            continue;
        };
        let content = &inside[..end];
        rest = &inside[end + 1..];
        match mark {
            '`' => {
                let _ = write!(out, "<code>{}</code>", escape(content));
            }
            '*' => {
                let _ = write!(out, "<em>{}</em>", prose(content));
            }
            '$' => out.push_str(&super::math::inline(content)),
            _ => match rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
                Some((address, after)) => {
                    let _ = write!(out, "<a href=\"{}\">{}</a>", escape(address), prose(content));
                    rest = after;
                }
                None => {
                    let _ = write!(out, "[{}]", prose(content));
                }
            },
        }
    }
    out.push_str(&plain(rest));
    out
}

/// Escaped, with the one variable that sentences for the terminal name as they do there; no line ends before a percent sign.
fn plain(text: &str) -> String {
    escape(text).replace("d_k", "<i>d</i><sub>k</sub>").replace(" %", "\u{a0}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_marked_up_and_escaped() {
        assert_eq!(prose("a < `b<c` & *so*"), "a &lt; <code>b&lt;c</code> &amp; <em>so</em>");
        assert_eq!(prose("[here](#x) or [not]"), "<a href=\"#x\">here</a> or [not]");
        assert_eq!(prose("2 * 3 and a lone ` mark"), "2 * 3 and a lone ` mark");
        assert_eq!(prose("as d_k grows"), "as <i>d</i><sub>k</sub> grows");
        assert_eq!(prose("−2 % of it"), "−2\u{a0}% of it");
        assert!(prose("with $d_k$").contains("<i>d</i><sub><i>k</i></sub>"));
    }
}
