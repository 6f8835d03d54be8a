//! Finding room for labels.

use super::drawing::Rect;

/// Moves heights apart until neighbours are `gap` from each other, changing them as little as possible (the sum of squares
/// is least) and keeping them between `low` and `high` while they fit there. The order of the input is kept.
pub(crate) fn spread(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]).then(a.cmp(&b)));
    // Labels that touch form a block; a block that touches the one before is merged with it.
    let mut blocks: Vec<(f64, usize)> = Vec::new(); // (first height, number of labels)
    for &index in &order {
        let mut block = (wanted[index], 1);
        loop {
            let last_start = high - gap * (block.1 - 1) as f64;
            block.0 = block.0.clamp(low, last_start.max(low));
            match blocks.pop() {
                Some((first, count)) if first + gap * count as f64 > block.0 => {
                    let start = block.0 - gap * count as f64;
                    let total = count + block.1;
                    block = ((first * count as f64 + start * block.1 as f64) / total as f64, total);
                }
                Some(apart) => {
                    blocks.extend([apart, block]);
                    break;
                }
                None => {
                    blocks.push(block);
                    break;
                }
            }
        }
    }
    let heights =
        blocks.into_iter().flat_map(|(first, count)| (0..count).map(move |step| first + gap * step as f64));
    let mut places = vec![0.0; wanted.len()];
    for (&index, height) in order.iter().zip(heights) {
        places[index] = height;
    }
    places
}

/// A label that has found a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Placed {
    /// The label's box.
    pub rect: Rect,
    /// Whether it is so far from its point that a line should join them.
    pub far: bool,
}

/// Places boxes of the given sizes beside their points, inside `border`, clear of each other and of all points in
/// `obstacles`. A label for which there is no room gets none.
pub(crate) fn beside(
    points: &[(f64, f64)],
    sizes: &[(f64, f64)],
    obstacles: &[Rect],
    border: Rect,
) -> Vec<Option<Placed>> {
    let mut order: Vec<usize> = (0..points.len().min(sizes.len())).collect();
    // The crowded ones first: the others find room anyway.
    let crowd = |index: usize| {
        let (x, y) = points[index];
        points.iter().filter(|(px, py)| (px - x).abs() < 40.0 && (py - y).abs() < 24.0).count()
    };
    order.sort_by_key(|&index| (std::cmp::Reverse(crowd(index)), index));
    let mut placed: Vec<Option<Placed>> = vec![None; points.len()];
    // Later rounds move labels to better places that have become free, and try the homeless again.
    for _ in 0..3 {
        for &index in &order {
            placed[index] = None;
            placed[index] = best_place(index, points, sizes[index], obstacles, border, &placed);
        }
    }
    placed
}

fn best_place(
    index: usize,
    points: &[(f64, f64)],
    size: (f64, f64),
    obstacles: &[Rect],
    border: Rect,
    placed: &[Option<Placed>],
) -> Option<Placed> {
    let mut best: Option<(f64, Placed)> = None;
    for (cost, far, rect) in candidates(points[index], size) {
        if best.is_some_and(|(least, _)| least <= cost) {
            continue;
        }
        let inside = rect.x >= border.x
            && rect.y >= border.y
            && rect.right() <= border.right()
            && rect.bottom() <= border.bottom();
        let roomy = rect.grown(1.5);
        let clear = inside
            && !obstacles.iter().any(|obstacle| obstacle.overlaps(&rect))
            && !placed.iter().flatten().any(|other| other.rect.overlaps(&roomy))
            && !tangled(points[index], &rect, far, placed, points);
        if clear {
            best = Some((cost, Placed { rect, far }));
        }
    }
    best.map(|(_, placed)| placed)
}

/// Boxes around a point with their cost: to the right, above, below and left of it first, then farther out all around.
fn candidates((x, y): (f64, f64), (width, height): (f64, f64)) -> impl Iterator<Item = (f64, bool, Rect)> {
    const RINGS: [f64; 7] = [6.0, 9.0, 16.0, 26.0, 38.0, 54.0, 74.0];
    const ANGLES: usize = 24;
    RINGS.into_iter().enumerate().flat_map(move |(ring, distance)| {
        (0..ANGLES).map(move |step| {
            let turn = step as f64 / ANGLES as f64 * std::f64::consts::TAU;
            let (sin, cos) = turn.sin_cos();
            // The box's point nearest to the mark is at `distance` in this direction.
            let centre = (x + cos * (distance + width / 2.0), y - sin * (distance + height / 2.0));
            let side = cos.mul_add(-0.5, 0.5) + sin.abs() * 0.6 - sin * 0.2;
            let rect = Rect::new(centre.0 - width / 2.0, centre.1 - height / 2.0, width, height);
            (distance + 4.0 * side, ring >= 2, rect)
        })
    })
}

/// Whether a label's line would cross another label or its line, or another label's line would cross this label.
fn tangled(
    point: (f64, f64),
    rect: &Rect,
    far: bool,
    placed: &[Option<Placed>],
    points: &[(f64, f64)],
) -> bool {
    let end = nearest(rect, point);
    placed.iter().zip(points).any(|(other, &other_point)| {
        let Some(other) = other else { return false };
        let other_end = nearest(&other.rect, other_point);
        (far && crosses_rect(point, end, &other.rect))
            || (other.far && crosses_rect(other_point, other_end, rect))
            || (far && other.far && crosses(point, end, other_point, other_end))
    })
}

/// The point of a box that is nearest to a point outside it.
pub(crate) fn nearest(rect: &Rect, (x, y): (f64, f64)) -> (f64, f64) {
    (x.clamp(rect.x, rect.right().max(rect.x)), y.clamp(rect.y, rect.bottom().max(rect.y)))
}

fn crosses_rect(from: (f64, f64), to: (f64, f64), rect: &Rect) -> bool {
    let corners =
        [(rect.x, rect.y), (rect.right(), rect.y), (rect.right(), rect.bottom()), (rect.x, rect.bottom())];
    (0..4).any(|side| crosses(from, to, corners[side], corners[(side + 1) % 4]))
}

fn crosses(a: (f64, f64), b: (f64, f64), c: (f64, f64), d: (f64, f64)) -> bool {
    let turn =
        |p: (f64, f64), q: (f64, f64), r: (f64, f64)| (q.0 - p.0) * (r.1 - p.1) - (q.1 - p.1) * (r.0 - p.0);
    turn(a, b, c) * turn(a, b, d) < 0.0 && turn(c, d, a) * turn(c, d, b) < 0.0
}
