//! Formulas as HTML and CSS (`web/formula.css`): a little TeX in, spans out. Letters come from the page's own font; roots, tall
//! brackets and bars are drawn. MathML would be shorter, but without an installed mathematical font browsers lose its roots and
//! parentheses.
//!
//! Letters, numbers, signs, `_`, `^`, `{…}`, `\frac{a}{b}`, `\sqrt{x}`, `\hat{x}`, `\text{words}`, `\matrix{a & b \\ c & d}`, `\{` and
//! `\}` for visible braces; Greek and other signs are written as they are.

use super::html::escape;
use std::collections::BTreeSet;

/// A formula on a line of its own.
pub fn display(formula: &str) -> String {
    // Three spaces or more part two formulas, which may stand below each other where there is no room.
    let parts = formula.split("   ").map(str::trim).filter(|part| !part.is_empty());
    let parts: String = parts.map(|part| format!("<span class=\"piece\">{}</span>", html(part))).collect();
    format!(
        "<span class=\"math display\" role=\"math\" aria-label=\"{}\">{parts}</span>",
        escape(&spoken(formula))
    )
}

/// A formula within a line.
pub fn inline(formula: &str) -> String {
    let spoken = escape(&spoken(formula));
    format!("<span class=\"math\" role=\"math\" aria-label=\"{spoken}\">{}</span>", html(formula))
}

/// The letters that stand for something: variables with their subscripts left out, in order of the alphabet.
pub fn symbols(formula: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(&parse(formula), &mut found);
    found
}

/// A part of a formula.
enum Piece {
    Letter(char),
    Number(String),
    Sign(char),
    Words(String),
    Group(Vec<Piece>),
    Bracket(char, Vec<Piece>, Option<char>),
    Scripts { base: Box<Piece>, below: Option<Box<Piece>>, above: Option<Box<Piece>> },
    Fraction(Vec<Piece>, Vec<Piece>),
    Root(Vec<Piece>),
    Hat(Vec<Piece>),
    Matrix(Vec<Vec<Vec<Piece>>>),
}

fn html(formula: &str) -> String {
    row(&parse(formula))
}

/// What a screen reader says: the source without its marks.
fn spoken(formula: &str) -> String {
    let words = formula.replace("\\frac", "fraction ").replace("\\sqrt", "root of ").replace("\\\\", "; ");
    let words = words.replace("\\text", "").replace("\\matrix", "matrix ").replace("\\hat", "hat ");
    words.replace(['{', '}', '\\'], " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn collect(pieces: &[Piece], found: &mut BTreeSet<String>) {
    for piece in pieces {
        match piece {
            Piece::Letter(letter) => {
                found.insert(letter.to_string());
            }
            Piece::Number(_) | Piece::Sign(_) | Piece::Words(_) => {}
            Piece::Group(inside)
            | Piece::Root(inside)
            | Piece::Hat(inside)
            | Piece::Bracket(_, inside, _) => {
                collect(inside, found);
            }
            Piece::Fraction(above, below) => {
                collect(above, found);
                collect(below, found);
            }
            Piece::Matrix(rows) => rows.iter().flatten().for_each(|cell| collect(cell, found)),
            Piece::Scripts { base, below, above } => {
                collect(std::slice::from_ref(base), found);
                // A subscript is part of a name (W_Q) unless the sign is a sum; an exponent is a value, but T transposes.
                let sum = matches!(**base, Piece::Sign('∑'));
                if let (Some(below), true) = (below, sum) {
                    collect(std::slice::from_ref(below), found);
                }
                if let Some(above) = above.as_ref().filter(|above| !matches!(***above, Piece::Letter('T'))) {
                    collect(std::slice::from_ref(above), found);
                }
            }
        }
    }
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

fn parse(formula: &str) -> Vec<Piece> {
    pieces(&mut Reader { rest: formula }, None)
}

/// Everything before an end, or all there is.
fn pieces(reader: &mut Reader, end: Option<char>) -> Vec<Piece> {
    let mut all = Vec::new();
    while let Some(next) = reader.peek() {
        if Some(next) == end {
            break;
        }
        match next {
            ' ' => drop(reader.take_while(|c| c == ' ')),
            _ => {
                let base = atom(reader);
                all.push(scripts(reader, base));
            }
        }
    }
    all
}

/// A base with what stands below and above it.
fn scripts(reader: &mut Reader, base: Piece) -> Piece {
    let (mut below, mut above) = (None, None);
    loop {
        let place = match reader.peek() {
            Some('_') if below.is_none() => &mut below,
            Some('^') if above.is_none() => &mut above,
            _ => break,
        };
        reader.take(1);
        *place = Some(Box::new(atom(reader)));
    }
    match (&below, &above) {
        (None, None) => base,
        _ => Piece::Scripts { base: Box::new(base), below, above },
    }
}

/// The inside of a group in braces, or nothing.
fn group(reader: &mut Reader) -> Vec<Piece> {
    if !reader.skip('{') {
        return Vec::new();
    }
    let inside = pieces(reader, Some('}'));
    reader.skip('}');
    inside
}

/// The source of a group in braces, which may hold others.
fn braced(reader: &mut Reader) -> String {
    reader.skip('{');
    let mut depth = 1;
    let end = reader.rest.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '{') - i32::from(*c == '}');
        depth == 0
    });
    let inside = reader.take(end.map_or(reader.rest.len(), |(at, _)| at));
    reader.skip('}');
    inside
}

