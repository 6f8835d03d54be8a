//! The words or numbers along the sides of a heat map.

use super::drawing::{Anchor, Drawing, Rect, Text};
use super::theme::Paint;
use super::{number, scale, size, text};

/// The longest word on an axis, in pixels.
const LONGEST_WORD: f64 = 110.0;

/// What stands along one side.
#[derive(Debug, Clone)]
pub(crate) enum Labels {
    Words(Vec<String>),
    /// The first row's (or column's) number and the step to the next.
    Numbers {
        first: f64,
        step: f64,
    },
}

impl Labels {
    /// Words are part of the data, numbers only count.
    pub fn paint(&self) -> Paint {
        if matches!(self, Labels::Words(_)) { Paint::Ink } else { Paint::Muted }
    }

    /// The name of one row or column, for tips and descriptions.
    pub fn name(&self, index: usize) -> String {
        match self {
            Labels::Words(words) => words.get(index).cloned().unwrap_or_default(),
            Labels::Numbers { first, step } => number::number(first + step * index as f64),
        }
    }
}

/// The width of the widest label.
pub(crate) fn widest(labels: &[(String, f64)]) -> f64 {
    labels.iter().map(|(label, _)| text::label_width(label)).fold(0.0, f64::max)
}

/// The labels along a side of `length` pixels that have room, each with the place of its middle (0 to 1). Words are
/// thinned to every n-th; numbers to round ones, `spacing` pixels apart.
pub(crate) fn side_labels(labels: &Labels, count: usize, length: f64, spacing: f64) -> Vec<(String, f64)> {
    let cell = length / count.max(1) as f64;
    let middle = |index: usize| (index as f64 + 0.5) / count as f64;
    match labels {
        Labels::Words(words) => {
            let every = (12.5 / cell).ceil().max(1.0) as usize;
            let shown = words.iter().take(count).enumerate().step_by(every);
            shown.map(|(index, word)| (text::short_label(word, LONGEST_WORD), middle(index))).collect()
        }
        Labels::Numbers { first, step } => {
            let indices: Vec<usize> = if cell >= spacing * 0.6 {
                (0..count).collect()
            } else {
                let wanted = (length / spacing).max(1.0) as usize;
                let last = first + step * count.saturating_sub(1) as f64;
                let ticks = scale::ticks_within(scale::interval([*first, last], false), false, wanted);
                let index = |tick: f64| (tick - first) / step;
                let on_a_cell =
                    ticks.into_iter().map(index).filter(|i| (i - i.round()).abs() < 1e-6 && *i >= 0.0);
                on_a_cell.map(|i| i.round() as usize).filter(|&i| i < count).collect()
            };
            let values: Vec<f64> = indices.iter().map(|&index| first + step * index as f64).collect();
            number::labels(&values, false).into_iter().zip(indices.into_iter().map(middle)).collect()
        }
    }
}

/// The labels of the columns: level where they fit, slanted where there is room for that, upright otherwise.
pub(crate) struct ColumnLabels {
    labels: Vec<(String, f64)>,
    angle: f64,
    /// Words stand above, numbers below.
    pub above: bool,
    pub height: f64,
    /// How far slanted labels reach beyond the last column.
    pub overhang: f64,
}

impl ColumnLabels {
    pub fn new(labels: &Labels, count: usize, length: f64) -> Self {
        let above = matches!(labels, Labels::Words(_));
        let labels = side_labels(labels, count, length, 40.0);
        let cell = length / count.max(1) as f64;
        let widest = widest(&labels);
        let angle = if !above || widest <= cell - 6.0 {
            0.0
        } else if cell >= 17.0 {
            -45.0
        } else {
            -90.0
        };
        let sin = f64::to_radians(-angle).sin();
        let height = widest * sin + if labels.is_empty() { 0.0 } else { 20.0 };
        let reach = |(label, share): &(String, f64)| {
            let width = text::label_width(label);
            share * length + width * if angle == 0.0 { 0.5 } else { f64::to_radians(angle).cos() } - length
        };
        let overhang = labels.iter().map(reach).fold(0.0, f64::max) + if angle == -45.0 { 6.0 } else { 0.0 };
        Self { labels, angle, above, height, overhang }
    }

    pub fn draw(&self, drawing: &mut Drawing, plot: Rect) {
        let distance = if self.angle == 0.0 { 11.0 } else { 7.0 };
        let y = if self.above { plot.y - distance } else { plot.bottom() + 11.0 };
        let anchor = if self.angle == 0.0 { Anchor::Middle } else { Anchor::Start };
        for (label, share) in &self.labels {
            let x = plot.x + share * plot.width;
            let text = Text::at(label, x, y, size::TICK).anchor(anchor).turned(self.angle);
            drawing.text(text.paint(if self.above { Paint::Ink } else { Paint::Muted }));
        }
    }
}
