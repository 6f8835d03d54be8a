//! Lines: one or more series against a common axis, with intervals, fits and reference lines.

use super::axes::{Axis, Frame, Margins, Settled, room_above};
use super::drawing::{Anchor, Drawing, Stroke, Text};
use super::legend::{self, Key, LegendEntry};
use super::series::Series;
use super::text;
use super::theme::Paint;
use super::{Panel, scale, size};

/// With more series than this, names are listed above the plot.
const MOST_END_LABELS: usize = 12;

/// A line across the plot that the data are compared with.
#[derive(Debug, Clone)]
enum Reference {
    Level(f64, String),
    Upright(f64, String),
    Diagonal(String),
}

/// A chart of lines.
#[derive(Debug, Clone)]
pub struct Chart {
    x: Axis,
    y: Axis,
    series: Vec<Series>,
    references: Vec<Reference>,
    size: (f64, f64),
    square: bool,
}

impl Chart {
    /// A chart without series.
    pub fn new(x: Axis, y: Axis) -> Self {
        let (series, references) = (Vec::new(), Vec::new());
        Self { x, y, series, references, size: (640.0, 360.0), square: false }
    }

    /// Receiver operating characteristics: the share of true positives against that of false ones, with the diagonal of
    /// chance.
    pub fn roc(curves: impl IntoIterator<Item = Series>) -> Self {
        let ticks = [0.0, 0.25, 0.5, 0.75, 1.0];
        let axis = |label: &str| Axis::linear(label).range(0.0, 1.0).ticks(ticks);
        let mut chart = Self::new(axis("false positive rate"), axis("true positive rate"));
        chart.series.extend(curves);
        chart.references.push(Reference::Diagonal("chance".into()));
        chart.square = true;
        chart
    }

    /// Adds a series.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds a level line at a value of the upright axis.
    #[must_use]
    pub fn level(mut self, value: f64, label: impl Into<String>) -> Self {
        self.references.push(Reference::Level(value, label.into()));
        self
    }

    /// Adds an upright line at a value of the level axis.
    #[must_use]
    pub fn upright(mut self, value: f64, label: impl Into<String>) -> Self {
        self.references.push(Reference::Upright(value, label.into()));
        self
    }

    /// The size of the panel with all its labels.
    #[must_use]
    pub fn size(mut self, width: f64, height: f64) -> Self {
        self.size = (width.clamp(200.0, 2000.0), height.clamp(150.0, 2000.0));
        self
    }

    /// As large as one of two panels side by side on a page.
    #[must_use]
    pub fn half(self) -> Self {
        self.size(size::HALF.0, size::HALF.1)
    }

    fn class_of(&self, index: usize) -> usize {
        self.series.get(index).and_then(|series| series.class).unwrap_or(index)
    }

    fn axes(&self) -> (Settled, Settled) {
        let samples = || self.series.iter().flat_map(|series| &series.samples);
        // A value that has no place on one axis must not stretch the other.
        let drawn = || {
            samples().filter(|s| scale::usable(s.x, self.x.is_log()) && scale::usable(s.y, self.y.is_log()))
        };
        let intervals = || drawn().filter_map(|sample| sample.interval).flat_map(|(low, high)| [low, high]);
        let levels = self.references.iter().filter_map(|reference| match reference {
            Reference::Level(value, _) => Some(*value),
            _ => None,
        });
        let uprights = self.references.iter().filter_map(|reference| match reference {
            Reference::Upright(value, _) => Some(*value),
            _ => None,
        });
        let count = |length: f64, each: f64| (length / each).clamp(2.0, 10.0) as usize;
        let x = self.x.settle_tight(drawn().map(|sample| sample.x).chain(uprights), count(self.size.0, 90.0));
        let y = self.y.settle(
            drawn().map(|sample| sample.y).chain(intervals()).chain(levels),
            count(self.size.1, 60.0),
        );
        (x, y)
    }

