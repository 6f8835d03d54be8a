//! Formulas for a page: a little TeX in, MathML out, which browsers draw without any script.
//!
//! Letters, numbers, signs, `_`, `^`, `{…}`, `\frac{a}{b}`, `\sqrt{x}`, `\hat{x}`, `\text{words}`, `\{` and `\}` for braces that are seen;
//! Greek and other signs are written as they are.

/// A formula on a line of its own.
pub fn display(formula: &str) -> String {
    format!("<math display=\"block\">{}</math>", row(&mut Reader { rest: formula }, None))
}

/// A formula within a line.
pub fn inline(formula: &str) -> String {
    format!("<math>{}</math>", row(&mut Reader { rest: formula }, None))
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self, length: usize) -> String {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken.to_owned()
    }

    /// Passes over a sign if it comes next.
    fn skip(&mut self, sign: char) -> bool {
        let next = self.peek() == Some(sign);
        self.take(if next { sign.len_utf8() } else { 0 });
        next
    }

    /// The characters from here on that are alike.
    fn take_while(&mut self, alike: impl Fn(char) -> bool) -> String {
        let length = self.rest.find(|c| !alike(c)).unwrap_or(self.rest.len());
        self.take(length)
    }
}

/// Everything before an end, or all there is.
fn row(reader: &mut Reader, end: Option<char>) -> String {
    let mut out = String::new();
    while let Some(next) = reader.peek() {
        if Some(next) == end {
            break;
        }
        match next {
            // Spaces mean nothing, but three or more part two formulas.
            ' ' => {
                if reader.take_while(|c| c == ' ').len() >= 3 {
                    out.push_str("<mspace width=\"1.5em\"/>");
                }
            }
            _ => {
                let base = atom(reader);
                out.push_str(&scripts(reader, &base));
            }
        }
    }
    format!("<mrow>{out}</mrow>")
}

/// A base with what stands below and above it.
fn scripts(reader: &mut Reader, base: &str) -> String {
    let (mut below, mut above) = (None, None);
    loop {
        match reader.peek() {
            Some('_') if below.is_none() => {
                reader.take(1);
                below = Some(atom(reader));
            }
            Some('^') if above.is_none() => {
                reader.take(1);
                above = Some(atom(reader));
            }
            _ => break,
        }
    }
    match (below, above) {
        (None, None) => base.to_owned(),
        (Some(below), None) => format!("<msub>{base}{below}</msub>"),
        (None, Some(above)) => format!("<msup>{base}{above}</msup>"),
        (Some(below), Some(above)) => format!("<msubsup>{base}{below}{above}</msubsup>"),
    }
}

/// A group in braces, or nothing.
fn group(reader: &mut Reader) -> String {
    if !reader.skip('{') {
        return "<mrow></mrow>".to_owned();
    }
    let inside = row(reader, Some('}'));
    reader.skip('}');
    inside
}

/// What stands in parentheses. They are a row of their own, so that they grow with what is in them and with nothing else; and
/// only where that is higher than a line.
fn parentheses(reader: &mut Reader, open: char, close: char) -> String {
    reader.skip(open);
    let inside = row(reader, Some(close));
    let stretchy = if inside.contains("<mfrac>") { "" } else { " stretchy=\"false\"" };
    let end = if reader.skip(close) { format!("<mo{stretchy}>{close}</mo>") } else { String::new() };
    format!("<mrow><mo{stretchy}>{open}</mo>{inside}{end}</mrow>")
}

/// One letter, number, sign, command or group.
fn atom(reader: &mut Reader) -> String {
    match reader.peek() {
        None => String::new(),
        Some('{') => group(reader),
        Some('\\') => {
            reader.take(1);
            if let Some(brace @ ('{' | '}')) = reader.peek() {
                return format!("<mo stretchy=\"false\">{}</mo>", reader.take(brace.len_utf8()));
            }
            match reader.take_while(|c| c.is_ascii_alphabetic()).as_str() {
                "frac" => format!("<mfrac>{}{}</mfrac>", group(reader), group(reader)),
                "sqrt" => format!("<msqrt>{}</msqrt>", group(reader)),
                "hat" => format!("<mover accent=\"true\">{}<mo>^</mo></mover>", group(reader)),
                "text" => {
                    reader.skip('{');
                    let words = reader.take_while(|c| c != '}');
                    reader.skip('}');
                    format!("<mtext>{}</mtext>", super::html::escape(&words))
                }
                name => format!("<mi>{name}</mi>"),
            }
        }
        Some(c) if c.is_ascii_digit() => {
            format!("<mn>{}</mn>", reader.take_while(|c| c.is_ascii_digit() || c == '.' || c == ','))
        }
        Some(c) if c.is_alphabetic() => format!("<mi>{}</mi>", reader.take(c.len_utf8())),
        Some('(') => parentheses(reader, '(', ')'),
        Some('[') => parentheses(reader, '[', ']'),
        Some(c) => format!("<mo>{}</mo>", super::html::escape(&reader.take(c.len_utf8()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_mathml() {
        let formula = inline("\\text{softmax}(\\frac{QK^T}{\\sqrt{d_k}})V");
        assert!(formula.contains("<msup><mi>K</mi><mi>T</mi></msup>"), "{formula}");
        assert!(
            formula.contains("<msqrt><mrow><msub><mi>d</mi><mi>k</mi></msub></mrow></msqrt>"),
            "{formula}"
        );
        let document = roxmltree::Document::parse(&formula).unwrap();
        assert!(document.descendants().any(|node| node.has_tag_name("mfrac")));
    }

    #[test]
    fn parentheses_are_as_high_as_what_is_in_them() {
        let formula = inline("f(x)^2 = g(\\frac{1}{h(x)})");
        let low = "<mo stretchy=\"false\">(</mo><mrow><mi>x</mi></mrow><mo stretchy=\"false\">)</mo>";
        assert!(formula.contains(&format!("<msup><mrow>{low}</mrow><mn>2</mn></msup>")), "{formula}");
        assert_eq!(
            (formula.matches("<mo>(</mo>").count(), formula.matches(low).count()),
            (1, 2),
            "{formula}"
        );
    }

    #[test]
    fn anything_is_well_formed() {
        let odd = [
            "",
            "{",
            "}",
            "\\",
            "\\frac",
            "\\frac{a",
            "x_",
            "^",
            "a<b & c",
            "\\text{",
            "_{_}",
            "\\{1}\\}",
            "(",
            ")",
            "(]",
            "[0, 1)",
            "\\frac{(}{)}",
        ];
        for formula in odd {
            let out = display(formula);
            roxmltree::Document::parse(&out).unwrap_or_else(|error| panic!("{formula}: {error}\n{out}"));
        }
    }
}
