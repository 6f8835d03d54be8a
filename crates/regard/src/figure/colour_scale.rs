//! The colour of each value, and the colour bar.

use super::colour::LEVELS;
use super::drawing::{Anchor, Drawing, Pixel, Rect, Stroke, Text};
use super::theme::Paint;
use super::{number, scale, size, text};

/// A colour map over an interval of values.
#[derive(Debug, Clone, PartialEq)]
pub struct ColourScale {
    diverging: bool,
    range: Option<(f64, f64)>,
    label: String,
    percent: bool,
}

/// A colour scale over a settled interval.
#[derive(Debug, Clone)]
pub(crate) struct Colours {
    pub diverging: bool,
    low: f64,
    high: f64,
    /// Whether values lie below, and above, and are drawn at the end.
    beyond: (bool, bool),
    label: String,
    percent: bool,
}

impl ColourScale {
    /// From little to much. Without a range: from zero, or the least value if that is negative, to the greatest.
    pub fn sequential(label: impl Into<String>) -> Self {
        Self { diverging: false, range: None, label: label.into(), percent: false }
    }

    /// From negative over zero to positive. Without a range: as far as the value farthest from zero, both ways.
    pub fn diverging(label: impl Into<String>) -> Self {
        Self { diverging: true, ..Self::sequential(label) }
    }

    /// The values at the ends; what lies beyond is drawn at the end, and the bar shows it.
    #[must_use]
    pub fn range(mut self, low: f64, high: f64) -> Self {
        self.range =
            Some((low, high)).filter(|(low, high)| low.is_finite() && high.is_finite() && low < high);
        self
    }

    /// Shows shares as per cent.
    #[must_use]
    pub fn percent(mut self) -> Self {
        self.percent = true;
        self
    }

    /// Settles the interval for the data's least and greatest value.
    pub(crate) fn settle(&self, extent: Option<(f32, f32)>) -> Colours {
        let data = extent.map(|(low, high)| (f64::from(low), f64::from(high)));
        let (least, most) = data.unwrap_or((0.0, 1.0));
        let (low, high) = self.range.unwrap_or_else(|| {
            let farthest = least.abs().max(most.abs());
            let ends = if self.diverging { [-farthest, farthest] } else { [least.min(0.0), most] };
            scale::interval(ends, false)
        });
        let slack = (high - low) * 1e-6;
        Colours {
            diverging: self.diverging,
            low,
            high,
            beyond: (data.is_some() && least < low - slack, data.is_some() && most > high + slack),
            label: self.label.clone(),
            percent: self.percent,
        }
    }
}

impl Colours {
    /// The level of a value; `None` if it is not a number.
    pub fn level(&self, value: f32) -> Option<u8> {
        let share = (f64::from(value) - self.low) / (self.high - self.low);
        value.is_finite().then(|| (share.clamp(0.0, 1.0) * f64::from(LEVELS)).round() as u8)
    }

    pub fn is_percent(&self) -> bool {
        self.percent
    }

    /// The number that stands for a value: a hundredfold where the scale is in per cent.
    pub fn shown(&self, value: f32) -> f64 {
        f64::from(value) * if self.percent { 100.0 } else { 1.0 }
    }

    pub fn pixel(&self, value: f32) -> Pixel {
        self.level(value).map_or(Pixel::Missing, Pixel::Level)
    }

    /// How far a pixel is from the scale's pale end; what is missing or hidden comes below every value.
    pub fn strength(&self, pixel: Pixel) -> i16 {
        match pixel {
            Pixel::Level(level) if self.diverging => i16::from(level.abs_diff(LEVELS / 2)),
            Pixel::Level(level) => i16::from(level),
            Pixel::Missing => -1,
            Pixel::Masked => -2,
        }
    }

    pub fn paint(&self, level: u8) -> Paint {
        if self.diverging { Paint::Diverging(level) } else { Paint::Sequential(level) }
    }

