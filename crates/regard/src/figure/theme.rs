//! What a mark is painted *for* (ink, grid, the third series, level 40 of a colour map) and how that becomes a colour:
//! light, dark, or left to the page.

use super::colour::{self, CLASSES, LEVELS, Rgb};
use std::fmt::Write as _;

/// A picture on white or on black.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shade {
    /// Dark ink on white paper.
    Light,
    /// Light ink on dark paper.
    Dark,
}

/// How an SVG gets its colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// A file of its own, on paper of its own.
    Fixed(Shade),
    /// Inside a page that has [`stylesheet`]: transparent, and light or dark as the page is.
    Page,
}

impl Theme {
    /// On white.
    pub const LIGHT: Theme = Theme::Fixed(Shade::Light);
    /// On black.
    pub const DARK: Theme = Theme::Fixed(Shade::Dark);
}

/// What a mark is painted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Text and whatever matters most.
    Ink,
    /// Text that comes second: ticks, notes.
    Muted,
    /// The lines of axes.
    Rule,
    /// The lines of the grid, hatching.
    Grid,
    /// The ground.
    Paper,
    /// A cell whose value is not a number.
    Missing,
    /// A series or class.
    Class(usize),
    /// A level of the sequential map, 0 to [`LEVELS`].
    Sequential(u8),
    /// A level of the diverging map, 0 to [`LEVELS`].
    Diverging(u8),
}

impl Paint {
    /// The colour on light or dark paper.
    pub fn rgb(self, shade: Shade) -> Rgb {
        let pick = |light: f64, dark: f64| match shade {
            Shade::Light => colour::oklch(light, 0.012, 260.0),
            Shade::Dark => colour::oklch(dark, 0.012, 260.0),
        };
        match self {
            Paint::Ink => pick(0.24, 0.93),
            Paint::Muted => pick(0.46, 0.74),
            Paint::Rule => pick(0.62, 0.55),
            Paint::Grid => pick(0.91, 0.32),
            Paint::Missing => pick(0.80, 0.44),
            Paint::Paper if shade == Shade::Light => Rgb([255; 3]),
            Paint::Paper => colour::oklch(0.20, 0.012, 260.0),
            Paint::Class(index) => colour::class(index, shade),
            Paint::Sequential(level) => colour::sequential(level, shade),
            Paint::Diverging(level) => colour::diverging(level, shade),
        }
    }

    /// The ink that is read best on this paint, on either paper.
    #[must_use]
    pub fn ink(self) -> Paint {
        let strong = match self {
            // Where both inks are read equally well, on either paper.
            Paint::Sequential(level) => level > 61,
            Paint::Diverging(level) => level.abs_diff(LEVELS / 2) > 45,
            Paint::Class(_) | Paint::Ink | Paint::Muted => true,
            _ => false,
        };
        if strong { Paint::Paper } else { Paint::Ink }
    }

    /// The name of its CSS variable.
    fn variable(self) -> String {
        match self {
            Paint::Ink => "--figure-ink".into(),
            Paint::Muted => "--figure-muted".into(),
            Paint::Rule => "--figure-rule".into(),
            Paint::Grid => "--figure-grid".into(),
            Paint::Paper => "--figure-paper".into(),
            Paint::Missing => "--figure-missing".into(),
            Paint::Class(index) => format!("--figure-class-{}", index % CLASSES),
            Paint::Sequential(level) => format!("--figure-s{}", level.min(LEVELS)),
            Paint::Diverging(level) => format!("--figure-d{}", level.min(LEVELS)),
        }
    }

    /// The value of a `fill` or `stroke`.
    pub(crate) fn css(self, theme: Theme) -> String {
        match theme {
            Theme::Fixed(shade) => self.rgb(shade).hex(),
            Theme::Page => format!("var({},{})", self.variable(), self.rgb(Shade::Light).hex()),
        }
    }

    fn all() -> impl Iterator<Item = Paint> {
        [Paint::Ink, Paint::Muted, Paint::Rule, Paint::Grid, Paint::Paper, Paint::Missing]
            .into_iter()
            .chain((0..CLASSES).map(Paint::Class))
            .chain((0..=LEVELS).map(Paint::Sequential))
            .chain((0..=LEVELS).map(Paint::Diverging))
    }
}

/// The CSS for a page with figures in it. They are light or dark by the reader's system setting, or as the page sets
/// with `data-theme="light"` or `"dark"` on its root element. The page may also use the colours for itself, such as
/// `var(--figure-ink)`.
pub fn stylesheet() -> String {
    let variables = |shade: Shade| {
        Paint::all().fold(String::new(), |mut text, paint| {
            let _ = write!(text, "{}:{};", paint.variable(), paint.rgb(shade).hex());
            text
        })
    };
    let (light, dark) = (variables(Shade::Light), variables(Shade::Dark));
    let swap =
        |root: &str| format!("{root} .figure-light{{display:none}}{root} .figure-dark{{display:inline}}");
    format!(
        ":root{{{light}}}\n:root[data-theme=dark]{{{dark}}}\n{}\n\
         @media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}\n{}}}\n\
         svg.figure{{max-width:100%;height:auto}}\n",
        swap(":root[data-theme=dark]"),
        swap(":root:not([data-theme=light])"),
    )
}
