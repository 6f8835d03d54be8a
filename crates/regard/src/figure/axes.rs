//! Axes: what they measure, their round numbers, and the frame of a plot.

use super::drawing::{Anchor, Drawing, Rect, Stroke, Text};
use super::scale::{self, Scale};
use super::text::{self, FontWeight};
use super::theme::Paint;
use super::{number, size};

/// What is measured along one side of a plot.
#[derive(Debug, Clone)]
pub struct Axis {
    label: String,
    log: bool,
    range: Option<(f64, f64)>,
    ticks: Vec<f64>,
    /// What stands at each of the ticks in place of its number, if it has a name.
    names: Vec<String>,
    percent: bool,
    zero: bool,
}

impl Axis {
    /// Equal steps. The label names quantity and unit.
    pub fn linear(label: impl Into<String>) -> Self {
        let (ticks, names) = (Vec::new(), Vec::new());
        Self { label: label.into(), log: false, range: None, ticks, names, percent: false, zero: false }
    }

    /// Equal factors; values that are not positive have no place and are left out.
    pub fn log(label: impl Into<String>) -> Self {
        Self { log: true, ..Self::linear(label) }
    }

    /// The ends (all data in round numbers, by default); what lies beyond is cut off.
    #[must_use]
    pub fn range(mut self, low: f64, high: f64) -> Self {
        let sound = scale::usable(low, self.log) && scale::usable(high, self.log) && low < high;
        self.range = sound.then(|| scale::interval([low, high], self.log));
        self
    }

    /// The marked values (round numbers by default).
    #[must_use]
    pub fn ticks(mut self, ticks: impl IntoIterator<Item = f64>) -> Self {
        self.ticks = ticks.into_iter().filter(|&tick| scale::usable(tick, self.log)).take(100).collect();
        self.ticks.sort_by(f64::total_cmp);
        self
    }

    /// Groups in the place of numbers: the first stands at 1, the second at 2, and so on.
    #[must_use]
    pub fn groups(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.names = names.into_iter().map(Into::into).collect();
        let count = self.names.len();
        self.ticks((1..=count).map(|place| place as f64)).range(0.75, count as f64 + 0.25)
    }

    /// Shows shares as per cent.
    #[must_use]
    pub fn percent(mut self) -> Self {
        self.percent = true;
        self
    }

    /// Begins at zero, also where all values are far from it.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.zero = !self.log;
        self
    }

    pub(crate) fn is_log(&self) -> bool {
        self.log
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Settles the ends and the ticks for the data, about `count` of them. The ends are round numbers.
    pub(crate) fn settle(&self, values: impl IntoIterator<Item = f64>, count: usize) -> Settled {
        let data = self.interval(values);
        if self.range.is_some() || !self.ticks.is_empty() {
            return self.settle_tight([data.0, data.1], count);
        }
        let (ends, ticks) = scale::round_out(data, self.log, count);
        self.settled(ends, ticks)
    }

    /// The same with ends just beyond the data: lines then end where their names stand.
    pub(crate) fn settle_tight(&self, values: impl IntoIterator<Item = f64>, count: usize) -> Settled {
        let chosen = self.ticks.iter().copied();
        let ends = self.range.unwrap_or_else(|| self.padded(self.interval(values.into_iter().chain(chosen))));
        let mut ticks = scale::ticks_within(ends, self.log, count);
        if !self.ticks.is_empty() {
            ticks = self.ticks.iter().copied().filter(|&tick| tick >= ends.0 && tick <= ends.1).collect();
        }
        self.settled(ends, ticks)
    }

    /// The interval of the data, with zero if that is wanted, or the one that was set.
    fn interval(&self, values: impl IntoIterator<Item = f64>) -> (f64, f64) {
        let zero = self.zero.then_some(0.0);
        self.range.unwrap_or_else(|| scale::interval(values.into_iter().chain(zero), self.log))
    }

    fn settled(&self, ends: (f64, f64), ticks: Vec<f64>) -> Settled {
        let named = |tick: &f64| self.names.get((*tick as usize).wrapping_sub(1)).cloned();
        let labels = if !self.names.is_empty() {
            ticks.iter().map(|tick| named(tick).unwrap_or_default()).collect()
        } else if self.log && !self.percent {
            number::log_labels(&ticks)
        } else {
            number::labels(&ticks, self.percent)
        };
        Settled { label: text::visible(&self.label), log: self.log, ends, ticks, labels }
    }

    /// A little room beyond the ends; none below zero.
    fn padded(&self, (low, high): (f64, f64)) -> (f64, f64) {
        if self.log {
            let factor = (high / low).powf(0.03);
            (low / factor, high * factor)
        } else {
            let room = (high - low) * 0.03;
            (if low == 0.0 { 0.0 } else { low - room }, high + room)
        }
    }
}

/// An axis with its ends and ticks.
#[derive(Debug, Clone)]
pub(crate) struct Settled {
    pub label: String,
    pub log: bool,
    pub ends: (f64, f64),
    pub ticks: Vec<f64>,
    pub labels: Vec<String>,
}

impl Settled {
    /// A side that measures nothing.
    pub fn bare() -> Self {
        Self { label: String::new(), log: false, ends: (0.0, 1.0), ticks: Vec::new(), labels: Vec::new() }
    }

    pub fn widest_label(&self) -> f64 {
        text::widest_label(&self.labels)
    }

    /// The width of the last tick's label, half of which reaches beyond the plot.
    pub fn last_label(&self) -> f64 {
        self.labels.last().map_or(0.0, |label| text::label_width(label))
    }

