//! A matrix as a picture: words or numbers on both axes, a colour for each cell.

use super::cells::{self, CellStyle, MOST_SINGLE_CELLS, Masked};
use super::colour_scale::{ColourScale, Colours};
use super::drawing::{Anchor, Drawing, Rect, Stroke, Text};
use super::matrix::Matrix;
use super::sides::{ColumnLabels, Labels, side_labels, widest};
use super::text::{self, FontWeight};
use super::theme::Paint;
use super::{Panel, number, size};

/// Whether cells show their values in digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// Where the cells are few and large enough.
    Auto,
    /// With so many decimals, where they fit.
    Decimals(usize),
    /// Never.
    Hide,
}

/// A heat map. Words stand above the columns, numbers below them.
///
/// ```
/// use regard::figure::{ColourScale, HeatMap, Matrix, Picture, Theme};
///
/// let words: Vec<String> = ["not", "good"].map(Into::into).into();
/// let weights = Matrix::new(2, 2, vec![1.0, 0.0, 0.7, 0.3])?;
/// let map = HeatMap::new(weights, ColourScale::sequential("weight").range(0.0, 1.0))
///     .words(words.clone(), words)
///     .names("query", "key")
///     .mask(|row, column| column > row);
/// assert!(Picture::new("Causal attention").panel(map).to_svg(Theme::LIGHT).contains("good → not: 0.7"));
/// # anyhow::Ok(())
/// ```
///
/// Up to 1,024 cells are drawn one by one, with their value as a tooltip; more become an image.
/// Cells that [`mask`](Self::mask) hides are hatched; values that are not finite are grey and crossed out.
#[derive(Debug, Clone)]
pub struct HeatMap {
    data: Masked,
    rows: Labels,
    columns: Labels,
    row_name: String,
    column_name: String,
    scale: ColourScale,
    numbers: Numbers,
    highlights: Vec<(usize, usize)>,
    area: Option<(f64, f64)>,
}

impl HeatMap {
    /// A heat map with numbered axes, from 0.
    pub fn new(matrix: Matrix, scale: ColourScale) -> Self {
        let numbers = Labels::Numbers { first: 0.0, step: 1.0 };
        Self {
            data: Masked::new(matrix),
            rows: numbers.clone(),
            columns: numbers,
            row_name: String::new(),
            column_name: String::new(),
            scale,
            numbers: Numbers::Auto,
            highlights: Vec::new(),
            area: None,
        }
    }

    /// Counts of true class (rows) against predicted class (columns).
    pub fn confusion(classes: &[String], counts: Matrix) -> Self {
        Self::new(counts, ColourScale::sequential("count"))
            .words(classes.to_vec(), classes.to_vec())
            .names("true", "predicted")
            .numbers(Numbers::Decimals(0))
    }

    /// Words on the rows and on the columns.
    #[must_use]
    pub fn words(self, rows: Vec<String>, columns: Vec<String>) -> Self {
        self.row_words(rows).column_words(columns)
    }

    /// Words on the rows.
    #[must_use]
    pub fn row_words(mut self, words: Vec<String>) -> Self {
        self.rows = Labels::Words(words);
        self
    }

    /// Words on the columns.
    #[must_use]
    pub fn column_words(mut self, words: Vec<String>) -> Self {
        self.columns = Labels::Words(words);
        self
    }

    /// Numbers on the rows: the first one and the step.
    #[must_use]
    pub fn row_numbers(mut self, first: f64, step: f64) -> Self {
        self.rows = Labels::Numbers { first, step };
        self
    }

    /// Numbers on the columns: the first one and the step.
    #[must_use]
    pub fn column_numbers(mut self, first: f64, step: f64) -> Self {
        self.columns = Labels::Numbers { first, step };
        self
    }

    /// What the rows and what the columns are.
    #[must_use]
    pub fn names(mut self, rows: impl Into<String>, columns: impl Into<String>) -> Self {
        self.row_name = rows.into();
        self.column_name = columns.into();
        self
    }

