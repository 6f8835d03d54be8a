//! What rotary positions do to a vector.

use super::{MIDDLE, digits, titled};
use crate::figure::{Diagram, Picture};
use crate::report::worked;
use anyhow::Result;

/// How many pixels a vector of length 1 has.
const UNIT: f64 = 46.0;

/// A query at four positions; then a query and a key at two pairs of positions of equal distance.
pub fn rotary() -> Result<Picture> {
    let query = worked::rotated([2.0, 0.0], 4)?;
    let key = worked::rotated([1.0, 1.0], 4)?;
    let mut diagram = Diagram::new(
        690.0,
        260.0,
        "A query turns by one radian for each position. The rotation changes the angle between a query and a key by an amount that depends only on their distance.",
    );
    let point = |centre: (f64, f64), [x, y]: [f32; 2]| {
        (centre.0 + UNIT * f64::from(x), centre.1 - UNIT * f64::from(y))
    };
    let circle = |centre: (f64, f64), radius: f64| -> Vec<(f64, f64)> {
        let at = |step: u32| f64::from(step) * std::f64::consts::TAU / 64.0;
        (0..=64)
            .map(|step| (centre.0 + radius * at(step).cos(), centre.1 + radius * at(step).sin()))
            .collect()
    };
    let first = (112.0, 132.0);
    diagram.heading("one query at positions 0 to 3", (first.0, 10.0), MIDDLE);
    diagram.guide(&circle(first, 2.0 * UNIT));
    for (position, vector) in query.iter().enumerate() {
        diagram.coloured_arrow(&[first, point(first, *vector)], 0);
        let outside = point(first, vector.map(|x| x * 1.1));
        diagram.coloured(&position.to_string(), outside, MIDDLE, 0);
    }
    for (column, (q, k)) in [(1, 0), (3, 2)].into_iter().enumerate() {
        let centre = (346.0 + 230.0 * column as f64, 132.0);
        diagram.heading(&format!("query at {q}, key at {k}"), (centre.0, 10.0), MIDDLE);
        diagram.guide(&circle(centre, 2.0 * UNIT));
        diagram.coloured_arrow(&[centre, point(centre, query[q])], 0);
        diagram.coloured_arrow(&[centre, point(centre, key[k])], 1);
        diagram.coloured(&format!("q_{q}"), point(centre, query[q].map(|x| x * 1.13)), MIDDLE, 0);
        diagram.coloured(&format!("k_{k}"), point(centre, key[k].map(|x| x * 1.2)), MIDDLE, 1);
        let score = query[q][0] * key[k][0] + query[q][1] * key[k][1];
        diagram.label(&format!("q_{q}·k_{k} = {}", digits(score, 2)), (centre.0, 246.0), MIDDLE);
    }
    diagram.note("lengths stay the same", (first.0, 246.0), MIDDLE);
    Ok(titled("Rotary positions turn queries and keys", diagram))
}
