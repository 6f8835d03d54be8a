//! A diagram: boxes, arrows, small tables of numbers and vectors, placed by hand in the style of all other pictures.
//!
//! Labels may have subscripts: `W_Q` or `W_{out}`.

use super::drawing::{Anchor, Drawing, Rect, Stroke, Text};
use super::text::{self, FontWeight, HALF_CAPITAL};
use super::theme::Paint;
use super::{Panel, size};

/// How large a subscript is, and how far below the line it stands, as a share of the size of type.
const SUBSCRIPT: (f64, f64) = (0.72, 0.28);
/// The length of an arrow's head.
const HEAD: f64 = 7.0;
/// How far a corner of an arrow is rounded.
const CORNER: f64 = 7.0;

/// How a box looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// An outline.
    Plain,
    /// Filled with a tint of a class's colour.
    Tinted(usize),
    /// An outline of dashes.
    Dashed,
}

/// A drawing that grows by boxes, arrows and labels.
#[derive(Debug, Clone)]
pub struct Diagram {
    drawing: Drawing,
    description: String,
}

impl Diagram {
    /// An empty one of a size. The description is what it shows, for those who cannot see it.
    pub fn new(width: f64, height: f64, description: impl Into<String>) -> Self {
        Self { drawing: Drawing::new(width, height), description: description.into() }
    }

    /// A box with lines of text in its middle.
    pub fn node(&mut self, rect: Rect, label: &str, look: Look) -> Rect {
        let (fill, opacity) = match look {
            Look::Tinted(class) => (Some(Paint::Class(class)), 0.16),
            Look::Plain | Look::Dashed => (Some(Paint::Paper), 1.0),
        };
        let stroke = match look {
            Look::Tinted(class) => Stroke::new(Paint::Class(class), 1.2),
            Look::Plain => Stroke::new(Paint::Rule, 1.0),
            Look::Dashed => Stroke::new(Paint::Rule, 1.0).dashed(&[4.0, 3.0]),
        };
        self.drawing.push_rect(rect, 6.0, fill, Some(stroke), opacity, None);
        let (x, y) = rect.centre();
        let lines: Vec<&str> = label.split('\n').collect();
        for (index, line) in lines.iter().enumerate() {
            let offset = (index as f64 - (lines.len() as f64 - 1.0) / 2.0) * 1.3 * size::BODY;
            self.write(line, (x, y + offset), size::BODY, Anchor::Middle, Paint::Ink);
        }
        rect
    }

    /// A frame behind what is drawn later, with a title in its upper left corner.
    pub fn frame(&mut self, rect: Rect, title: &str) {
        let stroke = Stroke::new(Paint::Rule, 1.0).dashed(&[4.0, 3.0]);
        self.drawing.push_rect(rect, 10.0, None, Some(stroke), 1.0, None);
        self.write(title, (rect.x + 10.0, rect.y + 14.0), size::LABEL, Anchor::Start, Paint::Muted);
    }

    /// A line of text at a point.
    pub fn label(&mut self, content: &str, at: (f64, f64), anchor: Anchor) {
        self.write(content, at, size::BODY, anchor, Paint::Ink);
    }

    /// A line of smaller text that comes second.
    pub fn note(&mut self, content: &str, at: (f64, f64), anchor: Anchor) {
        self.write(content, at, size::LABEL, anchor, Paint::Muted);
    }

    /// A line of text in the colour of a class.
    pub fn coloured(&mut self, content: &str, at: (f64, f64), anchor: Anchor, class: usize) {
        self.write(content, at, size::BODY, anchor, Paint::Class(class));
    }

    /// A heading.
    pub fn heading(&mut self, content: &str, at: (f64, f64), anchor: Anchor) {
        let heading =
            Text::at(content, at.0, at.1, size::HEADING).anchor(anchor).weight(FontWeight::Semibold);
        self.drawing.text(heading);
    }

    /// An arrow along some points; its corners are rounded.
    pub fn arrow(&mut self, points: &[(f64, f64)]) {
        self.arrow_in(points, Paint::Muted, 1.4);
    }

    /// An arrow in the colour of a class.
    pub fn coloured_arrow(&mut self, points: &[(f64, f64)], class: usize) {
        self.arrow_in(points, Paint::Class(class), 2.0);
    }

    /// A line without a head.
    pub fn line(&mut self, points: &[(f64, f64)]) {
        self.drawing.lines(vec![rounded(points)], Stroke::new(Paint::Muted, 1.4));
    }

    /// A fine line of dashes: an axis, an arc.
    pub fn guide(&mut self, points: &[(f64, f64)]) {
        self.drawing.lines(vec![points.to_vec()], Stroke::new(Paint::Rule, 0.9).dashed(&[3.0, 3.0]));
    }

