//! Points on a plane, with labels that keep clear of each other.

use super::axes::{Axis, Frame, Margins, room_above};
use super::drawing::{Drawing, Rect, Stroke, Text};
use super::label_placement;
use super::legend::{self, Key, LegendEntry};
use super::text;
use super::theme::Paint;
use super::{Panel, marker, number, scale, size};

/// The most labels that are placed; with more, a plot is a cloud of words and the rest only have tips.
const MOST_LABELS: usize = 400;
/// The most points that are drawn.
const MOST_POINTS: usize = 20_000;

/// One point, which may have a label.
#[derive(Debug, Clone)]
pub struct Point {
    x: f64,
    y: f64,
    label: String,
    class: usize,
}

impl Point {
    /// A point without a label, of the first class.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, label: String::new(), class: 0 }
    }

    /// What is written beside it.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Which class it belongs to, by number.
    #[must_use]
    pub fn class(mut self, class: usize) -> Self {
        self.class = class;
        self
    }
}

/// A scatter plot. Classes differ in colour and in shape. A label that finds no room near its point is moved away and
/// joined to it by a line; one that finds none at all is left out, and the description counts them.
#[derive(Debug, Clone)]
pub struct Scatter {
    x: Axis,
    y: Axis,
    classes: Vec<String>,
    points: Vec<Point>,
    size: (f64, f64),
    equal: bool,
}

impl Scatter {
    /// A plot without points.
    pub fn new(x: Axis, y: Axis) -> Self {
        Self { x, y, classes: Vec::new(), points: Vec::new(), size: (640.0, 480.0), equal: false }
    }

    /// The names of the classes, by number.
    #[must_use]
    pub fn classes(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.classes = names.into_iter().map(Into::into).collect();
        self
    }

    /// Adds points.
    #[must_use]
    pub fn points(mut self, points: impl IntoIterator<Item = Point>) -> Self {
        let room = MOST_POINTS.saturating_sub(self.points.len());
        self.points.extend(points.into_iter().take(room));
        self
    }

    /// One unit is as long on either axis, as distances on a map must be.
    #[must_use]
    pub fn equal_units(mut self) -> Self {
        self.equal = true;
        self
    }

    /// The size of the panel with all its labels.
    #[must_use]
    pub fn size(mut self, width: f64, height: f64) -> Self {
        self.size = (width.clamp(200.0, 2000.0), height.clamp(150.0, 2000.0));
        self
    }

    fn frame(&self, top: f64) -> Frame {
        let drawn = || {
            self.points
                .iter()
                .filter(|p| scale::usable(p.x, self.x.is_log()) && scale::usable(p.y, self.y.is_log()))
        };
        let margins = Margins { top, right: 8.0 };
        let x = self.x.settle(drawn().map(|point| point.x), 6);
        let y = self.y.settle(drawn().map(|point| point.y), 6);
        let frame = Frame::new(x.clone(), y.clone(), self.size, margins);
        if !self.equal || x.log || y.log {
            return frame;
        }
        // Widen the axis that has pixels to spare.
        let units = |ends: (f64, f64), length: f64| (ends.1 - ends.0) / length;
        let unit = units(x.ends, frame.plot.width).max(units(y.ends, frame.plot.height));
        let widened = |axis: &Axis, ends: (f64, f64), length: f64| {
            let (middle, half) = (f64::midpoint(ends.0, ends.1), unit * length / 2.0);
            axis.clone().range(middle - half, middle + half).settle([], 6)
        };
        let x = widened(&self.x, x.ends, frame.plot.width);
        let y = widened(&self.y, y.ends, frame.plot.height);
        Frame::around(frame.plot, x, y)
    }

    /// Places the labels: the index of the point, the text and its place if it has found one.
    fn labels(&self, frame: &Frame) -> Vec<(usize, String, Option<label_placement::Placed>)> {
        let inside = |point: &Point| frame.x.contains(point.x) && frame.y.contains(point.y);
        let at = |point: &Point| frame.at(point.x, point.y).filter(|_| inside(point));
        let named = self.points.iter().enumerate().filter(|(_, point)| !point.label.is_empty());
        let named: Vec<(usize, (f64, f64))> =
            named.filter_map(|(index, point)| Some((index, at(point)?))).take(MOST_LABELS).collect();
        let texts: Vec<String> =
            named.iter().map(|&(index, _)| text::short_label(&self.points[index].label, 120.0)).collect();
        let sizes: Vec<(f64, f64)> =
            texts.iter().map(|label| (text::label_width(label), size::TICK * 1.05)).collect();
        let mark = |(x, y): (f64, f64)| Rect::new(x - 4.0, y - 4.0, 8.0, 8.0);
        let obstacles: Vec<Rect> = self.points.iter().filter_map(at).map(mark).collect();
        let places: Vec<(f64, f64)> = named.iter().map(|&(_, place)| place).collect();
        let border =
            Rect::new(frame.plot.x + 1.0, frame.plot.y, frame.plot.width + 6.0, frame.plot.height - 1.0);
        let found = label_placement::beside(&places, &sizes, &obstacles, border);
        named
            .into_iter()
            .zip(texts)
            .zip(found)
            .map(|(((index, _), text), place)| (index, text, place))
            .collect()
    }

    fn class_name(&self, class: usize) -> &str {
        self.classes.get(class).map_or("", String::as_str)
    }

    fn legend(&self) -> Drawing {
        let entries: Vec<LegendEntry> = self
            .classes
            .iter()
            .enumerate()
            .map(|(class, name)| LegendEntry::new(name, Key::Marker(class)))
            .collect();
        legend::above(&entries, self.size.0)
    }
}

impl Panel for Scatter {
    fn draw(&self) -> Drawing {
        let legend = self.legend();
        let frame = self.frame(legend.height);
        let mut drawing = Drawing::new(self.size.0, self.size.1);
        frame.draw(&mut drawing, true);
        let labels = self.labels(&frame);
        for (index, _, place) in &labels {
            let Some(place) = place.filter(|place| place.far) else { continue };
            let Some(point) = frame.at(self.points[*index].x, self.points[*index].y) else { continue };
            drawing.line(point, label_placement::nearest(&place.rect, point), Stroke::new(Paint::Rule, 0.7));
        }
        let with_tips = self.points.len() <= 2000;
        let radius = if self.points.len() > 500 { 2.2 } else { 3.6 };
        for point in &self.points {
            let Some(at) = frame.at(point.x, point.y) else { continue };
            if frame.x.contains(point.x) && frame.y.contains(point.y) {
                let tip = || {
                    let (x, y) = (number::number(point.x), number::number(point.y));
                    format!("{} {} ({x}, {y})", point.label, self.class_name(point.class)).trim().to_owned()
                };
                marker::draw(&mut drawing, point.class, at, radius, with_tips.then(tip));
            }
        }
        for (_, label, place) in labels {
            if let Some(place) = place {
                let middle = place.rect.y + place.rect.height / 2.0;
                drawing.text(Text::at(&label, place.rect.x, middle, size::TICK).halo());
            }
        }
        drawing.place(legend, 0.0, room_above(self.y.label()) - 6.0);
        drawing
    }

    fn describe(&self) -> String {
        let labels = self.labels(&self.frame(self.legend().height));
        let left_out = labels.iter().filter(|(_, _, place)| place.is_none()).count();
        let left_out = if left_out == 0 { String::new() } else { format!(" {left_out} labels had no room.") };
        let (x, y) = (self.x.label(), self.y.label());
        format!("Scatter plot of {} points, {y} against {x}.{left_out}", self.points.len())
    }
}
