//! What is on the page before it becomes SVG: rectangles, lines, marks, images and texts, each with a [`Paint`].

use super::colour::LEVELS;
use super::text::{self, FontWeight, HALF_CAPITAL};
use super::theme::Paint;

/// A rectangle, from its upper left corner.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rect {
    /// The left edge.
    pub x: f64,
    /// The upper edge.
    pub y: f64,
    /// The width.
    pub width: f64,
    /// The height.
    pub height: f64,
}

impl Rect {
    /// A rectangle from its upper left corner and its size.
    pub fn new(x: f64, y: f64, width: f64, height: f64) -> Self {
        Self { x, y, width, height }
    }

    /// The right edge.
    pub fn right(&self) -> f64 {
        self.x + self.width
    }

    /// The lower edge.
    pub fn bottom(&self) -> f64 {
        self.y + self.height
    }

    /// The middle.
    pub fn centre(&self) -> (f64, f64) {
        (self.x + self.width / 2.0, self.y + self.height / 2.0)
    }

    /// Whether the insides of two rectangles meet.
    pub fn overlaps(&self, other: &Rect) -> bool {
        self.x < other.right() && other.x < self.right() && self.y < other.bottom() && other.y < self.bottom()
    }

    /// The rectangle with a margin added on all sides.
    #[must_use]
    pub fn grown(&self, margin: f64) -> Rect {
        Rect::new(self.x - margin, self.y - margin, self.width + 2.0 * margin, self.height + 2.0 * margin)
    }
}

/// Which end of a text is at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The text begins there.
    Start,
    /// The text is centred there.
    Middle,
    /// The text ends there.
    End,
}

/// One line of text.
#[derive(Debug, Clone)]
pub struct Text {
    pub(crate) content: String,
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) size: f64,
    pub(crate) weight: FontWeight,
    pub(crate) anchor: Anchor,
    pub(crate) angle: f64,
    pub(crate) paint: Paint,
    pub(crate) halo: bool,
}

impl Text {
    /// A text whose middle height is at `y`.
    pub(crate) fn at(content: &str, x: f64, y: f64, size: f64) -> Self {
        let content = text::visible(content);
        let (weight, anchor) = (FontWeight::Regular, Anchor::Start);
        Self { content, x, y, size, weight, anchor, angle: 0.0, paint: Paint::Ink, halo: false }
    }

    pub(crate) fn anchor(mut self, anchor: Anchor) -> Self {
        self.anchor = anchor;
        self
    }

    pub(crate) fn paint(mut self, paint: Paint) -> Self {
        self.paint = paint;
        self
    }

    pub(crate) fn weight(mut self, weight: FontWeight) -> Self {
        self.weight = weight;
        self
    }

    /// An edge of paper, so that a line behind the text does not cross it.
    pub(crate) fn halo(mut self) -> Self {
        self.halo = true;
        self
    }

    /// Turns the text about its place, in degrees, clockwise.
    pub(crate) fn turned(mut self, angle: f64) -> Self {
        self.angle = angle;
        self
    }

    /// The baseline, before turning.
    pub(crate) fn baseline(&self) -> f64 {
        self.y + HALF_CAPITAL * self.size
    }

    /// The text.
    pub fn content(&self) -> &str {
        &self.content
    }

    /// The corners of the box that the letters take, in order around it; it may be turned.
    pub fn corners(&self) -> [(f64, f64); 4] {
        let width = text::width(&self.content, self.size, self.weight);
        let left = match self.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -width / 2.0,
            Anchor::End => -width,
        };
        let half = 0.5 * self.size;
        let (sin, cos) = self.angle.to_radians().sin_cos();
        [(left, -half), (left + width, -half), (left + width, half), (left, half)]
            .map(|(dx, dy)| (self.x + dx * cos - dy * sin, self.y + dx * sin + dy * cos))
    }

    /// The upright rectangle around [`corners`](Self::corners).
    pub fn bounds(&self) -> Rect {
        let corners = self.corners();
        let fold = |pick: fn(f64, f64) -> f64, start: f64| {
            corners.iter().fold((start, start), |(x, y), corner| (pick(x, corner.0), pick(y, corner.1)))
        };
        let (low, high) = (fold(f64::min, f64::INFINITY), fold(f64::max, f64::NEG_INFINITY));
        Rect::new(low.0, low.1, high.0 - low.0, high.1 - low.1)
    }
}

/// A line's look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stroke {
    pub paint: Paint,
    pub width: f64,
    /// Lengths of dash and gap; none for a solid line.
    pub dash: &'static [f64],
    pub opacity: f64,
}

impl Stroke {
    pub fn new(paint: Paint, width: f64) -> Self {
        Self { paint, width, dash: &[], opacity: 1.0 }
    }

    pub fn dashed(mut self, dash: &'static [f64]) -> Self {
        self.dash = dash;
        self
    }

    pub fn opacity(mut self, opacity: f64) -> Self {
        self.opacity = opacity;
        self
    }
}

/// A picture of one pixel a cell: levels of a colour map, row by row.
#[derive(Debug, Clone)]
pub(crate) struct Raster {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<Pixel>,
    pub diverging: bool,
}

