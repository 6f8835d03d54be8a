//! Panels under a title, and writing them to a file.

use super::drawing::{Drawing, Text};
use super::svg::{self, AltText};
use super::text::{self, FontWeight};
use super::theme::{Paint, Theme};
use super::{Panel, png, size};
use anyhow::{Context as _, Result, bail};
use std::path::Path;

const MARGIN: f64 = 20.0;
const GAP: f64 = 28.0;
/// The widest picture: what does not fit is a sign of too many panels, not of a larger page.
const WIDEST: f64 = 6000.0;

/// One or more panels with a title, ready to be written.
pub struct Picture {
    title: String,
    subtitle: String,
    note: String,
    description: Option<String>,
    columns: usize,
    theme: Theme,
    scale: f64,
    panels: Vec<(String, Box<dyn Panel>)>,
}

impl Picture {
    /// A picture without panels. The title states the result, not only what is plotted.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            subtitle: String::new(),
            note: String::new(),
            description: None,
            columns: 1,
            theme: Theme::LIGHT,
            scale: 2.0,
            panels: Vec::new(),
        }
    }

    /// A line below the title.
    #[must_use]
    pub fn subtitle(mut self, subtitle: impl Into<String>) -> Self {
        self.subtitle = subtitle.into();
        self
    }

    /// A remark below the panels: the data, the number of seeds, what the bars mean.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// A description for those who cannot see the picture, in place of the one that the panels give.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Adds a panel.
    #[must_use]
    pub fn panel(self, panel: impl Panel + 'static) -> Self {
        self.titled_panel("", panel)
    }

    /// Adds a panel with a heading of its own.
    #[must_use]
    pub fn titled_panel(mut self, heading: impl Into<String>, panel: impl Panel + 'static) -> Self {
        self.panels.push((heading.into(), Box::new(panel)));
        self
    }

    /// How many panels stand side by side (one by default).
    #[must_use]
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = columns.max(1);
        self
    }

    /// The colours of files that [`write`](Self::write) makes (light by default).
    #[must_use]
    pub fn theme(mut self, theme: Theme) -> Self {
        self.theme = theme;
        self
    }

    /// How many pixels of a PNG make one of the picture's (2 by default).
    #[must_use]
    pub fn scale(mut self, scale: f64) -> Self {
        self.scale = scale;
        self
    }

    /// The picture as SVG. A page includes the string as it is.
    pub fn to_svg(&self, theme: Theme) -> String {
        self.svg(theme, true)
    }

    /// Each panel as SVG, if the picture has two side by side and no more: a page that is too narrow for both puts one below the
    /// other. The page shows the title itself.
    pub fn pair(&self, theme: Theme) -> Option<Vec<String>> {
        let svg = |(drawing, (heading, panel)): (Drawing, &(String, Box<dyn Panel>))| {
            let title = if heading.is_empty() { &self.title } else { heading };
            let drawing = Drawing { width: drawing.width.ceil(), height: drawing.height.ceil(), ..drawing };
            svg::document(&drawing, &AltText { title, description: &panel.describe() }, theme, true)
        };
        let pair = self.columns == 2 && self.panels.len() > 1;
        pair.then(|| self.rows().into_iter().flatten().zip(&self.panels).map(svg).collect())
    }

    /// What stands above the panels: the title, and the line below it.
    pub fn titles(&self) -> (&str, &str) {
        (&self.title, &self.subtitle)
    }

    /// The picture as PNG. A PNG has no page to follow: [`Theme::Page`] is drawn light.
    pub fn to_png(&self, theme: Theme) -> Result<Vec<u8>> {
        let theme = if theme == Theme::Page { Theme::LIGHT } else { theme };
        png::render(&self.svg(theme, false), self.scale)
    }

    /// Writes the picture in the format of its path's suffix, `.svg` or `.png`.
    pub fn write(&self, path: &Path) -> Result<()> {
        let suffix = path.extension().and_then(|suffix| suffix.to_str()).unwrap_or("").to_ascii_lowercase();
        let bytes = match suffix.as_str() {
            "svg" => self.to_svg(self.theme).into_bytes(),
            "png" => self.to_png(self.theme)?,
            _ => {
                bail!("{}: pictures are written as .svg or .png; choose one of these endings", path.display())
            }
        };
        std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }

    fn svg(&self, theme: Theme, exact: bool) -> String {
        let description = self.description.clone().unwrap_or_else(|| self.describe());
        svg::document(&self.draw(), &AltText { title: &self.title, description: &description }, theme, exact)
    }

    fn describe(&self) -> String {
        let sentences = self.panels.iter().map(|(heading, panel)| {
            if heading.is_empty() { panel.describe() } else { format!("{heading}: {}", panel.describe()) }
        });
        [self.subtitle.clone()]
            .into_iter()
            .chain(sentences)
            .filter(|s| !s.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Lays out title, panels and note.
    pub fn draw(&self) -> Drawing {
        let body = self.body();
        let widest_line = [
            (&self.title, size::TITLE, FontWeight::Semibold),
            (&self.subtitle, size::SUBTITLE, FontWeight::Regular),
            (&self.note, size::TICK, FontWeight::Regular),
        ]
        .map(|(line, size, weight)| text::width(&text::visible(line), size, weight));
        // Text wraps at the panels' width, but never at less than a readable line.
        let text_width = widest_line.into_iter().fold(0.0, f64::max).min(420.0).max(body.width);
        // Whole pixels: half a row of them at the border would be half transparent.
        let width = (text_width + 2.0 * MARGIN).ceil();

        let mut drawing = Drawing::new(width, 0.0);
        let mut y = MARGIN;
        let paragraph = |drawing: &mut Drawing, y: &mut f64, content: &str, size: f64, weight, paint| {
            for line in text::wrap(content, size, weight, text_width) {
                let line = Text::at(&line, MARGIN, *y + size * 0.6, size).weight(weight).paint(paint);
                drawing.text(line);
                *y += size * 1.4;
            }
        };
        paragraph(&mut drawing, &mut y, &self.title, size::TITLE, FontWeight::Semibold, Paint::Ink);
        paragraph(&mut drawing, &mut y, &self.subtitle, size::SUBTITLE, FontWeight::Regular, Paint::Muted);
        y += if y > MARGIN { 12.0 } else { 0.0 };
        let body_height = body.height;
        drawing.place(body, MARGIN, y);
        y += body_height;
        if !self.note.is_empty() {
            y += 14.0;
            paragraph(&mut drawing, &mut y, &self.note, size::TICK, FontWeight::Regular, Paint::Muted);
        }
        drawing.height = (y + MARGIN).ceil();
        drawing
    }

    /// The panels in rows.
    fn body(&self) -> Drawing {
        let rows = self.rows();
        let column_width = |column: usize| {
            rows.iter().filter_map(|row| row.get(column)).fold(0.0_f64, |most, panel| most.max(panel.width))
        };
        let mut lefts = vec![0.0];
        for column in 0..self.columns.min(self.panels.len().max(1)) {
            lefts.push(lefts[column] + column_width(column) + GAP);
        }
        let mut body = Drawing::new((lefts[lefts.len() - 1] - GAP).clamp(0.0, WIDEST), 0.0);
        let mut y = 0.0;
        for row in rows {
            let height = row.iter().fold(0.0_f64, |most, panel| most.max(panel.height));
            for (panel, &x) in row.into_iter().zip(&lefts) {
                body.place(panel, x, y);
            }
            y += height + GAP;
        }
        body.height = (y - GAP).max(0.0);
        body
    }

    /// Each panel with its heading, in rows in which all data begin at the same height.
    fn rows(&self) -> Vec<Vec<Drawing>> {
        let panels: Vec<(&str, Drawing)> =
            self.panels.iter().map(|(heading, panel)| (heading.as_str(), panel.draw())).collect();
        let row = |row: &[(&str, Drawing)]| -> Vec<Drawing> {
            let heading = if row.iter().any(|(heading, _)| !heading.is_empty()) { 22.0 } else { 0.0 };
            let top = row.iter().fold(0.0_f64, |most, (_, panel)| most.max(panel.plot.y));
            let headed = |(title, panel): &(&str, Drawing)| {
                let down = heading + top - panel.plot.y;
                let mut headed = Drawing::new(panel.width, down + panel.height);
                let title = text::shorten(title, size::HEADING, FontWeight::Semibold, panel.width);
                headed.text(Text::at(&title, 0.0, 8.0, size::HEADING).weight(FontWeight::Semibold));
                headed.place(panel.clone(), 0.0, down);
                headed
            };
            row.iter().map(headed).collect()
        };
        panels.chunks(self.columns).map(row).collect()
    }
}
