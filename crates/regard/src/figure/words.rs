//! Words on a background as dark as their weight: what a model attended to in a text.

use super::colour::LEVELS;
use super::colour_scale::{ColourScale, Colours};
use super::drawing::{Drawing, Rect, Stroke, Text};
use super::text::{self, FontWeight};
use super::theme::Paint;
use super::{Panel, number, size};

/// The most words of one passage.
const MOST_WORDS: usize = 1500;
const LINE: f64 = 27.0;

/// A text with the weight of each word.
#[derive(Debug, Clone)]
pub struct Passage {
    heading: String,
    right: Option<bool>,
    words: Vec<(String, f32)>,
}

impl Passage {
    /// A passage. A weight that is not finite leaves its word without a background.
    pub fn new(words: impl IntoIterator<Item = (impl Into<String>, f32)>) -> Self {
        let words = words.into_iter().map(|(word, weight)| (word.into(), weight)).collect();
        Self { heading: String::new(), right: None, words }
    }

    /// A line above it, such as what was predicted and what is true.
    #[must_use]
    pub fn heading(mut self, heading: impl Into<String>) -> Self {
        self.heading = heading.into();
        self
    }

    /// Whether the prediction was right: marked ✓ or ✗ before the heading.
    #[must_use]
    pub fn right(mut self, right: bool) -> Self {
        self.right = Some(right);
        self
    }
}

/// Passages of words coloured by weight, all on one scale. With a diverging scale the sign is also shown without
/// colour: positive words have a solid line below them, negative ones a dotted line.
#[derive(Debug, Clone)]
pub struct Words {
    scale: ColourScale,
    passages: Vec<Passage>,
    width: f64,
}

impl Words {
    /// No passages yet.
    pub fn new(scale: ColourScale) -> Self {
        Self { scale, passages: Vec::new(), width: 640.0 }
    }

    /// Adds a passage.
    #[must_use]
    pub fn passage(mut self, passage: Passage) -> Self {
        self.passages.push(passage);
        self
    }

    /// The width of a line.
    #[must_use]
    pub fn width(mut self, width: f64) -> Self {
        self.width = width.clamp(160.0, 2000.0);
        self
    }

    fn extent(&self) -> Option<(f32, f32)> {
        let weights = self.passages.iter().flat_map(|passage| passage.words.iter().take(MOST_WORDS));
        let finite = weights.map(|word| word.1).filter(|weight| weight.is_finite());
        finite.fold(None, |extent, weight| {
            let (low, high) = extent.unwrap_or((weight, weight));
            Some((weight.min(low), weight.max(high)))
        })
    }

    /// Draws a passage and returns the height below it.
    fn draw_passage(&self, drawing: &mut Drawing, colours: &Colours, passage: &Passage, mut y: f64) -> f64 {
        if !passage.heading.is_empty() || passage.right.is_some() {
            let mut x = 0.0;
            if let Some(right) = passage.right {
                let (mark, paint) = if right { ("✓", Paint::Class(0)) } else { ("✗", Paint::Class(1)) };
                drawing
                    .text(Text::at(mark, 0.0, y + 8.0, size::BODY).weight(FontWeight::Semibold).paint(paint));
                x = 18.0;
            }
            for line in text::wrap(&passage.heading, size::LABEL, FontWeight::Semibold, self.width - x) {
                drawing.text(Text::at(&line, x, y + 8.0, size::LABEL).weight(FontWeight::Semibold));
                y += 18.0;
            }
            y += 6.0;
        }
        let mut x = 0.0;
        for (word, weight) in passage.words.iter().take(MOST_WORDS) {
            let word = text::shorten(word, size::BODY, FontWeight::Regular, self.width - 8.0);
            let width = text::width(&word, size::BODY, FontWeight::Regular) + 8.0;
            if x > 0.0 && x + width > self.width {
                x = 0.0;
                y += LINE;
            }
            draw_word(drawing, colours, &word, *weight, Rect::new(x, y, width, 21.0));
            x += width + 2.0;
        }
        let left_out = passage.words.len().saturating_sub(MOST_WORDS);
        if left_out > 0 {
            y += LINE;
            let more = format!("… and {} more words", number::fixed(left_out as f64, 0));
            drawing.text(Text::at(&more, 0.0, y + 10.0, size::TICK).paint(Paint::Muted));
        }
        y + LINE
    }
}

fn draw_word(drawing: &mut Drawing, colours: &Colours, word: &str, weight: f32, rect: Rect) {
    let level = colours.level(weight);
    let paint = level.map(|level| colours.paint(level));
    if let Some(paint) = paint {
        let tip = format!("{word}: {}", number::number(f64::from(weight)));
        drawing.push_rect(rect, 3.0, Some(paint), None, 1.0, Some(tip));
    }
    if let Some(level) = level.filter(|level| colours.diverging && level.abs_diff(LEVELS / 2) > LEVELS / 10) {
        let stroke = Stroke::new(Paint::Ink, 1.2);
        let stroke = if level < LEVELS / 2 { stroke.dashed(&[1.5, 2.5]) } else { stroke };
        drawing.line((rect.x + 3.0, rect.bottom() + 1.5), (rect.right() - 3.0, rect.bottom() + 1.5), stroke);
    }
    let ink = paint.map_or(Paint::Ink, Paint::ink);
    drawing.text(Text::at(word, rect.x + 4.0, rect.y + rect.height / 2.0, size::BODY).paint(ink));
}

impl Panel for Words {
    fn draw(&self) -> Drawing {
        let colours = self.scale.settle(self.extent());
        let mut drawing = Drawing::new(self.width, 0.0);
        let mut y = 0.0;
        for passage in &self.passages {
            y = self.draw_passage(&mut drawing, &colours, passage, y) + 14.0;
        }
        let strip = colours.strip(120.0);
        drawing.height = y + strip.height;
        drawing.width = drawing.width.max(strip.width);
        drawing.plot = Rect::new(0.0, 0.0, drawing.width, drawing.height);
        drawing.place(strip, 0.0, y);
        drawing
    }

    fn describe(&self) -> String {
        let parts: Vec<String> = self.passages.iter().take(20).map(describe_passage).collect();
        format!("Words coloured by weight. {}", parts.join(" "))
    }
}

/// The heading and the three heaviest words.
fn describe_passage(passage: &Passage) -> String {
    let mut words: Vec<&(String, f32)> = passage.words.iter().filter(|word| word.1.is_finite()).collect();
    words.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let heaviest: Vec<String> = words
        .iter()
        .take(3)
        .map(|(word, weight)| format!("{word} {}", number::number(f64::from(*weight))))
        .collect();
    let heading = if passage.heading.is_empty() { String::new() } else { format!("{}: ", passage.heading) };
    format!("{heading}heaviest are {}.", heaviest.join(", "))
}