    /// Hides the cells (row, column) for which the function is true.
    #[must_use]
    pub fn mask(mut self, hidden: impl Fn(usize, usize) -> bool) -> Self {
        self.data.hide(hidden);
        self
    }

    /// Digits in the cells.
    #[must_use]
    pub fn numbers(mut self, numbers: Numbers) -> Self {
        self.numbers = numbers;
        self
    }

    /// Puts a frame around a cell.
    #[must_use]
    pub fn highlight(mut self, row: usize, column: usize) -> Self {
        self.highlights.push((row, column));
        self
    }

    /// Fills an area of this size, with cells that need not be square.
    #[must_use]
    pub fn area(mut self, width: f64, height: f64) -> Self {
        self.area = Some((width.clamp(40.0, 2000.0), height.clamp(40.0, 2000.0)));
        self
    }

    /// The size of the cells' area.
    fn plot_size(&self) -> (f64, f64) {
        let (rows, columns) =
            (self.data.matrix.rows().max(1) as f64, self.data.matrix.columns().max(1) as f64);
        if let Some(area) = self.area {
            return area;
        }
        let largest = if rows.max(columns) <= 3.0 {
            64.0
        } else if rows.max(columns) <= 6.0 {
            48.0
        } else {
            34.0
        };
        let (across, down) = (520.0 / columns, 480.0 / rows);
        let whole = |length: f64| if length >= 4.0 { length.floor() } else { length };
        if (0.25..=4.0).contains(&(rows / columns)) || across.min(down) >= 12.0 {
            let cell = whole(across.min(down).min(largest));
            (cell * columns, cell * rows)
        } else {
            (whole(across.min(largest)) * columns, whole(down.min(largest)) * rows)
        }
    }

    fn tip(&self, row: usize, column: usize) -> String {
        let value = number::number(f64::from(self.data.matrix.at(row, column)));
        format!("{} → {}: {value}", self.rows.name(row), self.columns.name(column))
    }

