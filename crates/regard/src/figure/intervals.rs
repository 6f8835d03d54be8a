//! Effects with their intervals, one a line (a forest plot).

use super::axes::{Axis, Frame, Settled};
use super::drawing::{Anchor, Drawing, Rect, Stroke, Text};
use super::legend::{self, Key, LegendEntry};
use super::text;
use super::theme::Paint;
use super::{Panel, marker, number, size};

const LINE: f64 = 24.0;
const MOST_LINES: usize = 300;

/// The verdict on a claim; each has its colour and its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictStyle {
    /// The data support it.
    Holds,
    /// The data speak against it.
    Fails,
    /// The data do not decide.
    Undecided,
}

impl VerdictStyle {
    const ALL: [VerdictStyle; 3] = [VerdictStyle::Holds, VerdictStyle::Fails, VerdictStyle::Undecided];

    fn class(self) -> usize {
        match self {
            VerdictStyle::Holds => 0,
            VerdictStyle::Fails => 1,
            VerdictStyle::Undecided => 5,
        }
    }

    fn name(self) -> &'static str {
        match self {
            VerdictStyle::Holds => "holds",
            VerdictStyle::Fails => "fails",
            VerdictStyle::Undecided => "undecided",
        }
    }
}

/// One line: a name, an effect and its interval.
#[derive(Debug, Clone)]
pub struct IntervalRow {
    label: String,
    value: f64,
    ends: (f64, f64),
    published: Option<f64>,
    verdict: Option<VerdictStyle>,
}

impl IntervalRow {
    /// An effect with its interval. One that is not finite is "not measured".
    pub fn new(label: impl Into<String>, value: f64, low: f64, high: f64) -> Self {
        Self { label: label.into(), value, ends: (low, high), published: None, verdict: None }
    }

    /// The published value, marked by a small upright bar.
    #[must_use]
    pub fn published(mut self, value: f64) -> Self {
        self.published = Some(value);
        self
    }

    /// How it came out.
    #[must_use]
    pub fn verdict(mut self, verdict: VerdictStyle) -> Self {
        self.verdict = Some(verdict);
        self
    }

    fn class(&self) -> usize {
        self.verdict.map_or(0, VerdictStyle::class)
    }

    /// The numbers, for the column at the right.
    fn numbers(&self) -> String {
        if !self.value.is_finite() {
            return "not measured".into();
        }
        if !(self.ends.0.is_finite() && self.ends.1.is_finite()) {
            return number::number(self.value);
        }
        // As many decimals as the interval's width makes sensible.
        let width = (self.ends.1 - self.ends.0).abs();
        let decimals = if width > 0.0 { (1.0 - width.log10().floor()).clamp(0.0, 5.0) as usize } else { 3 };
        let show = |value: f64| number::fixed(value, decimals);
        format!("{} [{}, {}]", show(self.value), show(self.ends.0), show(self.ends.1))
    }
}

/// Effects and intervals below each other on one axis.
#[derive(Debug, Clone)]
pub struct Intervals {
    axis: Axis,
    lines: Vec<IntervalRow>,
    reference: Option<f64>,
    width: f64,
}

impl Intervals {
    /// A plot without lines.
    pub fn new(axis: Axis) -> Self {
        Self { axis, lines: Vec::new(), reference: None, width: 720.0 }
    }

    /// Adds a line.
    #[must_use]
    pub fn line(mut self, line: IntervalRow) -> Self {
        if self.lines.len() < MOST_LINES {
            self.lines.push(line);
        }
        self
    }

    /// An upright line at the value of no effect.
    #[must_use]
    pub fn reference(mut self, value: f64) -> Self {
        self.reference = Some(value);
        self
    }

    /// The width of the panel with all its labels.
    #[must_use]
    pub fn width(mut self, width: f64) -> Self {
        self.width = width.clamp(300.0, 2000.0);
        self
    }

    fn legend(&self) -> Drawing {
        let met = VerdictStyle::ALL
            .into_iter()
            .filter(|verdict| self.lines.iter().any(|line| line.verdict == Some(*verdict)));
        let mut entries: Vec<LegendEntry> =
            met.map(|verdict| LegendEntry::new(verdict.name(), Key::Marker(verdict.class()))).collect();
        if self.lines.iter().any(|line| line.published.is_some()) {
            entries.push(LegendEntry::new("published", Key::Bar));
        }
        legend::above(&entries, self.width)
    }

    fn draw_line(drawing: &mut Drawing, frame: &Frame, line: &IntervalRow, y: f64) {
        let (plot, class) = (frame.plot, line.class());
        if let Some(x) = line.published.and_then(|value| frame.x.inside(value)) {
            drawing.line((x, y - 7.0), (x, y + 7.0), Stroke::new(Paint::Ink, 2.0));
        }
        let Some(x) = frame.x.inside(line.value) else { return };
        let end = |value: f64, border: f64| frame.x.inside(value).unwrap_or(border);
        if line.ends.0.is_finite() && line.ends.1.is_finite() {
            let (low, high) = (end(line.ends.0, plot.x), end(line.ends.1, plot.right()));
            drawing.line((low, y), (high, y), Stroke::new(Paint::Class(class), 2.0));
        }
        let tip = format!("{}: {}", line.label, line.numbers());
        marker::draw(drawing, class, (x, y), 4.4, Some(tip));
    }
}

impl Panel for Intervals {
    fn draw(&self) -> Drawing {
        let legend = self.legend();
        let height = legend.height + LINE * self.lines.len() as f64 + 46.0;
        let labels: Vec<String> =
            self.lines.iter().map(|line| text::short_label(&line.label, 300.0)).collect();
        let numbers: Vec<String> = self.lines.iter().map(IntervalRow::numbers).collect();
        let (left, right) = (text::widest_label(&labels) + 14.0, text::widest_label(&numbers) + 16.0);
        let width = self.width.max(left + right + 160.0);
        let lines = || self.lines.iter().filter(|line| line.value.is_finite());
        let ends = lines().flat_map(|line| [line.ends.0, line.ends.1]);
        let published = self.lines.iter().filter_map(|line| line.published);
        let values = lines().map(|line| line.value).chain(ends).chain(published).chain(self.reference);
        let x_axis = self.axis.settle(values, ((width - left - right) / 80.0) as usize);
        let plot = Rect::new(left, legend.height, width - left - right, LINE * self.lines.len() as f64 + 4.0);
        let frame = Frame::around(plot, x_axis, Settled::bare());

        let mut drawing = Drawing::new(width, height);
        frame.draw(&mut drawing, true);
        if let Some(x) = self.reference.and_then(|value| frame.x.inside(value)) {
            drawing.line((x, plot.y), (x, plot.bottom()), Stroke::new(Paint::Muted, 1.0).dashed(&[4.0, 3.0]));
        }
        for (index, ((line, label), numbers)) in self.lines.iter().zip(&labels).zip(&numbers).enumerate() {
            let y = plot.y + LINE * (index as f64 + 0.5) + 2.0;
            Self::draw_line(&mut drawing, &frame, line, y);
            drawing.text(Text::at(label, plot.x - 14.0, y, size::TICK).anchor(Anchor::End));
            drawing.text(Text::at(numbers, width, y, size::TICK).anchor(Anchor::End).paint(Paint::Muted));
        }
        drawing.place(legend, 0.0, 0.0);
        drawing
    }

    fn describe(&self) -> String {
        let lines: Vec<String> =
            self.lines.iter().take(40).map(|line| format!("{}: {}", line.label, line.numbers())).collect();
        format!("Effects with intervals, {}. {}.", self.axis.label(), lines.join("; "))
    }
}
