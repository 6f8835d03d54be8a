//! Every picture that the laboratory draws, as SVG and as PNG.
//!
//! A [`Panel`] is one plot: a [`HeatMap`] or a [`Gallery`] of them, a [`Chart`] of lines, a [`Scatter`] with labels,
//! [`Bars`], [`Intervals`], a [`Histogram`], [`Groups`] of points, [`Words`] coloured by weight, a [`Diagram`] of boxes and arrows. A [`Picture`] puts one
//! or more panels under a title and writes them: `.svg` and `.png` as a file of its own, light or dark; or SVG for a page,
//! which then follows the page's colours through [`stylesheet`].
//!
//! ```
//! use regard::figure::{Axis, Chart, Picture, Series, Theme};
//!
//! let losses = Series::new("with attention").points((1..=50).map(|step| (f64::from(step), 3.0 / f64::from(step))));
//! let chart = Chart::new(Axis::linear("step"), Axis::log("loss")).series(losses);
//! let picture = Picture::new("Loss falls").panel(chart);
//! assert!(picture.to_svg(Theme::LIGHT).contains("with attention"));
//! # let folder = std::env::temp_dir().join(format!("regard-figure-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("loss.png");
//! picture.write(&path)?;
//! # std::fs::remove_dir_all(&folder)?;
//! # anyhow::Ok(())
//! ```
//!
//! The SVG is written here rather than by a plotting library: words on both axes, cells of a colour map, labels that
//! keep clear of each other and colours that follow a page are most of what these pictures are, and no library of charts
//! has them. A value that is not a number is drawn as a gap, never as a coordinate. The same data give the same bytes.

mod axes;
mod bars;
mod cells;
mod chart;
mod clip;
mod colour;
mod colour_scale;
mod diagram;
mod drawing;
mod gallery;
mod groups;
mod heatmap;
mod histogram;
mod intervals;
mod label_placement;
mod legend;
mod marker;
mod matrix;
mod number;
mod picture;
mod png;
mod scale;
mod scatter;
mod series;
mod sides;
mod statistics;
mod svg;
mod text;
mod theme;
mod words;

pub use axes::Axis;
pub use bars::{Bar, Bars};
pub use chart::Chart;
pub use colour::{CLASSES, LEVELS, Rgb, class, diverging, oklch, sequential};
pub use colour_scale::ColourScale;
pub use diagram::{Diagram, Look, NumberTable};
pub use drawing::{Anchor, Drawing, Rect, Text};
pub use gallery::Gallery;
pub use groups::Groups;
pub use heatmap::{HeatMap, Numbers};
pub use histogram::Histogram;
pub use intervals::{IntervalRow, Intervals, VerdictStyle};
pub use matrix::Matrix;
pub use number::{counted, fixed, number};
pub use picture::Picture;
pub use png::render;
pub use scatter::{Point, Scatter};
pub use series::Series;
pub use text::{FontWeight, font_face, shorten, visible, width};
pub use theme::{Paint, Shade, Theme, stylesheet};
pub use words::{Passage, Words};

/// One plot.
pub trait Panel {
    /// Draws it at its own size.
    fn draw(&self) -> Drawing;

    /// A description in a sentence, for screen readers.
    fn describe(&self) -> String;
}

/// The sizes of type, in pixels. Few, so that all pictures look alike.
mod size {
    pub const TITLE: f64 = 16.0;
    pub const SUBTITLE: f64 = 12.5;
    pub const HEADING: f64 = 12.5;
    pub const BODY: f64 = 13.0;
    pub const LABEL: f64 = 12.0;
    pub const TICK: f64 = 11.0;
    pub const SMALL: f64 = 9.5;
    /// A panel of which two stand side by side in the report's column.
    pub const HALF: (f64, f64) = (450.0, 320.0);
}