    /// A sign in a circle, such as + where two things are added.
    pub fn sign(&mut self, sign: &str, at: (f64, f64)) {
        self.drawing.circle(at, 10.0, Some(Paint::Paper), Some(Stroke::new(Paint::Muted, 1.2)), None);
        self.write(sign, at, size::BODY, Anchor::Middle, Paint::Ink);
    }

    /// A table of numbers with its name above and words before its rows. Returns the rectangle of its cells.
    pub fn matrix(&mut self, (x, y): (f64, f64), table: &NumberTable) -> Rect {
        let rows = table.cells.len();
        let columns = table.cells.iter().map(Vec::len).max().unwrap_or(0);
        let plot = Rect::new(x, y, columns as f64 * table.cell.0, rows as f64 * table.cell.1);
        for (r, row) in table.cells.iter().enumerate() {
            for (c, cell) in row.iter().enumerate() {
                let place = Rect::new(
                    x + c as f64 * table.cell.0,
                    y + r as f64 * table.cell.1,
                    table.cell.0,
                    table.cell.1,
                );
                let (fill, opacity) = match (table.look, cell.level) {
                    (_, Some(level)) => (Paint::Sequential(level), 1.0),
                    (Look::Tinted(class), None) => (Paint::Class(class), 0.16),
                    _ => (Paint::Paper, 1.0),
                };
                let stroke = Some(Stroke::new(Paint::Paper, 1.0));
                self.drawing.push_rect(place, 0.0, Some(fill), stroke, opacity, None);
                let ink = cell.level.map_or(Paint::Ink, |level| Paint::Sequential(level).ink());
                self.write(&cell.text, place.centre(), size::LABEL, Anchor::Middle, ink);
            }
        }
        self.drawing.outline(plot.grown(0.5), Stroke::new(Paint::Rule, 1.0));
        for (r, word) in table.words.iter().enumerate() {
            let at = (x - 8.0, y + (r as f64 + 0.5) * table.cell.1);
            self.write(word, at, size::LABEL, Anchor::End, Paint::Muted);
        }
        self.write(&table.name, (x + plot.width / 2.0, y - 11.0), size::BODY, Anchor::Middle, Paint::Ink);
        plot
    }

    fn arrow_in(&mut self, points: &[(f64, f64)], paint: Paint, width: f64) {
        let [.., before, end] = *points else { return };
        let (dx, dy) = (end.0 - before.0, end.1 - before.1);
        let length = dx.hypot(dy);
        if length < 1e-9 {
            return;
        }
        let (ux, uy) = (dx / length, dy / length);
        // The line ends inside the head, so that its square end does not show beyond the tip.
        let mut shaft = points.to_vec();
        if let Some(last) = shaft.last_mut() {
            *last = (end.0 - ux * HEAD * 0.8, end.1 - uy * HEAD * 0.8);
        }
        self.drawing.lines(vec![rounded(&shaft)], Stroke::new(paint, width));
        let half = 0.45 * HEAD;
        let back = (end.0 - ux * HEAD, end.1 - uy * HEAD);
        let head =
            vec![end, (back.0 - uy * half, back.1 + ux * half), (back.0 + uy * half, back.1 - ux * half)];
        self.drawing.push_path(vec![head], true, Some((paint, 1.0)), None, None);
    }

    /// Text with subscripts.
    fn write(&mut self, content: &str, (x, y): (f64, f64), size: f64, anchor: Anchor, paint: Paint) {
        let runs: Vec<(String, f64, f64)> = runs(content)
            .into_iter()
            .map(|(run, below)| {
                // A space at the end of a text would be dropped by browsers.
                let run = run.replace(' ', "\u{a0}");
                let size = if below { size * SUBSCRIPT.0 } else { size };
                let width = text::width(&run, size, FontWeight::Regular);
                (run, size, width)
            })
            .collect();
        let total: f64 = runs.iter().map(|run| run.2).sum();
        let mut left = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - total / 2.0,
            Anchor::End => x - total,
        };
        for (run, run_size, width) in runs {
            // The same baseline for all, moved down for subscripts.
            let base = y + HALF_CAPITAL * (size - run_size);
            let down = if run_size < size { SUBSCRIPT.1 * size } else { 0.0 };
            self.drawing.text(Text::at(&run, left, base + down, run_size).paint(paint));
            left += width;
        }
    }
}

impl Panel for Diagram {
    fn draw(&self) -> Drawing {
        self.drawing.clone()
    }

    fn describe(&self) -> String {
        self.description.clone()
    }
}