    fn draw_numbers(&self, drawing: &mut Drawing, colours: &Colours, plot: Rect) {
        let (rows, columns) = (self.data.matrix.rows(), self.data.matrix.columns());
        let cells = || (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        if self.numbers == Numbers::Hide || rows * columns > 256 {
            return;
        }
        let value = |row, column| colours.shown(self.data.matrix.at(row, column));
        let whole = cells()
            .all(|(row, column)| matches!(value(row, column).fract(), part if part == 0.0 || part.is_nan()));
        let decimals = match self.numbers {
            Numbers::Decimals(decimals) => decimals,
            _ if whole || colours.is_percent() => 0,
            _ => 2,
        };
        let cell = cells::cell_rect(plot, rows, columns, 0, 0);
        let size = if cell.width >= 44.0 { size::LABEL } else { size::SMALL };
        let label = |row, column| number::fixed(value(row, column), decimals);
        let widest =
            cells().map(|(r, c)| text::width(&label(r, c), size, FontWeight::Regular)).fold(0.0, f64::max);
        if widest > cell.width - 5.0 || cell.height < size * 1.6 {
            return;
        }
        for (row, column) in cells().filter(|&(row, column)| !self.data.is_hidden(row, column)) {
            let Some(level) = colours.level(self.data.matrix.at(row, column)) else { continue };
            let (x, y) = cells::cell_rect(plot, rows, columns, row, column).centre();
            let text = Text::at(&label(row, column), x - 0.5, y - 0.5, size).anchor(Anchor::Middle);
            drawing.text(text.paint(colours.paint(level).ink()));
        }
    }
}

impl Panel for HeatMap {
    fn draw(&self) -> Drawing {
        let (width, height) = self.plot_size();
        let (rows, columns) = (self.data.matrix.rows(), self.data.matrix.columns());
        let row_labels = side_labels(&self.rows, rows, height, 28.0);
        let column_labels = ColumnLabels::new(&self.columns, columns, width);
        let left = widest(&row_labels) + if row_labels.is_empty() { 0.0 } else { 8.0 };
        let left = left + if self.row_name.is_empty() { 0.0 } else { 22.0 };
        let named = if self.column_name.is_empty() { 0.0 } else { 20.0 };
        let top = if column_labels.above { column_labels.height + named } else { 0.0 };
        // A label beside the first or last row is higher than the row may be.
        let bottom = 6.0 + if column_labels.above { 0.0 } else { column_labels.height + named };
        let colours = self.scale.settle(self.data.extent());
        let bar = colours.bar(height.min(220.0));
        let right = column_labels.overhang.max(16.0) + 4.0;

        // The bar's label reaches above the cells: it needs room there.
        let top = top.max(bar.plot.y).max(6.0);
        let total = left + width + right + bar.width;
        let mut drawing = Drawing::new(total, top + (height + bottom).max(bar.height - bar.plot.y));
        let plot = Rect::new(left, top, width, height);
        drawing.plot = plot;
        let tip = |row, column| Some(self.tip(row, column));
        cells::draw(
            &mut drawing,
            &self.data,
            &colours,
            plot,
            &CellStyle { single: MOST_SINGLE_CELLS, tip: &tip },
        );
        drawing.outline(plot.grown(0.5), Stroke::new(Paint::Rule, 0.5));
        self.draw_numbers(&mut drawing, &colours, plot);
        for &(row, column) in self.highlights.iter().filter(|&&(row, column)| row < rows && column < columns)
        {
            let cell = cells::cell_rect(plot, rows, columns, row, column);
            drawing.outline(cell.grown(0.5), Stroke::new(Paint::Paper, 4.0));
            drawing.outline(cell.grown(0.5), Stroke::new(Paint::Ink, 1.8));
        }
        for (label, share) in &row_labels {
            let y = plot.y + share * height;
            let text = Text::at(label, plot.x - 8.0, y, size::TICK).anchor(Anchor::End);
            drawing.text(text.paint(self.rows.paint()));
        }
        if !self.row_name.is_empty() {
            let name = text::shorten(&self.row_name, size::LABEL, FontWeight::Regular, height.max(60.0));
            let text = Text::at(&name, 7.0, plot.y + height / 2.0, size::LABEL).anchor(Anchor::Middle);
            drawing.text(text.turned(-90.0).paint(Paint::Muted));
        }
        column_labels.draw(&mut drawing, plot);
        if !self.column_name.is_empty() {
            let y = if column_labels.above { 6.0 } else { plot.bottom() + bottom - 12.0 };
            let name = text::shorten(&self.column_name, size::LABEL, FontWeight::Regular, total);
            // Centred above the cells, but never beyond the drawing's edges.
            let half = text::width(&name, size::LABEL, FontWeight::Regular) / 2.0;
            let x = plot.centre().0.min(total - half).max(half);
            drawing.text(Text::at(&name, x, y, size::LABEL).anchor(Anchor::Middle).paint(Paint::Muted));
        }
        let (bar_x, bar_y) = (left + width + right, top - bar.plot.y);
        drawing.place(bar, bar_x, bar_y);
        drawing
    }

    fn describe(&self) -> String {
        let (rows, columns) = (self.data.matrix.rows(), self.data.matrix.columns());
        let mut strongest: Option<(f32, usize, usize)> = None;
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let value = self.data.matrix.at(row, column);
            let shown = value.is_finite() && !self.data.is_hidden(row, column);
            if shown && strongest.is_none_or(|(most, _, _)| value > most) {
                strongest = Some((value, row, column));
            }
        }
        let greatest = strongest.map_or(String::new(), |(_, row, column)| {
            format!(" The greatest value is {}.", self.tip(row, column))
        });
        format!("Heat map of {rows} rows and {columns} columns.{greatest}")
    }
}