    /// Names of series and of level references, with their looks.
    fn entries(&self) -> Vec<LegendEntry> {
        let series = self
            .series
            .iter()
            .enumerate()
            .map(|(index, series)| LegendEntry::new(&series.name, series.key(self.class_of(index))));
        let references = self.references.iter().filter_map(|reference| match reference {
            Reference::Level(_, label) | Reference::Diagonal(label) => {
                Some(LegendEntry::new(label, Key::Line { stroke: REFERENCE, marker: None }))
            }
            Reference::Upright(..) => None,
        });
        series.chain(references).collect()
    }

    /// Where each named line ends; `None` if some line ends far from the right border, where a name would not be seen
    /// to belong to it.
    fn ends(&self, frame: &Frame) -> Option<Vec<(LegendEntry, (f64, f64))>> {
        let entries = self.entries();
        if self.square || entries.len() > MOST_END_LABELS {
            return None;
        }
        let plot = frame.plot;
        let last = |series: &Series| {
            let places = series.samples.iter().filter_map(|sample| frame.at(sample.x, sample.y));
            let inside = places.filter(|(x, _)| *x <= plot.right() + 1.0);
            inside.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(x, y)| (x, y.clamp(plot.y, plot.bottom())))
        };
        let mut ends: Vec<Option<(f64, f64)>> = self.series.iter().map(last).collect();
        ends.extend(self.references.iter().filter_map(|reference| match reference {
            Reference::Level(value, _) => Some(frame.y.inside(*value).map(|y| (plot.right(), y))),
            Reference::Diagonal(_) => Some(Some((plot.right(), plot.y))),
            Reference::Upright(..) => None,
        }));
        let mut named = Vec::new();
        for (entry, end) in entries.into_iter().zip(ends) {
            // A series without a single value has no end and needs no name there.
            let Some(end) = end else { continue };
            if !entry.name.is_empty() && end.0 < plot.right() - 0.15 * plot.width {
                return None;
            }
            named.push((entry, end));
        }
        Some(named)
    }
}

/// The height of the labels above and below a plot.
const SQUARE_MARGINS: f64 = 28.0 + 42.0;
const REFERENCE: Stroke = Stroke { paint: Paint::Muted, width: 1.0, dash: &[4.0, 3.0], opacity: 1.0 };

impl Panel for Chart {
    fn draw(&self) -> Drawing {
        let (x_axis, y_axis) = self.axes();
        let entries = self.entries();
        let uprights = self.upright_labels();
        let (mut width, height) = self.size;
        if self.square {
            // What a square plot of this height leaves beside it.
            let side = height - SQUARE_MARGINS;
            width = y_axis.widest_label() + 8.0 + side + legend::end_room(&entries) + 8.0;
        }
        let mut margins =
            Margins { top: 0.0, right: legend::end_room(&entries) + if self.square { 8.0 } else { 0.0 } };
        // The rows of upright labels depend on the plot, and the plot on the rows: two passes settle it.
        let mut frame = Frame::new(x_axis.clone(), y_axis.clone(), (width, height), margins);
        let mut ends = self.ends(&frame);
        let mut list = Drawing::new(width, 0.0);
        if ends.is_none() {
            list = if self.square { beside(&entries) } else { legend::above(&entries, width) };
            margins.right = if self.square { margins.right } else { 8.0 };
            margins.top = if self.square { 0.0 } else { list.height };
        }
        frame = Frame::new(x_axis.clone(), y_axis.clone(), (width, height), margins);
        let rows = self.upright_rows(&uprights, &frame);
        margins.top += 15.0 * rows.iter().map(|row| row + 1).max().unwrap_or(0) as f64;
        frame = Frame::new(x_axis, y_axis, (width, height), margins);
        ends = ends.and_then(|_| self.ends(&frame));

        let mut drawing = Drawing::new(width, height);
        frame.draw(&mut drawing, self.square);
        self.draw_references(&mut drawing, &frame, &uprights, &rows);
        for (index, series) in self.series.iter().enumerate() {
            series.draw(&mut drawing, &frame, self.class_of(index));
        }
        match ends {
            Some(ends) => legend::at_ends(&mut drawing, frame.plot, &ends),
            None if self.square => drawing.place(
                list,
                frame.plot.right() + 8.0,
                frame.plot.bottom() - 18.0 * entries.len() as f64,
            ),
            None => drawing.place(list, 0.0, room_above(self.y.label()) - 6.0),
        }
        drawing
    }

