//! Pictures that notebooks show.

use crate::arrays::{GivenReals, to_tensor};
use crate::error::OrRaise as _;
use crate::work::work;
use anyhow::{Result, ensure};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use regard::figure::{Axis, Chart, ColourScale, Gallery, HeatMap, Matrix, Picture, Series, Theme};

/// A picture, drawn.
#[pyclass(frozen, module = "regard._regard")]
pub struct Figure {
    #[pyo3(get)]
    svg: String,
    #[pyo3(get)]
    dark: String,
}

impl Figure {
    /// Draws a picture, light and dark.
    pub fn of(picture: &Picture) -> Self {
        Self { svg: picture.to_svg(Theme::LIGHT), dark: picture.to_svg(Theme::DARK) }
    }
}

#[pymethods]
impl Figure {
    /// The picture as a PNG with so many pixels a unit.
    fn png<'py>(&self, py: Python<'py>, dark: bool, scale: f64) -> PyResult<Bound<'py, PyBytes>> {
        let svg = if dark { &self.dark } else { &self.svg };
        let bytes = work(py, |_| regard::figure::render(svg, scale))?;
        Ok(PyBytes::new(py, &bytes))
    }
}

/// One map of a picture.
#[derive(FromPyObject)]
pub struct Map<'py> {
    values: GivenReals<'py>,
    words: Words,
}

/// What stands around a map.
#[derive(FromPyObject)]
pub struct Words {
    title: String,
    rows: Option<Vec<String>>,
    columns: Option<Vec<String>>,
    names: (String, String),
    causal: bool,
    framed: Vec<(usize, usize)>,
}

/// Colours: what they mean, whether they have a middle, and their range.
#[derive(FromPyObject)]
pub struct Colours {
    label: String,
    diverging: bool,
    range: Option<(f64, f64)>,
}

impl Colours {
    fn scale(&self) -> ColourScale {
        let scale = match self.diverging {
            true => ColourScale::diverging(self.label.clone()),
            false => ColourScale::sequential(self.label.clone()),
        };
        self.range.map_or(scale.clone(), |(low, high)| scale.range(low, high))
    }
}

fn matrix(values: &GivenReals<'_>) -> PyResult<Matrix> {
    let tensor = to_tensor(values)?;
    let drawn = || -> Result<Matrix> {
        ensure!(tensor.shape().rank() == 2, "a map has rows and columns, got {}", tensor.shape());
        Matrix::new(tensor.shape()[0], tensor.shape()[1], tensor.to_vec())
    };
    drawn().or_raise()
}

/// Maps side by side: each with its own words, or small ones that share them.
#[pyfunction]
#[pyo3(signature = (title, subtitle, maps, colours, columns, small))]
pub fn maps(
    py: Python<'_>,
    title: String,
    subtitle: String,
    maps: Vec<Map<'_>>,
    colours: &Bound<'_, PyAny>,
    columns: usize,
    small: bool,
) -> PyResult<Figure> {
    let colours: Colours = colours.extract()?;
    let matrices = maps.iter().map(|map| matrix(&map.values)).collect::<PyResult<Vec<_>>>()?;
    let maps: Vec<_> = maps.into_iter().map(|map| map.words).zip(matrices).collect();
    work(py, move |_| {
        Ok(Figure::of(&arranged(
            Picture::new(title).subtitle(subtitle),
            maps,
            &colours,
            columns.max(1),
            small,
        )))
    })
}

fn arranged(
    mut picture: Picture,
    maps: Vec<(Words, Matrix)>,
    colours: &Colours,
    columns: usize,
    small: bool,
) -> Picture {
    if small {
        let mut gallery = Gallery::new(columns, colours.scale());
        let words = maps.first().and_then(|(words, _)| words.rows.clone().zip(words.columns.clone()));
        for (words, matrix) in maps {
            let masked = move |row, column| words.causal && column > row;
            gallery = gallery.masked_map(words.title, matrix, masked);
        }
        if let Some((rows, columns)) = words {
            gallery = gallery.words(rows, columns);
        }
        return picture.panel(gallery);
    }
    picture = picture.columns(columns);
    for (words, matrix) in maps {
        let causal = words.causal;
        let mut panel = HeatMap::new(matrix, colours.scale())
            .names(words.names.0, words.names.1)
            .mask(move |row, column| causal && column > row);
        if let Some(rows) = words.rows {
            panel = panel.row_words(rows);
        }
        if let Some(columns) = words.columns {
            panel = panel.column_words(columns);
        }
        for (row, column) in words.framed {
            panel = panel.highlight(row, column);
        }
        picture = match words.title.is_empty() {
            true => picture.panel(panel),
            false => picture.titled_panel(words.title, panel),
        };
    }
    picture
}

/// Curves over one axis.
#[pyfunction]
#[pyo3(signature = (title, subtitle, axes, curves))]
pub fn lines(
    py: Python<'_>,
    title: String,
    subtitle: String,
    axes: (String, String),
    curves: Vec<(String, Vec<(f64, f64)>)>,
) -> PyResult<Figure> {
    work(py, move |_| Ok(drawn(title, subtitle, axes, curves)))
}

fn drawn(
    title: String,
    subtitle: String,
    axes: (String, String),
    curves: Vec<(String, Vec<(f64, f64)>)>,
) -> Figure {
    let chart = Chart::new(Axis::linear(axes.0), Axis::linear(axes.1));
    let chart = curves
        .into_iter()
        .fold(chart, |chart, (name, points)| chart.series(Series::new(name).points(points)));
    Figure::of(&Picture::new(title).subtitle(subtitle).panel(chart))
}
