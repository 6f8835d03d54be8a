//! The cells of a heat map: rectangles while they are few, one image when they are many, hatching where there is a mask.

use super::colour_scale::Colours;
use super::drawing::{Drawing, Pixel, Raster, Rect, Stroke};
use super::matrix::Matrix;
use super::theme::Paint;

/// Up to so many cells are drawn one by one, each with a tooltip for its value.
pub(crate) const MOST_SINGLE_CELLS: usize = 1024;
/// The most pixels of an image along one side.
const MOST_PIXELS: usize = 1024;

/// A matrix with the cells that are hidden.
#[derive(Debug, Clone)]
pub(crate) struct Masked {
    pub matrix: Matrix,
    hidden: Vec<bool>,
}

impl Masked {
    pub fn new(matrix: Matrix) -> Self {
        Self { matrix, hidden: Vec::new() }
    }

    pub fn hide(&mut self, hidden: impl Fn(usize, usize) -> bool) {
        let (rows, columns) = (self.matrix.rows(), self.matrix.columns());
        self.hidden = (0..rows * columns).map(|index| hidden(index / columns, index % columns)).collect();
    }

    pub fn is_hidden(&self, row: usize, column: usize) -> bool {
        self.hidden.get(row * self.matrix.columns() + column).copied().unwrap_or(false)
    }

    /// The least and the greatest value among the cells that are shown.
    pub fn extent(&self) -> Option<(f32, f32)> {
        if self.hidden.is_empty() {
            return self.matrix.extent();
        }
        let cells = (0..self.matrix.rows())
            .flat_map(|row| (0..self.matrix.columns()).map(move |column| (row, column)));
        let shown = cells.filter(|&(row, column)| !self.is_hidden(row, column));
        let finite = shown.map(|(row, column)| self.matrix.at(row, column)).filter(|value| value.is_finite());
        finite.fold(None, |extent, value| {
            let (low, high) = extent.unwrap_or((value, value));
            Some((value.min(low), value.max(high)))
        })
    }
}

/// How a matrix is drawn: cell by cell while there are at most `single` of them, and the tooltip of a cell.
pub(crate) struct CellStyle<'a> {
    pub single: usize,
    pub tip: &'a dyn Fn(usize, usize) -> Option<String>,
}

/// Draws the cells into a rectangle.
pub(crate) fn draw(drawing: &mut Drawing, data: &Masked, colours: &Colours, rect: Rect, style: &CellStyle) {
    let (rows, columns) = (data.matrix.rows(), data.matrix.columns());
    if rows == 0 || columns == 0 {
        return;
    }
    if rows * columns <= style.single {
        draw_single(drawing, data, colours, rect, style.tip);
    } else {
        if data.hidden.contains(&true) {
            hatch(drawing, rect);
        }
        drawing.image(rect, raster(data, colours, rect));
    }
}

/// The rectangle of one cell, on whole pixels.
pub(crate) fn cell_rect(rect: Rect, rows: usize, columns: usize, row: usize, column: usize) -> Rect {
    let x = |column: usize| (rect.x + rect.width * column as f64 / columns.max(1) as f64).round();
    let y = |row: usize| (rect.y + rect.height * row as f64 / rows.max(1) as f64).round();
    Rect::new(x(column), y(row), x(column + 1) - x(column), y(row + 1) - y(row))
}

fn draw_single(
    drawing: &mut Drawing,
    data: &Masked,
    colours: &Colours,
    rect: Rect,
    tip: &dyn Fn(usize, usize) -> Option<String>,
) {
    let (rows, columns) = (data.matrix.rows(), data.matrix.columns());
    let roomy = rect.width / columns as f64 >= 12.0 && rect.height / rows as f64 >= 12.0;
    let gap = if roomy { 1.0 } else { 0.0 };
    for row in 0..rows {
        let mut column = 0;
        while column < columns {
            let start = cell_rect(rect, rows, columns, row, column);
            if data.is_hidden(row, column) {
                // A run of hidden cells is hatched as one.
                let run = (column..columns).take_while(|&c| data.is_hidden(row, c)).count();
                let end = cell_rect(rect, rows, columns, row, column + run - 1);
                hatch(drawing, Rect::new(start.x, start.y, end.right() - start.x, start.height));
                column += run;
                continue;
            }
            // The last ones have the frame beside them.
            let right = if column + 1 < columns { gap } else { 0.0 };
            let below = if row + 1 < rows { gap } else { 0.0 };
            let inner = Rect::new(start.x, start.y, start.width - right, start.height - below);
            match colours.level(data.matrix.at(row, column)) {
                Some(level) => drawing.cell(inner, colours.paint(level), tip(row, column)),
                None => missing(drawing, inner, tip(row, column)),
            }
            column += 1;
        }
    }
}

/// A cell whose value is not a number: grey and crossed out.
fn missing(drawing: &mut Drawing, cell: Rect, tip: Option<String>) {
    drawing.cell(cell, Paint::Missing, tip);
    if cell.width >= 8.0 && cell.height >= 8.0 {
        let ((x, y), reach) = (cell.centre(), cell.width.min(cell.height) * 0.2);
        let strokes = [(1.0, 1.0), (1.0, -1.0)]
            .map(|(dx, dy)| vec![(x - reach * dx, y - reach * dy), (x + reach * dx, y + reach * dy)]);
        drawing.lines(strokes.into(), Stroke::new(Paint::Paper, 1.2));
    }
}

/// Slanted lines x + y = constant, which continue from one rectangle to the next.
fn hatch(drawing: &mut Drawing, rect: Rect) {
    const SPACING: f64 = 6.0;
    let first = ((rect.x + rect.y) / SPACING).ceil() as i64;
    let last = ((rect.right() + rect.bottom()) / SPACING).floor() as i64;
    let lines = (first..=last).map(|index| {
        let sum = index as f64 * SPACING;
        let left = (sum - rect.bottom()).max(rect.x);
        let right = (sum - rect.y).min(rect.right());
        vec![(left, sum - left), (right, sum - right)]
    });
    drawing.lines(lines.collect(), Stroke::new(Paint::Grid, 1.0));
}

/// One pixel a cell, or a block of cells where there are more cells than pixels. A block shows its strongest value (the
/// one farthest from the scale's pale end), so that a thin diagonal does not fade away.
fn raster(data: &Masked, colours: &Colours, rect: Rect) -> Raster {
    let block =
        |cells: usize, length: f64| cells.div_ceil(MOST_PIXELS.min((2.0 * length).ceil().max(1.0) as usize));
    let (down, across) = (block(data.matrix.rows(), rect.height), block(data.matrix.columns(), rect.width));
    let (height, width) = (data.matrix.rows().div_ceil(down), data.matrix.columns().div_ceil(across));
    let mut pixels = Vec::with_capacity(width * height);
    for top in (0..data.matrix.rows()).step_by(down) {
        for left in (0..data.matrix.columns()).step_by(across) {
            pixels.push(strongest(data, colours, top..top + down, left..left + across));
        }
    }
    Raster { width, height, pixels, diverging: colours.diverging }
}

fn strongest(
    data: &Masked,
    colours: &Colours,
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
) -> Pixel {
    let (rows, columns) =
        (rows.start..rows.end.min(data.matrix.rows()), columns.start..columns.end.min(data.matrix.columns()));
    let mut best = Pixel::Masked;
    for row in rows {
        for column in columns.clone().filter(|&column| !data.is_hidden(row, column)) {
            let pixel = colours.pixel(data.matrix.at(row, column));
            if colours.strength(pixel) > colours.strength(best) {
                best = pixel;
            }
        }
    }
    best
}