/// One letter, number, sign, command or group.
fn atom(reader: &mut Reader) -> Piece {
    match reader.peek() {
        None => Piece::Group(Vec::new()),
        Some('{') => Piece::Group(group(reader)),
        Some('\\') => command(reader),
        Some(c) if c.is_ascii_digit() => {
            // A point or comma belongs to a number only if a digit follows.
            let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            let mut length = digits(reader.rest);
            while let Some(after) =
                reader.rest[length..].strip_prefix(['.', ',']).filter(|after| digits(after) > 0)
            {
                length += 1 + digits(after);
            }
            Piece::Number(reader.take(length))
        }
        Some(c) if c.is_alphabetic() => {
            reader.take(c.len_utf8());
            Piece::Letter(c)
        }
        Some(open @ ('(' | '[')) => {
            let close = if open == '(' { ')' } else { ']' };
            reader.take(1);
            let inside = pieces(reader, Some(close));
            let closed = reader.skip(close);
            Piece::Bracket(open, inside, closed.then_some(close))
        }
        Some(c) => {
            reader.take(c.len_utf8());
            Piece::Sign(c)
        }
    }
}

fn command(reader: &mut Reader) -> Piece {
    reader.take(1);
    if let Some(brace @ ('{' | '}')) = reader.peek() {
        reader.take(1);
        return Piece::Sign(brace);
    }
    match reader.take_while(|c| c.is_ascii_alphabetic()).as_str() {
        "frac" => {
            let above = group(reader);
            Piece::Fraction(above, group(reader))
        }
        "sqrt" => Piece::Root(group(reader)),
        "hat" => Piece::Hat(group(reader)),
        "matrix" => {
            let inside = braced(reader);
            let cells = |line: &str| line.split('&').map(|cell| parse(cell.trim())).collect();
            Piece::Matrix(inside.split("\\\\").map(cells).collect())
        }
        "text" => {
            reader.skip('{');
            let words = reader.take_while(|c| c != '}');
            reader.skip('}');
            Piece::Words(words)
        }
        name => Piece::Words(name.to_owned()),
    }
}

fn row(pieces: &[Piece]) -> String {
    let one = |(index, piece): (usize, &Piece)| {
        let before = index.checked_sub(1).map(|before| &pieces[before]);
        match piece {
            // A sign between two things has room on both sides; one in front of a thing, as in −x, does not.
            Piece::Sign('−' | '+') if before.is_none_or(|before| matches!(before, Piece::Sign(_))) => {
                single(piece)
            }
            Piece::Sign(sign) if "=≈+−←→<>≤≥|".contains(*sign) => {
                format!("<span class=\"wide\">{}</span>", single(piece))
            }
            Piece::Sign(',' | ';' | ':') => format!("<span class=\"comma\">{}</span>", single(piece)),
            Piece::Sign('·') => "<span class=\"dot\">·</span>".to_owned(),
            other => single(other),
        }
    };
    pieces.iter().enumerate().map(one).collect()
}

/// Whether a piece is taller than a line.
fn tall(pieces: &[Piece]) -> bool {
    pieces.iter().any(|piece| match piece {
        Piece::Fraction(..) | Piece::Matrix(_) => true,
        Piece::Group(inside) | Piece::Root(inside) | Piece::Hat(inside) | Piece::Bracket(_, inside, _) => {
            tall(inside)
        }
        Piece::Scripts { base, .. } => matches!(**base, Piece::Sign('∑')) || tall(std::slice::from_ref(base)),
        _ => false,
    })
}

