//! Bars: upright in groups, or lying with long labels.

use super::axes::{Axis, Frame, Margins, Settled, room_above};
use super::drawing::{Anchor, Drawing, Rect, Stroke, Text};
use super::legend::{self, Entry, Key};
use super::scale::Scale;
use super::text::{self, Weight};
use super::theme::Paint;
use super::{Panel, number, size};

/// The most bars in a chart.
const MOST_BARS: usize = 600;

/// A bar's length, with its interval if it has one. A length that is not finite is "not measured".
#[derive(Debug, Clone, Copy)]
pub struct Bar {
    value: f64,
    interval: Option<(f64, f64)>,
}

impl Bar {
    /// A length without an interval.
    pub fn new(value: f64) -> Self {
        Self { value, interval: None }
    }

    /// With an interval.
    #[must_use]
    pub fn interval(mut self, low: f64, high: f64) -> Self {
        self.interval = Some((low, high)).filter(|(low, high)| low.is_finite() && high.is_finite());
        self
    }
}

/// A bar chart: categories, and in each a bar for every series.
#[derive(Debug, Clone)]
pub struct Bars {
    axis: Axis,
    categories: Vec<String>,
    series: Vec<(String, Vec<Bar>)>,
    lying: bool,
    size: (f64, Option<f64>),
}

impl Bars {
    /// Upright bars, side by side in each category. The axis is of the lengths and includes zero.
    pub fn upright(categories: Vec<String>, axis: Axis) -> Self {
        Self { axis: axis.from_zero(), categories, series: Vec::new(), lying: false, size: (640.0, None) }
    }

    /// Lying bars, one below another: for many categories or long names.
    pub fn lying(categories: Vec<String>, axis: Axis) -> Self {
        Self { lying: true, ..Self::upright(categories, axis) }
    }

    /// Adds a series: a bar for each category, in order.
    #[must_use]
    pub fn series(mut self, name: impl Into<String>, bars: Vec<Bar>) -> Self {
        self.series.push((name.into(), bars));
        self
    }

    /// The size of the panel with all its labels.
    #[must_use]
    pub fn size(mut self, width: f64, height: f64) -> Self {
        self.size = (width.clamp(200.0, 2000.0), Some(height.clamp(120.0, 4000.0)));
        self
    }

    fn category_count(&self) -> usize {
        self.categories.len().min(MOST_BARS / self.series.len().max(1))
    }

    fn settle(&self, count: usize) -> Settled {
        let bars = || self.series.iter().flat_map(|(_, bars)| bars);
        let ends = bars().filter_map(|bar| bar.interval).flat_map(|(low, high)| [low, high]);
        self.axis.settle(bars().map(|bar| bar.value).chain(ends), count)
    }

    fn legend(&self, width: f64) -> Drawing {
        if self.series.len() < 2 {
            return Drawing::new(width, 0.0);
        }
        let entries: Vec<Entry> = self
            .series
            .iter()
            .enumerate()
            .map(|(class, (name, _))| Entry::new(name, Key::Swatch(Paint::Class(class))))
            .collect();
        legend::above(&entries, width)
    }

    fn tip(&self, category: usize, series: &str, bar: Bar) -> String {
        let interval = bar.interval.map_or(String::new(), |(low, high)| {
            format!(" [{}, {}]", number::number(low), number::number(high))
        });
        let category = self.categories.get(category).map_or("", String::as_str);
        format!("{category} {series}: {}{interval}", number::number(bar.value))
    }

    /// Draws the bars. `slot` gives the band of a category, `along` the scale of lengths.
    fn draw_bars(&self, drawing: &mut Drawing, along: &Scale, slot: &dyn Fn(usize) -> (f64, f64)) {
        let zero = along.inside(0.0).or_else(|| along.inside(f64::MIN_POSITIVE)).unwrap_or(0.0);
        let turn = |across: f64, along: f64| if self.lying { (along, across) } else { (across, along) };
        for category in 0..self.category_count() {
            let (start, length) = slot(category);
            let thickness = (length / self.series.len().max(1) as f64).min(46.0);
            let start = start + (length - thickness * self.series.len() as f64) / 2.0;
            for (class, (name, bars)) in self.series.iter().enumerate() {
                let Some(&bar) = bars.get(category) else { continue };
                let from = start + thickness * class as f64;
                let middle = from + thickness / 2.0;
                let Some(end) = along.inside(bar.value) else {
                    let (x, y) = turn(middle, zero);
                    let (x, y, anchor) =
                        if self.lying { (x + 6.0, y, Anchor::Start) } else { (x, y - 9.0, Anchor::Middle) };
                    drawing.text(Text::at("–", x, y, size::TICK).anchor(anchor).paint(Paint::Muted));
                    continue;
                };
                let gap = (thickness * 0.06).min(1.5);
                let (a, b) = (turn(from + gap, zero.min(end)), turn(from + thickness - gap, zero.max(end)));
                let rect = Rect::new(a.0, a.1, b.0 - a.0, b.1 - a.1);
                drawing.push_rect(
                    rect,
                    0.0,
                    Some(Paint::Class(class)),
                    None,
                    1.0,
                    Some(self.tip(category, name, bar)),
                );
                if let Some((low, high)) = bar.interval
                    && let (Some(low), Some(high)) = (along.inside(low), along.inside(high))
                {
                    let cap = (thickness * 0.18).min(4.0);
                    let line = |a: (f64, f64), b: (f64, f64)| vec![turn(a.0, a.1), turn(b.0, b.1)];
                    let strokes = vec![
                        line((middle, low), (middle, high)),
                        line((middle - cap, low), (middle + cap, low)),
                        line((middle - cap, high), (middle + cap, high)),
                    ];
                    drawing.lines(strokes.clone(), Stroke::new(Paint::Paper, 3.0).opacity(0.8));
                    drawing.lines(strokes, Stroke::new(Paint::Ink, 1.2));
                }
            }
        }
    }

