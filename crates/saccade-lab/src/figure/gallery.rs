//! Many small heat maps on one colour scale: all heads of a layer, layers × heads, scaled and unscaled across d_k.

use super::cells::{self, Manner, Masked};
use super::colour_scale::ColourScale;
use super::drawing::{Anchor, Drawing, Rect, Stroke, Text};
use super::matrix::Matrix;
use super::sides::{ColumnLabels, Labels, side_labels};
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

    /// The side of a map in pixels (as it fits, unless said).
    #[must_use]
    pub fn side(mut self, side: f64) -> Self {
        self.side = side.clamp(8.0, 600.0);
        self
    }

    fn layout(&self) -> Layout {
        let rows = self.maps.len().div_ceil(self.columns);
        let gap = if self.columns > 8 { 6.0 } else { 14.0 };
        let fitting = (760.0 / self.columns as f64 - gap).clamp(26.0, 170.0);
        let side = if self.side > 0.0 { self.side } else { fitting.floor() };
        let shape = self.maps.first().map_or((1, 1), |(_, data)| (data.matrix.rows(), data.matrix.columns()));
        // Maps keep the shape of the first one.
        let ratio = (shape.0.max(1) as f64 / shape.1.max(1) as f64).clamp(0.2, 5.0);
        let (width, height) = if ratio <= 1.0 { (side, side * ratio) } else { (side / ratio, side) };
        let titled = self.maps.iter().any(|(title, _)| !title.is_empty());
        Layout {
            rows,
            gap,
            width: width.round(),
            height: height.round(),
            title: if titled { 18.0 } else { 0.0 },
        }
    }
}

/// Where the maps go.
struct Layout {
    rows: usize,
    gap: f64,
    width: f64,
    height: f64,
    title: f64,
}

impl Layout {
    fn map(&self, left: f64, top: f64, row: usize, column: usize) -> Rect {
        let x = left + column as f64 * (self.width + self.gap);
        let y = top + row as f64 * (self.height + self.title + self.gap) + self.title;
        Rect::new(x, y, self.width, self.height)
    }
}

impl Panel for Gallery {
    fn draw(&self) -> Drawing {
        let layout = self.layout();
        let shape = self.maps.first().map_or((0, 0), |(_, data)| (data.matrix.rows(), data.matrix.columns()));
        let row_words = self.words.as_ref().map_or(Vec::new(), |(words, _)| {
            side_labels(&Labels::Words(words.clone()), shape.0, layout.height, 20.0)
        });
        let column_words = self
            .words
            .as_ref()
            .map(|(_, words)| ColumnLabels::new(&Labels::Words(words.clone()), shape.1, layout.width));
        let row_titles: Vec<String> =
            self.row_titles.iter().take(layout.rows).map(|title| text::short_label(title, 130.0)).collect();
        let row_title_width =
            row_titles.iter().map(|title| text::label_width(title) + 12.0).fold(0.0, f64::max);
        let row_word_width =
            row_words.iter().map(|(word, _)| text::label_width(word) + 8.0).fold(0.0, f64::max);
        let left = row_title_width + row_word_width;
        let word_height = column_words.as_ref().map_or(0.0, |words| words.height);
        let top = word_height + if self.column_titles.is_empty() { 0.0 } else { 20.0 };

        let shown = self.columns.min(self.maps.len().max(1));
        let grid_width = shown as f64 * (layout.width + layout.gap) - layout.gap;
        let grid_height =
            layout.rows.max(1) as f64 * (layout.height + layout.title + layout.gap) - layout.gap;
        let extents = self.maps.iter().filter_map(|(_, data)| data.extent());
        let extent = extents.reduce(|(low, high), (least, most)| (low.min(least), high.max(most)));
        let colours = self.scale.settle(extent);
        let bar = colours.bar((grid_height - layout.title).min(220.0));
        let overhang = column_words.as_ref().map_or(0.0, |words| words.overhang).max(16.0) + 4.0;
        let top = top.max(bar.plot.y - layout.title).max(6.0);

        let total_height = top + grid_height.max(bar.height - bar.plot.y + layout.title) + 6.0;
        let mut drawing = Drawing::new(left + grid_width + overhang + bar.width, total_height);
        drawing.plot = Rect::new(left, top, grid_width, grid_height);
        // Thousands of cells in all are drawn as one image a map.
        let manner = Manner { single: 2000 / self.maps.len().max(1), tip: &|_, _| None };
        for (index, (title, data)) in self.maps.iter().enumerate() {
            let (row, column) = (index / self.columns, index % self.columns);
            let rect = layout.map(left, top, row, column);
            drawing.text(Text::at(&text::short_label(title, layout.width), rect.x, rect.y - 9.0, size::TICK));
            cells::draw(&mut drawing, data, &colours, rect, &manner);
            drawing.outline(rect.grown(0.5), Stroke::new(Paint::Rule, 0.5));
        }
        for (row, title) in row_titles.iter().enumerate() {
            let (_, y) = layout.map(left, top, row, 0).centre();
            drawing.text(Text::at(title, row_title_width - 12.0, y, size::TICK).anchor(Anchor::End));
        }
        for (column, title) in self.column_titles.iter().take(shown).enumerate() {
            let (x, _) = layout.map(left, top, 0, column).centre();
            let y = top - word_height - 11.0;
            drawing.text(
                Text::at(&text::short_label(title, layout.width + layout.gap - 4.0), x, y, size::TICK)
                    .anchor(Anchor::Middle),
            );
        }
        for row in 0..layout.rows {
            let rect = layout.map(left, top, row, 0);
            for (word, share) in &row_words {
                let y = rect.y + share * rect.height;
                drawing.text(
                    Text::at(word, rect.x - 8.0, y, size::TICK).anchor(Anchor::End).paint(Paint::Muted),
                );
            }
        }
        if let Some(words) = &column_words {
            for column in 0..shown {
                let rect = layout.map(left, top, 0, column);
                words.draw(&mut drawing, Rect::new(rect.x, rect.y - layout.title, rect.width, rect.height));
            }
        }
        drawing.place(bar.clone(), left + grid_width + overhang, top + layout.title - bar.plot.y);
        drawing
    }

    fn describe(&self) -> String {
        format!("{} heat maps in rows of {}, all on one colour scale.", self.maps.len(), self.columns)
    }
}