    /// An upright bar with its ticks; its plot is the bar.
    pub fn bar(&self, height: f64) -> Drawing {
        const WIDTH: f64 = 10.0;
        let height = height.max(40.0);
        let (ticks, labels) = self.ticks((height / 44.0).clamp(2.0, 6.0) as usize);
        let label = text::short_label(&self.label, 140.0);
        let label_width = text::label_width(&label);
        let top = if label.is_empty() { 0.0 } else { 18.0 };
        let width = (WIDTH + 6.0 + text::widest_label(&labels)).max(label_width);

        let mut drawing = Drawing::new(width, top + height + 6.0);
        drawing.plot = Rect::new(0.0, top, WIDTH, height);
        drawing.text(Text::at(&label, 0.0, 5.0, size::TICK).paint(Paint::Muted));
        let steps = u32::from(LEVELS / 2) + 1;
        for step in 0..steps {
            let y = |step: u32| (top + height * f64::from(step) / f64::from(steps)).round();
            let rect = Rect::new(0.0, y(step), WIDTH, y(step + 1) - y(step));
            drawing.fill(rect, self.paint((u32::from(LEVELS) - 2 * step) as u8));
        }
        drawing.outline(drawing.plot, Stroke::new(Paint::Rule, 0.5));
        for (tick, label) in ticks.into_iter().zip(labels) {
            let y = top + height * (1.0 - (tick - self.low) / (self.high - self.low));
            drawing.line((WIDTH, y), (WIDTH + 3.0, y), Stroke::new(Paint::Rule, 1.0));
            drawing.text(Text::at(&label, WIDTH + 6.0, y, size::TICK).paint(Paint::Muted));
        }
        drawing
    }

    /// A lying bar with its ends and its label, for a line of a legend.
    pub fn strip(&self, width: f64) -> Drawing {
        const HEIGHT: f64 = 10.0;
        let label = text::short_label(&self.label, 300.0);
        let left = text::label_width(&label) + 18.0;
        let mut drawing = Drawing::new(left + width + 24.0, HEIGHT + 18.0);
        drawing.text(Text::at(&label, 0.0, HEIGHT / 2.0, size::TICK).paint(Paint::Muted));
        let steps = u32::from(LEVELS / 2) + 1;
        for step in 0..steps {
            let x = |step: u32| (left + width * f64::from(step) / f64::from(steps)).round();
            drawing
                .fill(Rect::new(x(step), 0.0, x(step + 1) - x(step), HEIGHT), self.paint((2 * step) as u8));
        }
        drawing.outline(Rect::new(left, 0.0, width, HEIGHT), Stroke::new(Paint::Rule, 0.5));
        for tick in self.ends() {
            let share = self.brief(tick);
            let beyond = if self.beyond.0 && tick == self.low {
                "≤ "
            } else if self.beyond.1 && tick == self.high {
                "≥ "
            } else {
                ""
            };
            let label = format!("{beyond}{share}");
            let x = left + width * (tick - self.low) / (self.high - self.low);
            let text = Text::at(&label, x, HEIGHT + 9.0, size::TICK).anchor(Anchor::Middle);
            drawing.text(text.paint(Paint::Muted));
        }
        drawing
    }

    /// The ends of the interval, and zero if it lies between them.
    fn ends(&self) -> Vec<f64> {
        let middle = (self.low < 0.0 && self.high > 0.0).then_some(0.0);
        [self.low].into_iter().chain(middle).chain([self.high]).collect()
    }

    fn brief(&self, tick: f64) -> String {
        if self.percent { number::brief(tick * 100.0) + " %" } else { number::brief(tick) }
    }

    fn ticks(&self, count: usize) -> (Vec<f64>, Vec<String>) {
        let mut ticks = scale::ticks_within((self.low, self.high), false, count);
        // An end that is not itself a round number still has to be shown when values lie beyond it.
        let near = |tick: f64, end: f64| (tick - end).abs() < (self.high - self.low) * 0.15;
        if self.beyond.0 {
            ticks.retain(|&tick| !near(tick, self.low));
            ticks.insert(0, self.low);
        }
        if self.beyond.1 {
            ticks.retain(|&tick| !near(tick, self.high));
            ticks.push(self.high);
        }
        // One round number names no interval: the ends do.
        let mut labels = match ticks.len() {
            0 | 1 => {
                ticks = self.ends();
                ticks.iter().map(|&tick| self.brief(tick)).collect()
            }
            _ => number::labels(&ticks, self.percent),
        };
        if let Some(first) = labels.first_mut().filter(|_| self.beyond.0) {
            first.insert_str(0, "≤ ");
        }
        if let Some(last) = labels.last_mut().filter(|_| self.beyond.1) {
            last.insert_str(0, "≥ ");
        }
        (ticks, labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_has_two_labels_at_least() {
        for high in [1e-9, 0.0173, 0.19, 0.9, 1.0, 1.7, 63.0, 4.2e7] {
            for (scale, least) in [
                (ColourScale::sequential("w"), 0.0),
                (ColourScale::diverging("w"), -high),
                (ColourScale::sequential("w").percent(), 0.0),
            ] {
                let colours = scale.range(least, high).settle(Some((least as f32, high as f32)));
                for count in 2..=6 {
                    let (ticks, labels) = colours.ticks(count);
                    assert!(ticks.len() >= 2 && ticks.len() == labels.len(), "{high}: {labels:?}");
                    assert!(labels[0] != labels[1], "{high}: {labels:?}");
                }
            }
        }
    }
}
