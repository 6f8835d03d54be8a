//! Bars: upright in groups, or lying with long labels.

use super::axes::{Axis, Frame, Margins, Settled, room_above};
use super::drawing::{Anchor, Drawing, Rect, Stroke, Text};
use super::legend::{self, Key, LegendEntry};
use super::scale::Scale;
use super::text::{self, FontWeight};
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

    /// As large as one of two panels side by side on a page.
    #[must_use]
    pub fn half(self) -> Self {
        self.size(size::HALF.0, size::HALF.1)
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
        let entries: Vec<LegendEntry> = self
            .series
            .iter()
            .enumerate()
            .map(|(class, (name, _))| LegendEntry::new(name, Key::Swatch(Paint::Class(class))))
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

    /// Draws the bars. `slot` gives where the band of a category begins and how long it is, `along` places lengths.
    fn draw_bars(&self, drawing: &mut Drawing, along: &Scale, slot: &dyn Fn(usize) -> (f64, f64)) {
        let count = self.series.len().max(1) as f64;
        for category in 0..self.category_count() {
            let (start, length) = slot(category);
            let thickness = (length / count).min(46.0);
            let start = start + (length - thickness * count) / 2.0;
            for (class, (name, bars)) in self.series.iter().enumerate() {
                let Some(&bar) = bars.get(category) else { continue };
                let place =
                    BarPosition { lying: self.lying, from: start + thickness * class as f64, thickness };
                place.draw(drawing, along, class, bar, self.tip(category, name, bar));
            }
        }
    }

    fn draw_upright(&self) -> Drawing {
        let (width, height) = (self.size.0, self.size.1.unwrap_or(340.0));
        let legend = self.legend(width);
        let y_axis = self.settle((height / 60.0) as usize);
        let margins = Margins { top: legend.height, right: 4.0 };
        let plot = Frame::new(Settled::bare(), y_axis.clone(), (width, height), margins).plot;
        let slot = plot.width / self.category_count().max(1) as f64;
        let names = Names::new(&self.categories[..self.category_count()], plot.x, slot);
        let size = (width, (height - names.room).max(130.0));
        let frame = Frame::new(Settled::bare(), y_axis, size, margins);

        let mut drawing = Drawing::new(width, height.max(130.0 + names.room));
        frame.draw(&mut drawing, false);
        let plot = frame.plot;
        let band = |category: usize| (plot.x + slot * (category as f64 + 0.11), slot * 0.78);
        self.draw_bars(&mut drawing, &frame.y, &band);
        if let Some(zero) = frame.y.at(0.0).filter(|_| frame.y.contains(0.0)) {
            drawing.line((plot.x, zero), (plot.right(), zero), Stroke::new(Paint::Rule, 1.0));
        }
        names.draw(&mut drawing, plot, slot);
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
        let names: Vec<String> =
            self.categories.iter().take(categories).map(|name| text::short_label(name, 230.0)).collect();
        let left = text::widest_label(&names) + 10.0;
        let x_axis = self.settle(((width - left) / 90.0).max(2.0) as usize);
        let half = x_axis.last_label() / 2.0;
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

/// Where one bar goes, across the direction of its length.
struct BarPosition {
    lying: bool,
    from: f64,
    thickness: f64,
}

impl BarPosition {
    /// From (across, along) to (x, y).
    fn turn(&self, (across, along): (f64, f64)) -> (f64, f64) {
        if self.lying { (along, across) } else { (across, along) }
    }

    fn draw(&self, drawing: &mut Drawing, along: &Scale, class: usize, bar: Bar, tip: String) {
        // A logarithmic axis has no zero: its bars begin at the border.
        let zero = along.inside(0.0).or_else(|| along.inside(f64::MIN_POSITIVE)).unwrap_or(0.0);
        let middle = self.from + self.thickness / 2.0;
        let Some(end) = along.inside(bar.value) else {
            let (x, y) = self.turn((middle, zero));
            let (x, y, anchor) =
                if self.lying { (x + 6.0, y, Anchor::Start) } else { (x, y - 9.0, Anchor::Middle) };
            drawing.text(Text::at("–", x, y, size::TICK).anchor(anchor).paint(Paint::Muted));
            return;
        };
        let gap = (self.thickness * 0.06).min(1.5);
        let a = self.turn((self.from + gap, zero.min(end)));
        let b = self.turn((self.from + self.thickness - gap, zero.max(end)));
        drawing.cell(Rect::new(a.0, a.1, b.0 - a.0, b.1 - a.1), Paint::Class(class), Some(tip));
        if let Some((low, high)) = bar.interval
            && let (Some(low), Some(high)) = (along.inside(low), along.inside(high))
        {
            let cap = (self.thickness * 0.18).min(4.0);
            let line = |a: (f64, f64), b: (f64, f64)| vec![self.turn(a), self.turn(b)];
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

/// The names below upright bars: level, in up to two lines, if all of them fit; otherwise slanted.
struct Names {
    level: bool,
    lines: Vec<Vec<String>>,
    /// The height that they need beyond one line.
    room: f64,
}

impl Names {
    fn new(categories: &[String], left: f64, slot: f64) -> Self {
        let wrapped = |name: &String| text::wrap(name, size::TICK, FontWeight::Regular, slot - 6.0);
        let lines: Vec<Vec<String>> = categories.iter().map(wrapped).collect();
        let cut = |line: &String, name: &String| line.ends_with('…') && !name.ends_with('…');
        let fits = |(lines, name): (&Vec<String>, &String)| {
            lines.len() <= 2 && !lines.iter().any(|line| cut(line, name))
        };
        if lines.iter().zip(categories).all(fits) {
            return Self { level: true, lines, room: 12.0 };
        }
        let slanted = |(index, name): (usize, &String)| {
            // What lies to the left of the first bars limits the length of their names.
            let reach = (left + slot * (index as f64 + 0.5)) / std::f64::consts::FRAC_1_SQRT_2 - 8.0;
            text::short_label(name, reach.min(140.0))
        };
        let names: Vec<String> = categories.iter().enumerate().map(slanted).collect();
        let room = text::widest_label(&names) * 0.72;
        Self { level: false, lines: names.into_iter().map(|name| vec![name]).collect(), room }
    }

    fn draw(&self, drawing: &mut Drawing, plot: Rect, slot: f64) {
        // Slanted names need sixteen pixels each; with less, every n-th is written.
        let every = if self.level { 1 } else { (16.0 / slot).ceil().max(1.0) as usize };
        for (category, lines) in self.lines.iter().enumerate().step_by(every) {
            let x = plot.x + slot * (category as f64 + 0.5);
            for (line, name) in lines.iter().enumerate() {
                let text = if self.level {
                    let y = plot.bottom() + 13.0 + 13.0 * line as f64;
                    Text::at(name, x, y, size::TICK).anchor(Anchor::Middle)
                } else {
                    Text::at(name, x + 3.0, plot.bottom() + 9.0, size::TICK).anchor(Anchor::End).turned(-45.0)
                };
                drawing.text(text);
            }
        }
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