/// One pixel of a raster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pixel {
    Level(u8),
    /// Not a number.
    Missing,
    /// Transparent.
    Masked,
}

impl Pixel {
    /// Its entry in the palette, which has the levels first.
    pub fn index(self) -> u8 {
        match self {
            Pixel::Level(level) => level.min(LEVELS),
            Pixel::Missing => LEVELS + 1,
            Pixel::Masked => LEVELS + 2,
        }
    }
}

/// Anything that is drawn.
#[derive(Debug, Clone)]
pub(crate) enum Mark {
    Rect {
        rect: Rect,
        radius: f64,
        fill: Option<Paint>,
        stroke: Option<Stroke>,
        opacity: f64,
        tip: Option<String>,
    },
    Circle {
        x: f64,
        y: f64,
        radius: f64,
        fill: Option<Paint>,
        stroke: Option<Stroke>,
        tip: Option<String>,
    },
    Path {
        lines: Vec<Vec<(f64, f64)>>,
        closed: bool,
        fill: Option<(Paint, f64)>,
        stroke: Option<Stroke>,
        tip: Option<String>,
    },
    Image {
        rect: Rect,
        raster: Raster,
    },
    Text(Text),
}

/// A finished picture, or a part of one.
#[derive(Debug, Clone, Default)]
pub struct Drawing {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) marks: Vec<Mark>,
    /// Where the data are, without axes and labels: neighbours are aligned by it.
    pub(crate) plot: Rect,
}

impl Drawing {
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Self { width, height, marks: Vec::new(), plot: Rect::new(0.0, 0.0, width, height) }
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (f64, f64) {
        (self.width, self.height)
    }

    /// Every text, in the order of drawing.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        self.marks.iter().filter_map(|mark| if let Mark::Text(text) = mark { Some(text) } else { None })
    }

    pub(crate) fn text(&mut self, text: Text) {
        if !text.content.is_empty() && finite(&[text.x, text.y, text.size]) {
            self.marks.push(Mark::Text(text));
        }
    }

    pub(crate) fn fill(&mut self, rect: Rect, paint: Paint) {
        self.cell(rect, paint, None);
    }

    pub(crate) fn cell(&mut self, rect: Rect, paint: Paint, tip: Option<String>) {
        self.push_rect(rect, 0.0, Some(paint), None, 1.0, tip);
    }

    pub(crate) fn push_rect(
        &mut self,
        rect: Rect,
        radius: f64,
        fill: Option<Paint>,
        stroke: Option<Stroke>,
        opacity: f64,
        tip: Option<String>,
    ) {
        if finite(&[rect.x, rect.y, rect.width, rect.height]) && rect.width >= 0.0 && rect.height >= 0.0 {
            self.marks.push(Mark::Rect { rect, radius, fill, stroke, opacity, tip });
        }
    }

    pub(crate) fn outline(&mut self, rect: Rect, stroke: Stroke) {
        self.push_rect(rect, 0.0, None, Some(stroke), 1.0, None);
    }

    pub(crate) fn circle(
        &mut self,
        (x, y): (f64, f64),
        radius: f64,
        fill: Option<Paint>,
        stroke: Option<Stroke>,
        tip: Option<String>,
    ) {
        if finite(&[x, y, radius]) {
            self.marks.push(Mark::Circle { x, y, radius, fill, stroke, tip });
        }
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke) {
        self.lines(vec![vec![from, to]], stroke);
    }

    pub(crate) fn lines(&mut self, lines: Vec<Vec<(f64, f64)>>, stroke: Stroke) {
        self.push_path(lines, false, None, Some(stroke), None);
    }

    pub(crate) fn push_path(
        &mut self,
        mut lines: Vec<Vec<(f64, f64)>>,
        closed: bool,
        fill: Option<(Paint, f64)>,
        stroke: Option<Stroke>,
        tip: Option<String>,
    ) {
        lines.retain(|line| line.len() > 1 && line.iter().all(|&(x, y)| finite(&[x, y])));
        if !lines.is_empty() {
            self.marks.push(Mark::Path { lines, closed, fill, stroke, tip });
        }
    }

    pub(crate) fn image(&mut self, rect: Rect, raster: Raster) {
        if raster.width > 0 && raster.height > 0 {
            self.marks.push(Mark::Image { rect, raster });
        }
    }

    /// Puts another drawing on this one.
    pub(crate) fn place(&mut self, other: Drawing, dx: f64, dy: f64) {
        self.marks.extend(other.marks.into_iter().map(|mark| mark.moved(dx, dy)));
    }
}

impl Mark {
    fn moved(mut self, dx: f64, dy: f64) -> Self {
        match &mut self {
            Mark::Rect { rect, .. } | Mark::Image { rect, .. } => {
                rect.x += dx;
                rect.y += dy;
            }
            Mark::Circle { x, y, .. } => {
                *x += dx;
                *y += dy;
            }
            Mark::Path { lines, .. } => {
                for point in lines.iter_mut().flatten() {
                    point.0 += dx;
                    point.1 += dy;
                }
            }
            Mark::Text(text) => {
                text.x += dx;
                text.y += dy;
            }
        }
        self
    }
}

fn finite(values: &[f64]) -> bool {
    values.iter().all(|value| value.is_finite())
}
