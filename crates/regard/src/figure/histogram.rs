//! Histograms, one a line, all on one axis, with values marked among them.

use super::axes::{Axis, Frame, Settled};
use super::drawing::{Anchor, Drawing, Rect, Stroke, Text};
use super::text;
use super::theme::Paint;
use super::{Panel, number, scale, size, statistics};

const MOST_SAMPLES: usize = 40;

/// A named sample with the values to mark in it.
#[derive(Debug, Clone)]
struct HistogramRow {
    name: String,
    sorted: Vec<f64>,
    marks: Vec<(f64, String)>,
}

/// Histograms of one or more samples, one below another.
#[derive(Debug, Clone)]
pub struct Histogram {
    axis: Axis,
    samples: Vec<HistogramRow>,
    width: f64,
}

impl Histogram {
    /// A plot without samples.
    pub fn new(axis: Axis) -> Self {
        Self { axis, samples: Vec::new(), width: 640.0 }
    }

    /// Adds a sample. Values that are not finite are left out.
    #[must_use]
    pub fn sample(mut self, name: impl Into<String>, values: &[f64]) -> Self {
        if self.samples.len() < MOST_SAMPLES {
            let mut sorted = statistics::sorted(values);
            sorted.retain(|&value| scale::usable(value, self.axis.is_log()));
            self.samples.push(HistogramRow { name: name.into(), sorted, marks: Vec::new() });
        }
        self
    }

    /// Marks a value in the sample added last, such as a published one.
    #[must_use]
    pub fn mark(mut self, value: f64, label: impl Into<String>) -> Self {
        if let Some(sample) = self.samples.last_mut()
            && scale::usable(value, self.axis.is_log())
        {
            sample.marks.push((value, label.into()));
        }
        self
    }

    /// The width of the panel with all its labels.
    #[must_use]
    pub fn width(mut self, width: f64) -> Self {
        self.width = width.clamp(240.0, 2000.0);
        self
    }

    /// The height of one histogram and of the lines for marks above it.
    fn heights(&self, sample: &HistogramRow) -> (f64, f64) {
        let height = if self.samples.len() == 1 { 170.0 } else { 64.0 };
        (height, 8.0 + 15.0 * sample.marks.len() as f64)
    }

    fn draw_sample(
        &self,
        drawing: &mut Drawing,
        frame: &Frame,
        class: usize,
        sample: &HistogramRow,
        area: Rect,
    ) {
        let place = |value: f64| frame.x.inside(value);
        let bins = statistics::bins(&sample.sorted, sample_span(sample));
        let counts = count(sample, self.ends().ends, frame, bins);
        let most = counts.iter().map(|bin| bin.2).max().unwrap_or(0).max(1) as f64;
        for (from, to, count) in counts {
            let height = area.height * count as f64 / most;
            if count > 0 {
                let rect = Rect::new(from, area.bottom() - height, (to - from - 0.8).max(0.6), height);
                drawing.push_rect(
                    rect,
                    0.0,
                    Some(Paint::Class(class)),
                    None,
                    0.85,
                    Some(format!("{count} values")),
                );
            }
        }
        drawing.line((area.x, area.bottom()), (area.right(), area.bottom()), Stroke::new(Paint::Rule, 1.0));
        for (line, (value, label)) in sample.marks.iter().enumerate() {
            let Some(x) = place(*value) else { continue };
            let y = area.y - 10.0 - 15.0 * (sample.marks.len() - 1 - line) as f64;
            drawing.line((x, y + 7.0), (x, area.bottom()), Stroke::new(Paint::Paper, 4.0).opacity(0.8));
            drawing.line((x, y + 7.0), (x, area.bottom()), Stroke::new(Paint::Ink, 1.6));
            let label = text::short_label(label, area.width);
            let half = text::label_width(&label) / 2.0;
            let x = x.min(drawing.width - half).max(area.x + half);
            drawing.text(Text::at(&label, x, y, size::TICK).anchor(Anchor::Middle).halo());
        }
    }

