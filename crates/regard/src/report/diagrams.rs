//! The lesson's diagrams, in the style of the figures. Numbers in them come from the worked examples, masks from the library.

mod attention;
mod models;
mod positions;
mod steps;

pub use attention::{flow, heads, lookup, masks};
pub use models::{block, classifiers, whole_models};
pub use positions::rotary;
pub use steps::{embedding, pipeline, tiles, training};

use crate::figure::{Anchor, Diagram, Look, Picture, Rect};
use regard_nn::tensor::Tensor;

/// A diagram under a title.
fn titled(title: &str, diagram: Diagram) -> Picture {
    Picture::new(title).panel(diagram)
}

/// The rows of a table of numbers, with so many decimals.
pub fn rows(tensor: &Tensor, decimals: usize) -> Vec<Vec<String>> {
    let width = tensor.shape().last().max(1);
    let row = |row: &[f32]| row.iter().map(|value| digits(*value, decimals)).collect();
    tensor.to_vec().chunks(width).map(row).collect()
}

/// A number with so many decimals, a true minus sign, and no minus before a zero.
pub fn digits(value: f32, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.to_owned(),
        Some(rest) => format!("−{rest}"),
        None => text,
    }
}

/// Boxes from left to right with arrows between them. Returns the boxes.
fn chain(
    diagram: &mut Diagram,
    (x, y): (f64, f64),
    (gap, height): (f64, f64),
    boxes: &[Labelled],
) -> Vec<Rect> {
    let mut left = x;
    let mut all: Vec<Rect> = Vec::new();
    for (label, width, look) in boxes {
        let rect = diagram.node(Rect::new(left, y, *width, height), label, *look);
        if let Some(before) = all.last() {
            diagram.arrow(&[(before.right() + 1.0, y + height / 2.0), (rect.x - 2.0, y + height / 2.0)]);
        }
        left += width + gap;
        all.push(rect);
    }
    all
}

/// Boxes from the bottom up with arrows between them. Returns the boxes.
fn tower(
    diagram: &mut Diagram,
    (x, bottom): (f64, f64),
    (width, gap): (f64, f64),
    boxes: &[Labelled],
) -> Vec<Rect> {
    let mut lower = bottom;
    let mut all: Vec<Rect> = Vec::new();
    for (label, height, look) in boxes {
        let rect = diagram.node(Rect::new(x, lower - height, width, *height), label, *look);
        if let Some(before) = all.last() {
            let middle = x + width / 2.0;
            diagram.arrow(&[(middle, before.y - 1.0), (middle, rect.bottom() + 2.0)]);
        }
        lower -= height + gap;
        all.push(rect);
    }
    all
}

const MIDDLE: Anchor = Anchor::Middle;

/// A box: its label, its width or height, and its look.
type Labelled<'a> = (&'a str, f64, Look);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Text, Theme};

    fn all() -> Vec<(&'static str, Picture)> {
        vec![
            ("pipeline", pipeline()),
            ("embedding", embedding().unwrap()),
            ("flow", flow().unwrap()),
            ("lookup", lookup().unwrap()),
            ("masks", masks().unwrap()),
            ("heads", heads()),
            ("rotary", rotary().unwrap()),
            ("block", block()),
            ("whole models", whole_models()),
            ("training", training()),
            ("classifiers", classifiers()),
            ("tiles", tiles()),
        ]
    }

    #[test]
    fn every_diagram_renders_with_its_texts_inside_and_apart() {
        for (name, diagram) in all() {
            let drawing = diagram.draw();
            let (width, height) = drawing.size();
            let texts: Vec<&Text> = drawing.texts().collect();
            assert!(texts.len() > 4, "{name} has labels");
            for (index, text) in texts.iter().enumerate() {
                let bounds = text.bounds();
                let inside = bounds.x >= 0.0
                    && bounds.right() <= width
                    && bounds.y >= 0.0
                    && bounds.bottom() <= height;
                assert!(
                    inside,
                    "{name}: {} leaves the picture: {bounds:?} of {width} × {height}",
                    text.content()
                );
                for other in &texts[index + 1..] {
                    // Letters are lower than the line that they stand on: a little overlap of lines is not seen.
                    let meet = bounds.grown(-1.5).overlaps(&other.bounds().grown(-1.5));
                    assert!(!meet, "{name}: {} and {} overlap", text.content(), other.content());
                }
            }
            let svg = diagram.to_svg(Theme::Page);
            roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(svg.contains("<desc>") && !svg.contains("<desc></desc>"), "{name} is described");
            assert!(diagram.to_png(Theme::DARK).unwrap().len() > 1000, "{name}");
        }
    }

    #[test]
    fn numbers_have_true_minus_signs() {
        assert_eq!(digits(-0.5, 2), "−0.50");
        assert_eq!(digits(-0.0001, 2), "0.00");
        assert_eq!(digits(1.0, 0), "1");
    }
}
