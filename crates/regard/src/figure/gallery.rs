//! Many small heat maps on one colour scale: all heads of a layer, layers × heads, scaled and unscaled across d_k.

use super::cells::{self, CellStyle, Masked};
use super::colour_scale::ColourScale;
use super::drawing::{Anchor, Drawing, Rect, Stroke, Text};
use super::matrix::Matrix;
use super::sides::{ColumnLabels, Labels, side_labels, widest};
use super::text;
use super::theme::Paint;
use super::{Panel, size};

/// The most maps in a gallery: 64 layers of 64 heads.
const MOST_MAPS: usize = 4096;

/// A grid of heat maps that share a scale, and may share words.
#[derive(Debug, Clone)]
pub struct Gallery {
    columns: usize,
    side: f64,
    scale: ColourScale,
    row_titles: Vec<String>,
    column_titles: Vec<String>,
    words: Option<(Vec<String>, Vec<String>)>,
    maps: Vec<(String, Masked)>,
}

impl Gallery {
    /// An empty gallery with so many maps in a row.
    pub fn new(columns: usize, scale: ColourScale) -> Self {
        let (row_titles, column_titles) = (Vec::new(), Vec::new());
        Self {
            columns: columns.max(1),
            side: 0.0,
            scale,
            row_titles,
            column_titles,
            words: None,
            maps: Vec::new(),
        }
    }

    /// Adds a map with its title (which may be empty). Beyond 4,096 maps, none is added.
    #[must_use]
    pub fn map(self, title: impl Into<String>, matrix: Matrix) -> Self {
        self.masked_map(title, matrix, |_, _| false)
    }

    /// Adds a map in which the cells (row, column) for which the function is true are hidden.
    #[must_use]
    pub fn masked_map(
        mut self,
        title: impl Into<String>,
        matrix: Matrix,
        hidden: impl Fn(usize, usize) -> bool,
    ) -> Self {
        let mut data = Masked::new(matrix);
        data.hide(hidden);
        if self.maps.len() < MOST_MAPS {
            self.maps.push((title.into(), data));
        }
        self
    }

    /// What each row of maps is.
    #[must_use]
    pub fn row_titles(mut self, titles: Vec<String>) -> Self {
        self.row_titles = titles;
        self
    }

    /// What each column of maps is.
    #[must_use]
    pub fn column_titles(mut self, titles: Vec<String>) -> Self {
        self.column_titles = titles;
        self
    }

    /// The words on the rows and columns of every map; they are written once, at the outer maps.
    #[must_use]
    pub fn words(mut self, rows: Vec<String>, columns: Vec<String>) -> Self {
        self.words = Some((rows, columns));
        self
    }

    /// The side of a map in pixels (as it fits, by default).
    #[must_use]
    pub fn side(mut self, side: f64) -> Self {
        self.side = side.clamp(8.0, 600.0);
        self
    }

    fn layout(&self) -> Layout {
        let gap = if self.columns > 8 { 6.0 } else { 14.0 };
        let fitting = (760.0 / self.columns as f64 - gap).clamp(26.0, 170.0);
        let side = if self.side > 0.0 { self.side } else { fitting.floor() };
        // All maps have the shape of the first one.
        let shape = self.maps.first().map_or((1, 1), |(_, data)| (data.matrix.rows(), data.matrix.columns()));
        let ratio = (shape.0.max(1) as f64 / shape.1.max(1) as f64).clamp(0.2, 5.0);
        let (width, height) = if ratio <= 1.0 { (side, side * ratio) } else { (side / ratio, side) };
        let (width, height) = (width.round(), height.round());
        let (row_words, column_words) = self.words.clone().unwrap_or_default();
        let rows = self.maps.len().div_ceil(self.columns);
        let row_titles = self.row_titles.iter().take(rows).map(|title| text::short_label(title, 130.0));
        Layout {
            rows,
            columns: self.columns.min(self.maps.len().max(1)),
            gap,
            width,
            height,
            title: if self.maps.iter().any(|(title, _)| !title.is_empty()) { 18.0 } else { 0.0 },
            row_titles: row_titles.collect(),
            row_words: side_labels(&Labels::Words(row_words), shape.0, height, 20.0),
            column_words: ColumnLabels::new(&Labels::Words(column_words), shape.1, width),
        }
    }

