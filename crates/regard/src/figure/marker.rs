//! The shapes of points and the dashes of lines, so that classes differ by more than colour.

use super::drawing::{Drawing, Stroke};
use super::theme::Paint;

/// The dashes of the n-th series.
pub(crate) fn dash(class: usize) -> &'static [f64] {
    const DASHES: [&[f64]; 6] =
        [&[], &[9.0, 2.5], &[4.0, 2.2], &[10.0, 2.5, 2.5, 2.5], &[2.0, 2.0], &[14.0, 3.0, 4.0, 3.0]];
    DASHES[class % DASHES.len()]
}

/// Draws the n-th class's shape, with a thin edge of paper so that points on each other stay apart.
pub(crate) fn draw(
    drawing: &mut Drawing,
    class: usize,
    (x, y): (f64, f64),
    radius: f64,
    tip: Option<String>,
) {
    let paint = Paint::Class(class);
    let edge = Stroke::new(Paint::Paper, 1.0);
    // Shapes of equal area look equally large.
    let outline: Option<Vec<(f64, f64)>> = match class % 7 {
        1 => Some(polygon(4, 45.0, radius * 1.25)),
        2 => Some(polygon(3, -90.0, radius * 1.45)),
        3 => Some(polygon(4, 0.0, radius * 1.35)),
        4 => Some(polygon(3, 90.0, radius * 1.45)),
        5 => Some(cross(radius * 1.2)),
        6 => Some(polygon(5, -90.0, radius * 1.2)),
        _ => None,
    };
    match outline {
        Some(points) => {
            let moved = points.into_iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
            drawing.push_path(vec![moved], true, Some((paint, 1.0)), Some(edge), tip);
        }
        None => drawing.circle((x, y), radius, Some(paint), Some(edge), tip),
    }
}

fn polygon(corners: u32, turn: f64, radius: f64) -> Vec<(f64, f64)> {
    let corner = |index: u32| {
        let (sin, cos) = (turn + 360.0 * f64::from(index) / f64::from(corners)).to_radians().sin_cos();
        (radius * cos, radius * sin)
    };
    (0..corners).map(corner).collect()
}

/// An upright cross with thick arms.
fn cross(radius: f64) -> Vec<(f64, f64)> {
    let arm = radius * 0.36;
    let quarter = [(arm, -radius), (arm, -arm), (radius, -arm)];
    let turned = |(x, y): (f64, f64), turns: usize| (0..turns).fold((x, y), |(x, y), _| (-y, x));
    (0..4).flat_map(|turns| quarter.map(|corner| turned(corner, turns))).collect()
}