    fn draw_upright(&self) -> Drawing {
        let (width, height) = (self.size.0, self.size.1.unwrap_or(340.0));
        let legend = self.legend(width);
        let categories = self.category_count().max(1);
        let y_axis = self.settle((height / 60.0) as usize);
        let margins = Margins { top: legend.height, right: 4.0 };
        let wide = Frame::new(Settled::bare(), y_axis.clone(), (width, height), margins).plot;
        let slot = wide.width / categories as f64;
        // Names level, in up to two lines, if they fit; otherwise slanted.
        let lines: Vec<Vec<String>> = self
            .categories
            .iter()
            .take(categories)
            .map(|name| text::wrap(name, size::TICK, Weight::Regular, slot - 6.0))
            .collect();
        let whole = self.categories.iter().take(categories).zip(&lines).all(|(name, lines)| {
            lines.len() <= 2 && lines.iter().all(|line| !line.ends_with('…') || name.ends_with('…'))
        });
        let names: Vec<String> = self
            .categories
            .iter()
            .take(categories)
            .map(|name| text::shorten(name, size::TICK, Weight::Regular, 110.0))
            .collect();
        let longest =
            names.iter().map(|name| text::width(name, size::TICK, Weight::Regular)).fold(0.0, f64::max);
        let room = if whole { 12.0 } else { longest * 0.72 };
        let frame = Frame::new(Settled::bare(), y_axis, (width, (height - room).max(130.0)), margins);

        let mut drawing = Drawing::new(width, height.max(130.0 + room));
        frame.draw(&mut drawing, false);
        let plot = frame.plot;
        self.draw_bars(&mut drawing, &frame.y, &|category| {
            (plot.x + slot * (category as f64 + 0.11), slot * 0.78)
        });
        if let Some(zero) = frame.y.at(0.0).filter(|_| frame.y.contains(0.0)) {
            drawing.line((plot.x, zero), (plot.right(), zero), Stroke::new(Paint::Rule, 1.0));
        }
        // Slanted names need twelve pixels each; with less, every n-th is written.
        let every = if whole { 1 } else { (16.0 / slot).ceil().max(1.0) as usize };
        for (category, (lines, name)) in lines.iter().zip(&names).enumerate().step_by(every) {
            let x = plot.x + slot * (category as f64 + 0.5);
            if whole {
                for (line, text) in lines.iter().enumerate() {
                    let y = plot.bottom() + 13.0 + 13.0 * line as f64;
                    drawing.text(Text::at(text, x, y, size::TICK).anchor(Anchor::Middle));
                }
            } else {
                let text = Text::at(name, x + 3.0, plot.bottom() + 9.0, size::TICK).anchor(Anchor::End);
                drawing.text(text.turned(-45.0));
            }
        }
        drawing.place(legend, 0.0, room_above(self.axis.label()) - 6.0);
        drawing
    }

    fn draw_lying(&self) -> Drawing {
        let categories = self.category_count();
        let each = match self.series.len() {
            0 | 1 => 22.0,
            several => 8.0 + 13.0 * several as f64,
        };
        let width = self.size.0;
        let legend = self.legend(width);
        let height = self.size.1.unwrap_or(legend.height + each * categories as f64 + 44.0);
        let names: Vec<String> = self
            .categories
            .iter()
            .take(categories)
            .map(|name| text::shorten(name, size::TICK, Weight::Regular, 230.0))
            .collect();
        let left =
            names.iter().map(|name| text::width(name, size::TICK, Weight::Regular)).fold(0.0, f64::max)
                + 10.0;
        let x_axis = self.settle(((width - left) / 90.0).max(2.0) as usize);
        let half =
            x_axis.labels.last().map_or(0.0, |label| text::width(label, size::TICK, Weight::Regular) / 2.0);
        let plot = Rect::new(
            left,
            legend.height,
            (width - left - half - 2.0).max(60.0),
            (height - legend.height - 42.0).max(20.0),
        );
        let frame = Frame::around(plot, x_axis, Settled::bare());
        let mut drawing = Drawing::new(width, height.max(plot.bottom() + 42.0));
        frame.draw(&mut drawing, true);
        let slot = plot.height / categories.max(1) as f64;
        self.draw_bars(&mut drawing, &frame.x, &|category| {
            (plot.y + slot * (category as f64 + 0.1), slot * 0.8)
        });
        if let Some(zero) = frame.x.at(0.0).filter(|_| frame.x.contains(0.0)) {
            drawing.line((zero, plot.y), (zero, plot.bottom()), Stroke::new(Paint::Rule, 1.0));
        }
        let every = (12.5 / slot).ceil().max(1.0) as usize;
        for (category, name) in names.iter().enumerate().step_by(every) {
            let y = plot.y + slot * (category as f64 + 0.5);
            drawing.text(Text::at(name, plot.x - 10.0, y, size::TICK).anchor(Anchor::End));
        }
        drawing.place(legend, 0.0, 0.0);
        drawing
    }
}

impl Panel for Bars {
    fn draw(&self) -> Drawing {
        if self.lying { self.draw_lying() } else { self.draw_upright() }
    }

    fn describe(&self) -> String {
        let names: Vec<&str> = self.series.iter().map(|(name, _)| name.as_str()).collect();
        let (categories, label) = (self.categories.len(), self.axis.label());
        format!("Bar chart of {label} for {categories} categories: {}.", names.join(", "))
    }
}