    fn draw_labels(&self, drawing: &mut Drawing, layout: &Layout) {
        let corner = drawing.plot;
        for (row, title) in layout.row_titles.iter().enumerate() {
            let (_, y) = layout.map(corner, row, 0).centre();
            let x = text::widest_label(&layout.row_titles);
            drawing.text(Text::at(title, x, y, size::TICK).anchor(Anchor::End));
        }
        for (column, title) in self.column_titles.iter().take(layout.columns).enumerate() {
            let (x, _) = layout.map(corner, 0, column).centre();
            let title = text::short_label(title, layout.width + layout.gap - 4.0);
            let y = corner.y - layout.column_words.height - 11.0;
            drawing.text(Text::at(&title, x, y, size::TICK).anchor(Anchor::Middle));
        }
        for row in 0..layout.rows {
            let map = layout.map(corner, row, 0);
            for (word, share) in &layout.row_words {
                let text = Text::at(word, map.x - 8.0, map.y + share * map.height, size::TICK);
                drawing.text(text.anchor(Anchor::End).paint(Paint::Muted));
            }
        }
        for column in 0..layout.columns {
            let map = layout.map(corner, 0, column);
            layout.column_words.draw(drawing, Rect { y: map.y - layout.title, ..map });
        }
    }
}

/// Where the maps go, and what is written beside them.
struct Layout {
    rows: usize,
    columns: usize,
    gap: f64,
    width: f64,
    height: f64,
    /// The height of the maps' own titles.
    title: f64,
    row_titles: Vec<String>,
    row_words: Vec<(String, f64)>,
    column_words: ColumnLabels,
}

impl Layout {
    /// The place of one map in a grid that begins at the corner of a rectangle.
    fn map(&self, corner: Rect, row: usize, column: usize) -> Rect {
        let x = corner.x + column as f64 * (self.width + self.gap);
        let y = corner.y + row as f64 * (self.height + self.title + self.gap) + self.title;
        Rect::new(x, y, self.width, self.height)
    }

    /// The size of the whole grid.
    fn size(&self) -> (f64, f64) {
        let width = self.columns as f64 * (self.width + self.gap) - self.gap;
        let height = self.rows.max(1) as f64 * (self.height + self.title + self.gap) - self.gap;
        (width, height)
    }

    /// The room for titles and words to the left of the maps.
    fn left(&self) -> f64 {
        let room = |width: f64, gap: f64| if width > 0.0 { width + gap } else { 0.0 };
        room(text::widest_label(&self.row_titles), 12.0) + room(widest(&self.row_words), 8.0)
    }
}

impl Panel for Gallery {
    fn draw(&self) -> Drawing {
        let layout = self.layout();
        let (width, height) = layout.size();
        let extents = self.maps.iter().filter_map(|(_, data)| data.extent());
        let extent = extents.reduce(|(low, high), (least, most)| (low.min(least), high.max(most)));
        let colours = self.scale.settle(extent);
        let bar = colours.bar((height - layout.title).min(220.0));
        let titles = if self.column_titles.is_empty() { 0.0 } else { 20.0 };
        let left = layout.left();
        let top = (layout.column_words.height + titles).max(bar.plot.y - layout.title).max(6.0);
        let right = layout.column_words.overhang.max(16.0) + 4.0;

        let total_height = top + height.max(bar.height - bar.plot.y + layout.title) + 6.0;
        let mut drawing = Drawing::new(left + width + right + bar.width, total_height);
        drawing.plot = Rect::new(left, top, width, height);
        // Thousands of cells in all are drawn as one image a map.
        let style = CellStyle { single: 2000 / self.maps.len().max(1), tip: &|_, _| None };
        for (index, (title, data)) in self.maps.iter().enumerate() {
            let rect = layout.map(drawing.plot, index / self.columns, index % self.columns);
            drawing.text(Text::at(&text::short_label(title, layout.width), rect.x, rect.y - 9.0, size::TICK));
            cells::draw(&mut drawing, data, &colours, rect, &style);
            drawing.outline(rect.grown(0.5), Stroke::new(Paint::Rule, 0.5));
        }
        self.draw_labels(&mut drawing, &layout);
        let bar_y = top + layout.title - bar.plot.y;
        drawing.place(bar, left + width + right, bar_y);
        drawing
    }

    fn describe(&self) -> String {
        format!("{} heat maps in rows of {}, all on one colour scale.", self.maps.len(), self.columns)
    }
}