fn single(piece: &Piece) -> String {
    match piece {
        Piece::Letter(letter) => format!("<i>{letter}</i>"),
        Piece::Number(number) => number.clone(),
        Piece::Sign('∑') => "<span class=\"sum\">∑</span>".to_owned(),
        Piece::Sign(sign) => escape(&sign.to_string()),
        Piece::Words(words) => format!("<span class=\"words\">{}</span>", escape(words)),
        Piece::Group(inside) => row(inside),
        Piece::Bracket(open, inside, close) => {
            let (inner, high) = (row(inside), tall(inside));
            let close = close.map(|close| bracket(close, high)).unwrap_or_default();
            let body = format!("{}{inner}{close}", bracket(*open, high));
            if high { format!("<span class=\"tall\">{body}</span>") } else { body }
        }
        Piece::Scripts { base, below, above } => with_scripts(base, below.as_deref(), above.as_deref()),
        Piece::Fraction(above, below) => {
            format!("<span class=\"frac\"><span>{}</span><span>{}</span></span>", row(above), row(below))
        }
        Piece::Root(inside) => format!("<span class=\"root\">{ROOT}<span>{}</span></span>", row(inside)),
        Piece::Hat(inside) => format!("<span class=\"hat\">{}</span>", row(inside)),
        Piece::Matrix(rows) => {
            let cells = |row_of: &Vec<Vec<Piece>>| -> String {
                row_of.iter().map(|cell| format!("<span>{}</span>", row(cell))).collect()
            };
            let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
            let body: String = rows.iter().map(cells).collect();
            format!(
                "<span class=\"tall\">{}<span class=\"matrix\" style=\"--columns:{columns}\">{body}</span>{}</span>",
                bracket('(', true),
                bracket(')', true)
            )
        }
    }
}

fn with_scripts(base: &Piece, below: Option<&Piece>, above: Option<&Piece>) -> String {
    let small = |piece: Option<&Piece>| piece.map(single).unwrap_or_default();
    let (below, above) = (small(below), small(above));
    if matches!(base, Piece::Sign('∑')) {
        // What a sum runs over stands below and above it; both rows are there, so that its middle is on the line.
        return format!(
            "<span class=\"limits\"><span>{above}</span><span class=\"sum\">∑</span><span>{below}</span></span>"
        );
    }
    let base = single(base);
    match (below.is_empty(), above.is_empty()) {
        (false, false) => {
            format!("{base}<span class=\"both\"><span>{above}</span><span>{below}</span></span>")
        }
        (false, true) => format!("{base}<sub>{below}</sub>"),
        _ => format!("{base}<sup>{above}</sup>"),
    }
}

/// A bracket as high as what stands beside it, or a letter.
fn bracket(sign: char, high: bool) -> String {
    let path = match sign {
        '(' => "M5 .5Q.6 10 5 19.5",
        ')' => "M1 .5Q5.4 10 1 19.5",
        '[' => "M5 .7H1.5V19.3H5",
        _ => "M1 .7H4.5V19.3H1",
    };
    match high {
        false => sign.to_string(),
        true => format!(
            "<svg class=\"bracket\" viewBox=\"0 0 6 20\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><path d=\"{path}\"/></svg>"
        ),
    }
}

const ROOT: &str = "<svg viewBox=\"0 0 10 20\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><path d=\"M.5 12.5L3 11.2L6 19.4L10 .6\"/></svg>";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(formula: &str) -> String {
        let out = display(formula);
        roxmltree::Document::parse(&out).unwrap_or_else(|error| panic!("{formula}: {error}\n{out}"));
        out
    }

    #[test]
    fn formulas_become_spans() {
        let formula = parsed("\\text{softmax}(\\frac{QK^T}{\\sqrt{d_k}})V");
        assert!(formula.contains("<i>K</i><sup><i>T</i></sup>"), "{formula}");
        assert!(formula.contains("<span><i>d</i><sub><i>k</i></sub></span></span></span>"), "{formula}");
        assert_eq!(formula.matches("class=\"bracket\"").count(), 2, "as high as the fraction: {formula}");
    }

    #[test]
    fn brackets_are_as_high_as_what_is_in_them() {
        let formula = parsed("f(x)^2 = g(\\frac{1}{h(x)})");
        assert!(formula.contains("<i>f</i>(<i>x</i>)<sup>2</sup>"), "{formula}");
        assert_eq!(formula.matches("class=\"bracket\"").count(), 2, "{formula}");
    }

    #[test]
    fn a_matrix_has_its_cells() {
        let formula = parsed("\\matrix{1 & \\text{cos }t \\\\ −2 & 3.5}");
        assert!(formula.contains("--columns:2") && formula.contains("cos </span><i>t</i>"), "{formula}");
        for cell in ["<span>1</span>", "<span>3.5</span>", "−"] {
            assert!(formula.contains(cell), "{formula}");
        }
    }

    #[test]
    fn letters_are_listed_without_subscripts() {
        let names = |formula: &str| symbols(formula).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(names("Q = x·W_Q,   s_{ij} = \\frac{q_i·k_j}{\\sqrt{d}}"), "Q W d k q s x");
        assert_eq!(names("\\text{softmax}(K^T e^{−β})"), "K e β");
        assert_eq!(names("∑_{j=1}^{n} a_{ij}"), "a j n");
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
            "\\matrix{",
            "\\matrix{&&\\\\}",
            "1,",
            "3.",
        ];
        for formula in odd {
            parsed(formula);
        }
    }
}