    /// The ends of the axis.
    fn ends(&self) -> Settled {
        let values = self
            .samples
            .iter()
            .flat_map(|s| s.sorted.iter().copied().chain(s.marks.iter().map(|mark| mark.0)));
        self.axis.settle(values, 7)
    }
}

fn sample_span(sample: &HistogramRow) -> f64 {
    sample.sorted.first().zip(sample.sorted.last()).map_or(0.0, |(low, high)| high - low)
}

/// The bins of a sample: from and to where on the page, and how many values. They divide the sample's own extent evenly
/// on the page, so that a logarithmic axis has bins of equal factors.
fn count(sample: &HistogramRow, ends: (f64, f64), frame: &Frame, bins: usize) -> Vec<(f64, f64, usize)> {
    let visible = || sample.sorted.iter().copied().filter(|&v| v >= ends.0 && v <= ends.1);
    let places: Vec<f64> = visible().filter_map(|value| frame.x.at(value)).collect();
    let (Some(&first), Some(&last)) = (places.first(), places.last()) else { return Vec::new() };
    let (first, last) = if last - first < 2.0 { (first - 1.5, first + 1.5) } else { (first, last) };
    let bins = if last - first < 2.0 * bins as f64 { ((last - first) / 2.0).max(1.0) as usize } else { bins };
    let edge = |bin: usize| first + (last - first) * bin as f64 / bins as f64;
    let mut counts: Vec<(f64, f64, usize)> = (0..bins).map(|bin| (edge(bin), edge(bin + 1), 0)).collect();
    for place in places {
        let bin =
            ((place - first) / (last - first) * bins as f64).floor().clamp(0.0, bins as f64 - 1.0) as usize;
        counts[bin].2 += 1;
    }
    counts
}

impl Panel for Histogram {
    fn draw(&self) -> Drawing {
        let names: Vec<(String, String)> = self
            .samples
            .iter()
            .map(|sample| {
                let name = text::short_label(&sample.name, 170.0);
                (name, format!("n = {}", number::fixed(sample.sorted.len() as f64, 0)))
            })
            .collect();
        let left = text::widest_label(names.iter().flat_map(|(name, count)| [name, count])) + 14.0;
        let x_axis = self.ends();
        let half = x_axis.last_label() / 2.0;
        let heights: Vec<(f64, f64)> = self.samples.iter().map(|sample| self.heights(sample)).collect();
        let total: f64 = heights.iter().map(|(height, above)| height + above).sum();
        let plot = Rect::new(left, 0.0, (self.width - left - half - 2.0).max(60.0), total.max(20.0));
        let frame = Frame::around(plot, x_axis, Settled::bare());

        let mut drawing = Drawing::new(self.width, plot.bottom() + 42.0);
        frame.draw(&mut drawing, true);
        let mut y = 0.0;
        for (class, (sample, (height, above))) in self.samples.iter().zip(heights).enumerate() {
            let area = Rect::new(plot.x, y + above, plot.width, height);
            self.draw_sample(&mut drawing, &frame, class, sample, area);
            if let Some((name, count)) = names.get(class) {
                let x = plot.x - 14.0;
                drawing.text(Text::at(name, x, area.bottom() - 22.0, size::TICK).anchor(Anchor::End));
                let count = Text::at(count, x, area.bottom() - 7.0, size::TICK).anchor(Anchor::End);
                drawing.text(count.paint(Paint::Muted));
            }
            y += height + above;
        }
        drawing
    }

    fn describe(&self) -> String {
        let parts: Vec<String> = self.samples.iter().map(describe_sample).collect();
        format!("Distribution of {}. {}", self.axis.label(), parts.join(" "))
    }
}

fn describe_sample(sample: &HistogramRow) -> String {
    let median = statistics::quantile(&sample.sorted, 0.5).map_or("no values".into(), |median| {
        format!("{} values with median {}", sample.sorted.len(), number::number(median))
    });
    let marks = sample.marks.iter().fold(String::new(), |marks, (value, label)| {
        marks + &format!(", {label} at {}", number::number(*value))
    });
    format!("{}: {median}{marks}.", sample.name)
}
