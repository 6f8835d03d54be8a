//! A series of a chart: how its line, its points and its intervals are drawn.

use super::axes::Frame;
use super::drawing::{Drawing, Stroke};
use super::legend::Key;
use super::theme::Paint;
use super::{clip, marker, number};

/// A line with more points is thinned to the lowest and highest in each pixel.
const MOST_POINTS: usize = 2000;

/// One value, with its interval if it has one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeriesPoint {
    pub x: f64,
    pub y: f64,
    pub interval: Option<(f64, f64)>,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SeriesStyle {
    Line,
    Points,
    Fit,
}

/// A named sequence of values. Values that are not finite are gaps in the line.
#[derive(Debug, Clone)]
pub struct Series {
    pub(crate) name: String,
    pub(crate) samples: Vec<SeriesPoint>,
    look: SeriesStyle,
    band: bool,
    pub(crate) class: Option<usize>,
}

impl Series {
    /// An empty series, drawn as a line, with points on it while they are few.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), samples: Vec::new(), look: SeriesStyle::Line, band: false, class: None }
    }

    /// Adds values (x, y).
    #[must_use]
    pub fn points(mut self, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.samples.extend(points.into_iter().map(|(x, y)| SeriesPoint { x, y, interval: None }));
        self
    }

    /// Adds values with intervals (x, y, low, high), drawn as bars.
    #[must_use]
    pub fn intervals(mut self, points: impl IntoIterator<Item = (f64, f64, f64, f64)>) -> Self {
        let sample = |(x, y, low, high)| SeriesPoint { x, y, interval: Some((low, high)) };
        self.samples.extend(points.into_iter().map(sample));
        self
    }

    /// Draws the intervals as a shaded band.
    #[must_use]
    pub fn band(mut self) -> Self {
        self.band = true;
        self
    }

    /// Draws points without a line.
    #[must_use]
    pub fn without_line(mut self) -> Self {
        self.look = SeriesStyle::Points;
        self
    }

    /// Draws a thin dashed line without points: a fit, not data.
    #[must_use]
    pub fn fit(mut self) -> Self {
        self.look = SeriesStyle::Fit;
        self
    }

    /// Uses the colour, dash and shape of the n-th class (its position in the chart by default).
    #[must_use]
    pub fn class(mut self, class: usize) -> Self {
        self.class = Some(class);
        self
    }

    fn stroke(&self, class: usize) -> Stroke {
        match self.look {
            SeriesStyle::Fit => Stroke::new(Paint::Class(class), 1.2).dashed(&[3.0, 3.0]),
            // Points already distinguish the series; dashes would only add noise.
            _ if self.has_markers() => Stroke::new(Paint::Class(class), 1.8),
            _ => Stroke::new(Paint::Class(class), 1.8).dashed(marker::dash(class)),
        }
    }

    fn has_markers(&self) -> bool {
        self.look == SeriesStyle::Points || (self.look == SeriesStyle::Line && self.samples.len() <= 24)
    }

    pub(crate) fn key(&self, class: usize) -> Key {
        if self.look == SeriesStyle::Points {
            return Key::Marker(class);
        }
        Key::Line { stroke: self.stroke(class), marker: self.has_markers().then_some(class) }
    }

    pub(crate) fn draw(&self, drawing: &mut Drawing, frame: &Frame, class: usize) {
        let runs = runs(self, frame);
        if self.band {
            for run in &runs {
                draw_band(drawing, frame, run, class);
            }
        }
        if self.look != SeriesStyle::Points {
            let lines = runs.iter().flat_map(|run| {
                let places: Vec<(f64, f64)> = run.iter().filter_map(|s| frame.at(s.x, s.y)).collect();
                clip::line(&thinned(&places), frame.plot)
            });
            drawing.lines(lines.collect(), self.stroke(class));
        }
        let few = self.samples.len() <= MOST_POINTS;
        for sample in self.samples.iter().filter(|_| few) {
            let Some(place) = frame.at(sample.x, sample.y) else { continue };
            if !frame.x.contains(sample.x) {
                continue;
            }
            if !self.band {
                draw_bar(drawing, frame, sample, place.0, class);
            }
            // A single value between two gaps has no line, and would be lost without its point.
            let lonely = self.look == SeriesStyle::Line
                && runs.iter().any(|run| run.len() == 1 && run[0].x == sample.x);
            if (self.has_markers() || lonely) && frame.y.contains(sample.y) {
                marker::draw(drawing, class, place, 3.4, Some(tip(self, sample)));
            }
        }
    }
}

fn tip(series: &Series, sample: &SeriesPoint) -> String {
    let interval = sample
        .interval
        .map_or(String::new(), |(low, high)| format!(" [{}, {}]", number::number(low), number::number(high)));
    format!("{}: {} at {}{interval}", series.name, number::number(sample.y), number::number(sample.x))
}

/// Consecutive samples that have a place.
fn runs(series: &Series, frame: &Frame) -> Vec<Vec<SeriesPoint>> {
    let has_place = |sample: &SeriesPoint| frame.at(sample.x, sample.y).is_some();
    series
        .samples
        .chunk_by(|a, b| has_place(a) == has_place(b))
        .filter(|run| run.first().is_some_and(has_place))
        .map(<[SeriesPoint]>::to_vec)
        .collect()
}

fn draw_band(drawing: &mut Drawing, frame: &Frame, run: &[SeriesPoint], class: usize) {
    let side = |pick: fn((f64, f64)) -> f64| {
        run.iter().filter_map(move |sample| {
            let (x, interval) = (frame.x.at(sample.x)?, sample.interval?);
            // The lower end may have no place (zero on a logarithmic axis): the band then reaches the border.
            Some((x, frame.y.at(pick(interval)).unwrap_or(frame.plot.bottom() + 1.0)))
        })
    };
    let mut outline: Vec<(f64, f64)> = side(|interval| interval.1).collect();
    outline.extend(side(|interval| interval.0).collect::<Vec<_>>().into_iter().rev());
    let outline = clip::area(&outline, frame.plot);
    drawing.push_path(vec![outline], true, Some((Paint::Class(class), 0.18)), None, None);
}

fn draw_bar(drawing: &mut Drawing, frame: &Frame, sample: &SeriesPoint, x: f64, class: usize) {
    let Some((low, high)) = sample.interval else { return };
    let end = |value: f64| {
        if value.is_finite() { Some(frame.y.inside(value).unwrap_or(frame.plot.bottom())) } else { None }
    };
    let (Some(low), Some(high)) = (end(low), end(high)) else { return };
    let cap = |y: f64| vec![(x - 3.0, y), (x + 3.0, y)];
    drawing
        .lines(vec![vec![(x, low), (x, high)], cap(low), cap(high)], Stroke::new(Paint::Class(class), 1.2));
}

/// At most two points a pixel column: the first, and whichever of the others reach lowest and highest.
fn thinned(places: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if places.len() <= MOST_POINTS {
        return places.to_vec();
    }
    places
        .chunk_by(|a, b| (a.0 * 2.0).floor() == (b.0 * 2.0).floor())
        .flat_map(|column| {
            let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
            let ends = [column.iter().min_by(by_height), column.iter().max_by(by_height)];
            let mut ends: Vec<(f64, f64)> = ends.into_iter().flatten().copied().collect();
            ends.sort_by(|a, b| a.0.total_cmp(&b.0));
            ends.dedup();
            ends
        })
        .collect()
}
