//! Seven-segment digits with random distortions: an image data set without files.

use crate::data::idx::Images;
use regard_tensor::random::Key;

/// The height and width of an image.
const SIDE: usize = 28;

/// The seven segments of each digit: top, upper left, upper right, middle, lower left, lower right, bottom.
const STROKES: [[bool; 7]; 10] = {
    const O: bool = false;
    const X: bool = true;
    [
        [X, X, X, O, X, X, X],
        [O, O, X, O, O, X, O],
        [X, O, X, X, X, O, X],
        [X, O, X, X, O, X, X],
        [O, X, X, X, O, X, O],
        [X, X, O, X, O, X, X],
        [X, X, O, X, X, X, X],
        [X, O, X, O, O, X, O],
        [X, X, X, X, X, X, X],
        [X, X, X, X, O, X, X],
    ]
};

/// `count` images of 28×28 pixels with their digits: shifted, slanted, stretched, of varying thickness, with noise. The
/// parts of the data, named by `part`, have different images.
pub fn digits(seed: u64, part: &str, count: usize) -> Images {
    let key = Key::new(seed).site("builtin digits").site(part);
    let mut images = Images {
        rows: SIDE,
        columns: SIDE,
        pixels: Vec::with_capacity(count * SIDE * SIDE),
        labels: Vec::new(),
    };
    for number in 0..count as u64 {
        let digit = key.site("digit").below(number, 0, 10);
        images.labels.push(digit as u8);
        draw(digit, key.site("shape"), number, &mut images.pixels);
    }
    images
}

fn draw(digit: usize, key: Key, number: u64, pixels: &mut Vec<u8>) {
    let between = |element: u64, low: f32, high: f32| low + (high - low) * key.uniform(number, element);
    let (x, y) = (between(0, 11.0, 17.0), between(1, 12.0, 16.0));
    let (width, height) = (between(2, 3.5, 6.0), between(3, 6.5, 9.5));
    let (thick, slant) = (between(4, 0.7, 1.6), between(5, -0.25, 0.25));
    let (left, right, top, bottom) = (x - width, x + width, y - height, y + height);
    let ends = [
        [left, top, right, top],
        [left, top, left, y],
        [right, top, right, y],
        [left, y, right, y],
        [left, y, left, bottom],
        [right, y, right, bottom],
        [left, bottom, right, bottom],
    ];
    for row in 0..SIDE {
        for column in 0..SIDE {
            let at = (column as f32 + slant * (row as f32 - y), row as f32);
            let strokes = ends.iter().zip(STROKES[digit]).filter(|(_, drawn)| *drawn);
            let nearest = strokes.map(|(ends, _)| distance(at, *ends)).fold(f32::INFINITY, f32::min);
            let ink = (thick + 0.7 - nearest).clamp(0.0, 1.0) * between(6, 0.7, 1.0);
            let noise = 0.12 * key.uniform(number, (16 + row * SIDE + column) as u64);
            pixels.push(((ink + noise).min(1.0) * 255.0) as u8);
        }
    }
}

/// The distance from a point to a segment.
fn distance((x, y): (f32, f32), [x0, y0, x1, y1]: [f32; 4]) -> f32 {
    let (dx, dy) = (x1 - x0, y1 - y0);
    let along = (((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy)).clamp(0.0, 1.0);
    (x - x0 - along * dx).hypot(y - y0 - along * dy)
}