/// A small table of numbers in a diagram.
#[derive(Debug, Clone)]
pub struct NumberTable {
    name: String,
    words: Vec<String>,
    cells: Vec<Vec<Cell>>,
    cell: (f64, f64),
    look: Look,
}

#[derive(Debug, Clone)]
struct Cell {
    text: String,
    level: Option<u8>,
}

impl NumberTable {
    /// A table of texts.
    pub fn new(name: impl Into<String>, rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        let row = |row: Vec<String>| row.into_iter().map(|text| Cell { text, level: None }).collect();
        let cells = rows.into_iter().map(row).collect();
        Self { name: name.into(), words: Vec::new(), cells, cell: (38.0, 24.0), look: Look::Plain }
    }

    /// Words before its rows.
    #[must_use]
    pub fn words<'a>(mut self, words: impl IntoIterator<Item = &'a str>) -> Self {
        self.words = words.into_iter().map(str::to_owned).collect();
        self
    }

    /// The size of a cell.
    #[must_use]
    pub fn cell(mut self, width: f64, height: f64) -> Self {
        self.cell = (width, height);
        self
    }

    /// How the cells look.
    #[must_use]
    pub fn look(mut self, look: Look) -> Self {
        self.look = look;
        self
    }

    /// Colours the cells by shares from 0 to 1, as heat maps do.
    #[must_use]
    pub fn shares(mut self, shares: &[f32]) -> Self {
        for (cell, share) in self.cells.iter_mut().flatten().zip(shares) {
            cell.level = Some((share.clamp(0.0, 1.0) * f32::from(super::LEVELS)).round() as u8);
        }
        self
    }
}

/// The text in pieces, each with whether it is a subscript.
fn runs(content: &str) -> Vec<(String, bool)> {
    let mut runs = Vec::new();
    let mut rest = content;
    while let Some((before, after)) = rest.split_once('_') {
        let (below, after) = match after.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
            Some(split) => split,
            None => after.split_at(after.chars().next().map_or(0, char::len_utf8)),
        };
        runs.push((before.to_owned(), false));
        runs.push((below.to_owned(), true));
        rest = after;
    }
    runs.push((rest.to_owned(), false));
    runs.retain(|(run, _)| !run.is_empty());
    runs
}

/// A line whose corners are cut short in two steps, which reads as a curve.
fn rounded(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut line = Vec::with_capacity(points.len() * 4);
    for (index, &here) in points.iter().enumerate() {
        let neighbours =
            index.checked_sub(1).and_then(|before| Some((points[before], *points.get(index + 1)?)));
        let Some((before, after)) = neighbours else {
            line.push(here);
            continue;
        };
        let towards = |other: (f64, f64)| {
            let (dx, dy) = (other.0 - here.0, other.1 - here.1);
            let length = dx.hypot(dy).max(1e-9);
            let step = CORNER.min(length / 2.0) / length;
            (here.0 + dx * step, here.1 + dy * step)
        };
        let (from, to) = (towards(before), towards(after));
        for step in 0..=4 {
            // A quadratic curve from one side of the corner to the other.
            let t = f64::from(step) / 4.0;
            let mix = |a: f64, b: f64, c: f64| (1.0 - t).powi(2) * a + 2.0 * t * (1.0 - t) * b + t * t * c;
            line.push((mix(from.0, here.0, to.0), mix(from.1, here.1, to.1)));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscripts_are_runs_of_their_own() {
        let pieces = |text: &str| {
            runs(text)
                .into_iter()
                .map(|(run, below)| if below { format!("[{run}]") } else { run })
                .collect::<String>()
        };
        assert_eq!(pieces("x·W_Q"), "x·W[Q]");
        assert_eq!(pieces("W_{out} and d_k"), "W[out] and d[k]");
        assert_eq!(pieces("plain"), "plain");
        assert_eq!(pieces("odd_"), "odd");
    }

    #[test]
    fn what_is_drawn_stays_within_the_diagram() {
        let mut diagram = Diagram::new(120.0, 80.0, "two boxes");
        let from = diagram.node(Rect::new(5.0, 5.0, 50.0, 24.0), "x", Look::Plain);
        diagram.arrow(&[(from.right(), 17.0), (90.0, 17.0), (90.0, 50.0)]);
        let drawing = diagram.draw();
        let inside = |text: &Text| {
            let bounds = text.bounds();
            bounds.x >= 0.0 && bounds.right() <= 120.0 && bounds.y >= 0.0 && bounds.bottom() <= 80.0
        };
        assert!(drawing.texts().all(inside));
        assert_eq!(drawing.marks.len(), 4, "a box, its label, a line and its head");
    }
}