    pub fn scale(&self, from: f64, to: f64) -> Scale {
        Scale::new(self.log, self.ends, (from, to))
    }
}

/// The room around a plot for what is not axes: end labels, legends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Margins {
    pub top: f64,
    pub right: f64,
}

/// The room above a plot for the label of its upright axis.
pub(crate) fn room_above(label: &str) -> f64 {
    if label.is_empty() { 8.0 } else { 28.0 }
}

/// A plot with two axes.
pub(crate) struct Frame {
    pub plot: Rect,
    pub x: Scale,
    pub y: Scale,
    x_axis: Settled,
    y_axis: Settled,
}

impl Frame {
    /// Divides an area of the given size among plot, labels and margins.
    pub fn new(x_axis: Settled, y_axis: Settled, (width, height): (f64, f64), margins: Margins) -> Self {
        // The first and the last tick's labels are centred at the plot's edges.
        let first_label = x_axis.labels.first().map_or(0.0, |label| text::label_width(label));
        let left = (y_axis.widest_label() + 8.0).max(first_label / 2.0);
        let top = margins.top + room_above(&y_axis.label);
        let bottom = if x_axis.label.is_empty() { 22.0 } else { 42.0 };
        let right = margins.right.max(x_axis.last_label() / 2.0 + 2.0);
        let plot = Rect::new(left, top, (width - left - right).max(60.0), (height - top - bottom).max(60.0));
        Self::around(plot, x_axis, y_axis)
    }

    /// Axes around a plot whose place is known.
    pub fn around(plot: Rect, x_axis: Settled, y_axis: Settled) -> Self {
        let (x, y) = (x_axis.scale(plot.x, plot.right()), y_axis.scale(plot.bottom(), plot.y));
        Self { plot, x, y, x_axis, y_axis }
    }

    pub fn at(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        Some((self.x.at(x)?, self.y.at(y)?))
    }

    /// Draws the grid, the ticks and the labels. The label of the upright axis lies level above it, where it is read
    /// without turning the head.
    pub fn draw(&self, drawing: &mut Drawing, vertical_grid: bool) {
        drawing.plot = self.plot;
        self.draw_y(drawing);
        self.draw_x(drawing, vertical_grid);
    }

    fn draw_y(&self, drawing: &mut Drawing) {
        let plot = self.plot;
        let mut last = f64::INFINITY;
        for (&tick, label) in self.y_axis.ticks.iter().zip(&self.y_axis.labels) {
            let Some(y) = self.y.at(tick) else { continue };
            drawing.line((plot.x, y), (plot.right(), y), Stroke::new(Paint::Grid, 1.0));
            if last - y >= size::TICK * 1.15 {
                drawing.text(
                    Text::at(label, plot.x - 8.0, y, size::TICK).anchor(Anchor::End).paint(Paint::Muted),
                );
                last = y;
            }
        }
        let limit = drawing.width - 2.0;
        let label = text::shorten(&self.y_axis.label, size::LABEL, FontWeight::Regular, limit);
        drawing.text(Text::at(&label, 0.0, 6.0, size::LABEL).paint(Paint::Muted));
    }

    fn draw_x(&self, drawing: &mut Drawing, grid: bool) {
        let plot = self.plot;
        let mut last = f64::NEG_INFINITY;
        for (&tick, label) in self.x_axis.ticks.iter().zip(&self.x_axis.labels) {
            let Some(x) = self.x.at(tick) else { continue };
            if grid {
                drawing.line((x, plot.y), (x, plot.bottom()), Stroke::new(Paint::Grid, 1.0));
            }
            drawing.line((x, plot.bottom()), (x, plot.bottom() + 4.0), Stroke::new(Paint::Rule, 1.0));
            let half = text::label_width(label) / 2.0;
            if x - half >= last + 6.0 && x - half >= 0.0 {
                let text = Text::at(label, x, plot.bottom() + 13.0, size::TICK).anchor(Anchor::Middle);
                drawing.text(text.paint(Paint::Muted));
                last = x + half;
            }
        }
        if self.x_axis.log {
            self.draw_minor(drawing);
        }
        let from = (plot.x, plot.bottom());
        drawing.line(from, (plot.right(), plot.bottom()), Stroke::new(Paint::Rule, 1.0));
        let limit = drawing.width - 4.0;
        let label = text::shorten(&self.x_axis.label, size::LABEL, FontWeight::Regular, limit);
        // Centred below the plot, but never beyond the drawing's edges.
        let half = text::width(&label, size::LABEL, FontWeight::Regular) / 2.0;
        let x = (plot.x + plot.width / 2.0).min(drawing.width - half).max(half);
        let text = Text::at(&label, x, plot.bottom() + 34.0, size::LABEL).anchor(Anchor::Middle);
        drawing.text(text.paint(Paint::Muted));
    }

    /// Short marks at 2, 3, … 9 in each decade, while there are few decades.
    fn draw_minor(&self, drawing: &mut Drawing) {
        let (first, last) =
            (self.x_axis.ends.0.log10().floor() as i32, self.x_axis.ends.1.log10().ceil() as i32);
        if last - first > 5 {
            return;
        }
        for power in first..last {
            for value in (2..10).map(|digit| f64::from(digit) * 10_f64.powi(power)) {
                if let Some(x) = self.x.at(value).filter(|_| self.x.contains(value)) {
                    let from = (x, self.plot.bottom());
                    drawing.line(from, (x, self.plot.bottom() + 2.5), Stroke::new(Paint::Rule, 0.7));
                }
            }
        }
    }
}