    fn describe(&self) -> String {
        let names: Vec<&str> =
            self.series.iter().map(|series| series.name.as_str()).filter(|name| !name.is_empty()).collect();
        let of = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        format!("Line chart of {} against {}{of}.", self.y.label(), self.x.label())
    }
}

/// The entries one below another, for the side of a square plot.
fn beside(entries: &[LegendEntry]) -> Drawing {
    let mut drawing = Drawing::new(legend::end_room(entries), 18.0 * entries.len() as f64);
    for (index, entry) in entries.iter().filter(|entry| !entry.name.is_empty()).enumerate() {
        let line = legend::above(std::slice::from_ref(entry), f64::INFINITY);
        drawing.place(line, 0.0, 18.0 * index as f64);
    }
    drawing
}

impl Chart {
    fn upright_labels(&self) -> Vec<(f64, String)> {
        let uprights = self.references.iter().filter_map(|reference| match reference {
            Reference::Upright(value, label) => Some((*value, label)),
            _ => None,
        });
        uprights.map(|(value, label)| (value, text::short_label(label, 180.0))).collect()
    }

    /// In which row above the plot each label finds room.
    fn upright_rows(&self, labels: &[(f64, String)], frame: &Frame) -> Vec<usize> {
        let mut filled: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut rows = Vec::new();
        for (value, label) in labels {
            let (from, to) = upright_span(frame, *value, label, self.size.0);
            let free = |row: &Vec<(f64, f64)>| row.iter().all(|&(left, right)| to < left || from > right);
            let row = filled.iter().position(free).unwrap_or(filled.len());
            if row == filled.len() {
                filled.push(Vec::new());
            }
            filled[row].push((from - 8.0, to + 8.0));
            rows.push(row);
        }
        rows
    }

    fn draw_references(
        &self,
        drawing: &mut Drawing,
        frame: &Frame,
        labels: &[(f64, String)],
        rows: &[usize],
    ) {
        let plot = frame.plot;
        for reference in &self.references {
            match reference {
                Reference::Level(value, _) => {
                    if let Some(y) = frame.y.at(*value).filter(|_| frame.y.contains(*value)) {
                        drawing.line((plot.x, y), (plot.right(), y), REFERENCE);
                    }
                }
                Reference::Upright(..) => {}
                Reference::Diagonal(_) => {
                    drawing.line((plot.x, plot.bottom()), (plot.right(), plot.y), REFERENCE);
                }
            }
        }
        for ((value, label), row) in labels.iter().zip(rows) {
            let Some(x) = frame.x.at(*value).filter(|_| frame.x.contains(*value)) else { continue };
            let y = plot.y - 9.0 - 15.0 * *row as f64;
            drawing.line((x, if label.is_empty() { plot.y } else { y + 7.0 }), (x, plot.bottom()), REFERENCE);
            let (from, _) = upright_span(frame, *value, label, self.size.0);
            drawing.text(Text::at(label, from, y, size::TICK).anchor(Anchor::Start).paint(Paint::Muted));
        }
    }
}

/// From where to where the label of an upright line reaches: centred on it, unless the panel or the
/// plot ends before that.
fn upright_span(frame: &Frame, value: f64, label: &str, width: f64) -> (f64, f64) {
    let length = text::label_width(label);
    let middle = frame.x.inside(value).unwrap_or(frame.plot.x);
    let from = (middle - length / 2.0).min(width - length).max(frame.plot.x - 2.0);
    (from, from + length)
}
