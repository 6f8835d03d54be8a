//! Values by group: every value as a point, with the box of median and quartiles.

use super::axes::{Axis, Frame, Settled};
use super::drawing::{Anchor, Drawing, Rect, Stroke, Text};
use super::text;
use super::theme::Paint;
use super::{Panel, number, size, statistics};

const LINE: f64 = 50.0;
const MOST_GROUPS: usize = 100;
/// A group with more values shows only those outside the whiskers as points.
const MOST_POINTS: usize = 300;

/// Box plots with their points, one group a line.
#[derive(Debug, Clone)]
pub struct Groups {
    axis: Axis,
    /// Name, values in order, class.
    all: Vec<(String, Vec<f64>, usize)>,
    width: f64,
}

impl Groups {
    /// A plot without groups.
    pub fn new(axis: Axis) -> Self {
        Self { axis, all: Vec::new(), width: 640.0 }
    }

    /// Adds a group. Values that are not finite are left out.
    #[must_use]
    pub fn group(self, name: impl Into<String>, values: &[f64]) -> Self {
        self.group_of_class(name, values, 0)
    }

    /// Adds a group in the colour of a class.
    #[must_use]
    pub fn group_of_class(mut self, name: impl Into<String>, values: &[f64], class: usize) -> Self {
        if self.all.len() < MOST_GROUPS {
            self.all.push((name.into(), statistics::sorted(values), class));
        }
        self
    }

    /// The width of the panel with all its labels.
    #[must_use]
    pub fn width(mut self, width: f64) -> Self {
        self.width = width.clamp(240.0, 2000.0);
        self
    }
}

/// Median, quartiles and the last values within 1.5 times their distance (Tukey, 1977).
struct BoxSummary {
    quartiles: [f64; 3],
    whiskers: (f64, f64),
}

impl BoxSummary {
    fn of(sorted: &[f64]) -> Option<Self> {
        let at = |share| statistics::quantile(sorted, share);
        let quartiles = [at(0.25)?, at(0.5)?, at(0.75)?];
        let reach = 1.5 * (quartiles[2] - quartiles[0]);
        let low = sorted.iter().copied().find(|&value| value >= quartiles[0] - reach)?;
        let high = sorted.iter().rev().copied().find(|&value| value <= quartiles[2] + reach)?;
        Some(Self { quartiles, whiskers: (low, high) })
    }
}

fn draw_group(drawing: &mut Drawing, frame: &Frame, sorted: &[f64], class: usize, middle: f64) {
    let Some(summary) = BoxSummary::of(sorted) else { return };
    let all = sorted.len() <= MOST_POINTS;
    let outside = |value: f64| value < summary.whiskers.0 || value > summary.whiskers.1;
    let shown = sorted.iter().copied().filter(|&value| frame.x.contains(value) && (all || outside(value)));
    let places: Vec<f64> = shown.filter_map(|value| frame.x.at(value)).take(2 * MOST_POINTS).collect();
    for (x, dy) in places.iter().zip(swarm(&places, 4.2, 13.0)) {
        drawing.circle((*x, middle + 8.0 + dy), 2.0, Some(Paint::Class(class)), None, None);
    }
    let box_middle = middle - 13.0;
    let at = |value: f64| frame.x.inside(value);
    let (Some(low), Some(high)) = (at(summary.whiskers.0), at(summary.whiskers.1)) else { return };
    let [Some(first), Some(median), Some(third)] = summary.quartiles.map(at) else { return };
    let stroke = Stroke::new(Paint::Class(class), 1.4);
    drawing.lines(
        vec![vec![(low, box_middle), (first, box_middle)], vec![(third, box_middle), (high, box_middle)]],
        stroke,
    );
    let rect = Rect::new(first, box_middle - 5.0, third - first, 10.0);
    let [q1, q2, q3] = summary.quartiles.map(number::number);
    let tip = format!("median {q2}, quartiles {q1} and {q3}");
    drawing.push_rect(rect, 1.0, Some(Paint::Paper), Some(stroke), 1.0, Some(tip));
    drawing.line(
        (median, box_middle - 5.0),
        (median, box_middle + 5.0),
        Stroke::new(Paint::Class(class), 3.0),
    );
}

/// How far up or down each point moves so that points of the given distance do not cover each other; `reach` at most.
fn swarm(places: &[f64], distance: f64, reach: f64) -> Vec<f64> {
    let steps = (reach / distance).floor() as i32;
    let mut offsets: Vec<f64> = Vec::with_capacity(places.len());
    for (index, &x) in places.iter().enumerate() {
        let tries = (0..=steps).flat_map(|step| [f64::from(step) * distance, f64::from(-step) * distance]);
        // Places are in order: only the last few can be near.
        let neighbours = || (0..index).rev().take_while(|&other| x - places[other] < distance);
        let free = |dy: &f64| neighbours().all(|other| (offsets[other] - dy).abs() > distance * 0.6);
        let offset = tries
            .into_iter()
            .find(free)
            .unwrap_or(f64::from(index as i32 % (2 * steps + 1) - steps) * distance);
        offsets.push(offset);
    }
    offsets
}

impl Panel for Groups {
    fn draw(&self) -> Drawing {
        let names: Vec<String> = self.all.iter().map(|(name, _, _)| text::short_label(name, 200.0)).collect();
        let left = text::widest_label(&names).max(40.0) + 14.0;
        let values = self.all.iter().flat_map(|(_, values, _)| values.iter().copied());
        let x_axis = self.axis.settle(values, ((self.width - left) / 80.0) as usize);
        let half = x_axis.last_label() / 2.0;
        let plot = Rect::new(
            left,
            0.0,
            (self.width - left - half - 2.0).max(60.0),
            (LINE * self.all.len() as f64).max(20.0),
        );
        let frame = Frame::around(plot, x_axis, Settled::bare());
        let mut drawing = Drawing::new(self.width, plot.bottom() + 42.0);
        frame.draw(&mut drawing, true);
        for (index, ((_, values, class), name)) in self.all.iter().zip(&names).enumerate() {
            let middle = LINE * (index as f64 + 0.5);
            draw_group(&mut drawing, &frame, values, *class, middle);
            let count = format!("n = {}", number::fixed(values.len() as f64, 0));
            let x = plot.x - 14.0;
            drawing.text(Text::at(name, x, middle - 7.0, size::TICK).anchor(Anchor::End));
            drawing
                .text(Text::at(&count, x, middle + 8.0, size::TICK).anchor(Anchor::End).paint(Paint::Muted));
        }
        drawing
    }

    fn describe(&self) -> String {
        let parts: Vec<String> = self
            .all
            .iter()
            .map(|(name, values, _)| {
                let median = statistics::quantile(values, 0.5).map_or("no values".into(), number::number);
                format!("{name}: median {median} of {}", values.len())
            })
            .collect();
        format!("{} by group. {}.", self.axis.label(), parts.join("; "))
    }
}
