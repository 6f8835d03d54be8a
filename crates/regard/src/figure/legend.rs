//! Legends: names at the ends of lines where there is room, otherwise a list above the plot.

use super::drawing::{Drawing, Rect, Stroke, Text};
use super::text;
use super::theme::Paint;
use super::{label_placement, marker, size};

/// The widest name.
const LONGEST: f64 = 190.0;
const KEY: f64 = 22.0;

/// How an entry looks in the plot.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key {
    /// A line, with or without points on it.
    Line { stroke: Stroke, marker: Option<usize> },
    /// Points only.
    Marker(usize),
    /// A filled area.
    Swatch(Paint),
    /// A short upright bar.
    Bar,
}

/// A name and its look.
#[derive(Debug, Clone)]
pub(crate) struct LegendEntry {
    pub name: String,
    pub key: Key,
}

impl LegendEntry {
    pub fn new(name: &str, key: Key) -> Self {
        Self { name: text::short_label(name, LONGEST), key }
    }

    fn key_width(&self) -> f64 {
        if matches!(self.key, Key::Line { .. }) { KEY } else { 12.0 }
    }

    fn width(&self) -> f64 {
        self.key_width() + 6.0 + text::label_width(&self.name)
    }

    fn draw(&self, drawing: &mut Drawing, x: f64, y: f64) {
        match self.key {
            Key::Line { stroke, marker } => {
                drawing.line((x, y), (x + KEY, y), stroke);
                if let Some(class) = marker {
                    marker::draw(drawing, class, (x + KEY / 2.0, y), 3.2, None);
                }
            }
            Key::Marker(class) => marker::draw(drawing, class, (x + 6.0, y), 4.0, None),
            Key::Bar => {
                let x = x + 6.0;
                drawing.line((x, y - 5.0), (x, y + 5.0), Stroke::new(Paint::Ink, 2.0));
            }
            Key::Swatch(paint) => drawing.fill(Rect::new(x, y - 5.0, 12.0, 10.0), paint),
        }
        drawing.text(Text::at(&self.name, x + self.key_width() + 6.0, y, size::TICK));
    }
}

/// The entries in lines no wider than `width`.
pub(crate) fn above(entries: &[LegendEntry], width: f64) -> Drawing {
    const LINE: f64 = 18.0;
    let mut drawing = Drawing::new(width, 0.0);
    let (mut x, mut y) = (0.0, 7.0);
    let named: Vec<&LegendEntry> = entries.iter().filter(|entry| !entry.name.is_empty()).collect();
    for entry in &named {
        if x > 0.0 && x + entry.width() > width {
            x = 0.0;
            y += LINE;
        }
        entry.draw(&mut drawing, x, y);
        x += entry.width() + 18.0;
    }
    drawing.height = if named.is_empty() { 0.0 } else { y + 15.0 };
    drawing
}

/// The room that names at the ends of lines need to the right of the plot.
pub(crate) fn end_room(entries: &[LegendEntry]) -> f64 {
    entries
        .iter()
        .filter(|entry| !entry.name.is_empty())
        .map(|entry| KEY + entry.width() - entry.key_width() + 4.0)
        .fold(0.0, f64::max)
}

/// Writes names beside the plot, each as near as possible to the height at which its line ends, joined to it.
pub(crate) fn at_ends(drawing: &mut Drawing, plot: Rect, ends: &[(LegendEntry, (f64, f64))]) {
    let named: Vec<&(LegendEntry, (f64, f64))> =
        ends.iter().filter(|(entry, _)| !entry.name.is_empty()).collect();
    let wanted: Vec<f64> = named.iter().map(|(_, (_, y))| *y).collect();
    let places = label_placement::spread(&wanted, size::TICK * 1.3, plot.y - 4.0, plot.bottom() + 4.0);
    for ((entry, (x, y)), place) in named.iter().zip(places) {
        let text_x = plot.right() + KEY + 6.0;
        let way = vec![(x + 2.0, *y), (plot.right() + 6.0, *y), (text_x - 6.0, place), (text_x - 3.0, place)];
        match entry.key {
            // Thin and without colour, so that it does not look like a piece of the line.
            Key::Line { .. } => drawing.lines(vec![way], Stroke::new(Paint::Muted, 0.8).opacity(0.8)),
            Key::Marker(class) => marker::draw(drawing, class, (text_x - 9.0, place), 3.4, None),
            Key::Swatch(_) | Key::Bar => {}
        }
        drawing.text(Text::at(&entry.name, text_x, place, size::TICK));
    }
}
