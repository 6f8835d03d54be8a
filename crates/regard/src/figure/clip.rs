//! Cutting lines and areas at the border of a plot, so that the SVG needs no clip paths (and so no ids).

use super::drawing::Rect;

type Vertex = (f64, f64);

/// The parts of a line that are inside.
pub(crate) fn line(points: &[Vertex], border: Rect) -> Vec<Vec<Vertex>> {
    let mut parts: Vec<Vec<Vertex>> = Vec::new();
    for pair in points.windows(2) {
        let Some((from, to)) = segment(pair[0], pair[1], border) else { continue };
        match parts.last_mut() {
            Some(part) if part.last() == Some(&from) => part.push(to),
            _ => parts.push(vec![from, to]),
        }
    }
    parts
}

/// The part of a segment that is inside (Liang & Barsky, 1984).
fn segment(from: Vertex, to: Vertex, border: Rect) -> Option<(Vertex, Vertex)> {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
    let sides = [
        (-dx, from.0 - border.x),
        (dx, border.right() - from.0),
        (-dy, from.1 - border.y),
        (dy, border.bottom() - from.1),
    ];
    for (towards, room) in sides {
        if towards == 0.0 {
            if room < 0.0 {
                return None;
            }
        } else if towards < 0.0 {
            enter = enter.max(room / towards);
        } else {
            leave = leave.min(room / towards);
        }
    }
    let at = |share: f64| (from.0 + share * dx, from.1 + share * dy);
    // Unclipped ends keep their exact coordinates, so that consecutive segments join.
    let start = if enter > 0.0 { at(enter) } else { from };
    let end = if leave < 1.0 { at(leave) } else { to };
    (enter <= leave).then_some((start, end))
}

/// The part of an area that is inside (Sutherland & Hodgman, 1974).
pub(crate) fn area(points: &[Vertex], border: Rect) -> Vec<Vertex> {
    // A side as a·x + b·y + c, which is positive inside.
    let sides = [
        (1.0, 0.0, -border.x),
        (-1.0, 0.0, border.right()),
        (0.0, 1.0, -border.y),
        (0.0, -1.0, border.bottom()),
    ];
    let mut points = points.to_vec();
    for (a, b, c) in sides {
        let depth = |p: Vertex| a * p.0 + b * p.1 + c;
        let mut kept = Vec::with_capacity(points.len() + 4);
        for (index, &point) in points.iter().enumerate() {
            let before = points[(index + points.len() - 1) % points.len()];
            let (from, to) = (depth(before), depth(point));
            if (from < 0.0) != (to < 0.0) {
                let share = from / (from - to);
                kept.push((before.0 + share * (point.0 - before.0), before.1 + share * (point.1 - before.1)));
            }
            if to >= 0.0 {
                kept.push(point);
            }
        }
        points = kept;
    }
    points
}
