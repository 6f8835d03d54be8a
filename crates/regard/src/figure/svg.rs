//! A drawing as SVG: real text, a title and a description, no ids (several pictures share a page), no scripts.

use super::drawing::{Anchor, Drawing, Mark, Pixel, Raster, Rect, Stroke, Text};
use super::text::{FALLBACK_FAMILY, FAMILY, Font, measure, runs};
use super::theme::{Paint, Shade, Theme};
use crate::figure::colour::LEVELS;
use base64::Engine as _;
use std::fmt::Write as _;

/// Title and description for screen readers.
pub(crate) struct AltText<'a> {
    pub title: &'a str,
    pub description: &'a str,
}

/// The whole document. `exact` pins the width of each text to the measured one, so that another font in the reader's
/// browser cannot push labels into each other.
pub(crate) fn document(drawing: &Drawing, about: &AltText, theme: Theme, exact: bool) -> String {
    let (width, height) = (Px(drawing.width), Px(drawing.height));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"figure\" role=\"img\" xml:space=\"preserve\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"{FAMILY}\" style=\"font-variant-ligatures:none\">\n\
         <title>{}</title>\n<desc>{}</desc>\n",
        Escaped(about.title),
        Escaped(about.description),
    );
    if let Theme::Fixed(_) = theme {
        let paper = Paint::Paper.css(theme);
        let _ = writeln!(svg, "<rect width=\"{width}\" height=\"{height}\" fill=\"{paper}\"/>");
    }
    let mut writer = Writer { svg, theme, exact };
    for mark in &drawing.marks {
        writer.mark(mark);
    }
    writer.svg.push_str("</svg>\n");
    writer.svg
}

struct Writer {
    svg: String,
    theme: Theme,
    exact: bool,
}

impl Writer {
    fn mark(&mut self, mark: &Mark) {
        match mark {
            Mark::Rect { rect, radius, fill, stroke, opacity, tip } => {
                self.open("rect", rect);
                if *radius > 0.0 {
                    self.number("rx", *radius);
                } else if stroke.is_none() {
                    // Neighbouring cells must meet without a seam of the ground between them.
                    self.svg.push_str(" shape-rendering=\"crispEdges\"");
                }
                self.paint(fill.map(|paint| (paint, *opacity)), stroke.as_ref());
                self.close("rect", tip.as_deref());
            }
            Mark::Circle { x, y, radius, fill, stroke, tip } => {
                let _ = write!(self.svg, "<circle cx=\"{}\" cy=\"{}\" r=\"{}\"", Px(*x), Px(*y), Px(*radius));
                self.paint(fill.map(|paint| (paint, 1.0)), stroke.as_ref());
                self.close("circle", tip.as_deref());
            }
            Mark::Path { lines, closed, fill, stroke, tip } => {
                self.path(lines, *closed);
                self.paint(*fill, stroke.as_ref());
                self.close("path", tip.as_deref());
            }
            Mark::Image { rect, raster } => self.image(rect, raster),
            Mark::Text(text) => self.text(text),
        }
    }

    fn open(&mut self, name: &str, rect: &Rect) {
        let (x, y, width, height) = (Px(rect.x), Px(rect.y), Px(rect.width), Px(rect.height));
        let _ = write!(self.svg, "<{name} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"");
    }

    fn number(&mut self, name: &str, value: f64) {
        let _ = write!(self.svg, " {name}=\"{}\"", Px(value));
    }

    fn paint(&mut self, fill: Option<(Paint, f64)>, stroke: Option<&Stroke>) {
        let fill_css = fill.map_or("none".to_owned(), |(paint, _)| paint.css(self.theme));
        let _ = write!(self.svg, " fill=\"{fill_css}\"");
        if let Some((_, opacity)) = fill.filter(|fill| fill.1 < 1.0) {
            self.number("fill-opacity", opacity);
        }
        let Some(stroke) = stroke else { return };
        let _ = write!(self.svg, " stroke=\"{}\"", stroke.paint.css(self.theme));
        self.number("stroke-width", stroke.width);
        if stroke.opacity < 1.0 {
            self.number("stroke-opacity", stroke.opacity);
        }
        if stroke.dash.is_empty() {
            self.svg.push_str(" stroke-linejoin=\"round\" stroke-linecap=\"round\"");
        } else {
            let dashes: Vec<String> = stroke.dash.iter().map(|&length| Px(length).to_string()).collect();
            let _ = write!(self.svg, " stroke-dasharray=\"{}\"", dashes.join(" "));
        }
    }

    /// Ends an element; the tip is what a browser shows when the mouse rests on it.
    fn close(&mut self, name: &str, tip: Option<&str>) {
        match tip {
            Some(tip) => {
                let _ = writeln!(self.svg, "><title>{}</title></{name}>", Escaped(tip));
            }
            None => self.svg.push_str("/>\n"),
        }
    }

    fn path(&mut self, lines: &[Vec<(f64, f64)>], closed: bool) {
        self.svg.push_str("<path d=\"");
        for line in lines {
            for (index, &(x, y)) in line.iter().enumerate() {
                let command = if index == 0 { 'M' } else { 'L' };
                let _ = write!(self.svg, "{command}{} {}", Px(x), Px(y));
            }
            if closed {
                self.svg.push('Z');
            }
        }
        self.svg.push('"');
    }

    fn text(&mut self, text: &Text) {
        let (x, y) = (Px(text.x), Px(text.baseline()));
        let _ = write!(self.svg, "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\"", Px(text.size));
        match text.anchor {
            Anchor::Start => {}
            Anchor::Middle => self.svg.push_str(" text-anchor=\"middle\""),
            Anchor::End => self.svg.push_str(" text-anchor=\"end\""),
        }
        if text.weight.css() != 400 {
            let _ = write!(self.svg, " font-weight=\"{}\"", text.weight.css());
        }
        if text.angle != 0.0 {
            let _ = write!(self.svg, " transform=\"rotate({} {x} {})\"", Px(text.angle), Px(text.y));
        }
        let (width, complete) = measure(&text.content, text.size, text.weight);
        if self.exact && complete && text.content.chars().count() > 2 {
            let _ = write!(self.svg, " textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\"", Px(width));
        }
        if text.halo {
            let paper = Paint::Paper.css(self.theme);
            let _ = write!(
                self.svg,
                " stroke=\"{paper}\" stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\""
            );
        }
        let _ = write!(self.svg, " fill=\"{}\">", text.paint.css(self.theme));
        for (piece, font) in runs(&text.content) {
            let _ = match font {
                Font::DejaVu => write!(
                    self.svg,
                    "<tspan font-family=\"'{FALLBACK_FAMILY}', sans-serif\">{}</tspan>",
                    Escaped(piece)
                ),
                _ => write!(self.svg, "{}", Escaped(piece)),
            };
        }
        self.svg.push_str("</text>\n");
    }

    fn image(&mut self, rect: &Rect, raster: &Raster) {
        match self.theme {
            Theme::Fixed(shade) => self.one_image(rect, raster, shade, ""),
            // Pixels cannot follow a variable: both are there, and the stylesheet shows one.
            Theme::Page => {
                self.one_image(rect, raster, Shade::Light, " class=\"figure-light\"");
                self.one_image(rect, raster, Shade::Dark, " class=\"figure-dark\" display=\"none\"");
            }
        }
    }

    fn one_image(&mut self, rect: &Rect, raster: &Raster, shade: Shade, class: &str) {
        // Enlarged pixels are cells and stay sharp; reduced ones are averaged.
        let enlarged = rect.width >= raster.width as f64 && rect.height >= raster.height as f64;
        let rendering = if enlarged { " style=\"image-rendering:pixelated\"" } else { "" };
        self.open("image", rect);
        let _ =
            write!(self.svg, " preserveAspectRatio=\"none\"{rendering}{class} href=\"data:image/png;base64,");
        base64::engine::general_purpose::STANDARD.encode_string(palette_png(raster, shade), &mut self.svg);
        self.svg.push_str("\"/>\n");
    }
}

/// The raster as a PNG with a palette: one byte a pixel before compression.
fn palette_png(raster: &Raster, shade: Shade) -> Vec<u8> {
    let level = |level| if raster.diverging { Paint::Diverging(level) } else { Paint::Sequential(level) };
    let entries = (0..=LEVELS).map(level).chain([Paint::Missing, Paint::Paper]);
    let palette: Vec<u8> = entries.flat_map(|paint| paint.rgb(shade).0).collect();
    let mut opacity = vec![255; palette.len() / 3];
    if let Some(masked) = opacity.get_mut(usize::from(Pixel::Masked.index())) {
        *masked = 0;
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, raster.width as u32, raster.height as u32);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(palette);
    encoder.set_trns(opacity);
    let pixels: Vec<u8> = raster.pixels.iter().map(|pixel| pixel.index()).collect();
    // Writing to memory fails only if the count of pixels were wrong, and the raster made both.
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(&pixels)?;
        writer.finish()
    });
    debug_assert!(written.is_ok(), "{written:?}");
    bytes
}

/// A length with at most two decimals.
struct Px(f64);

impl std::fmt::Display for Px {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rounded = (self.0 * 100.0).round() / 100.0;
        // Never "-0" or "NaN": both would be read, but differently by different programs.
        write!(f, "{}", if rounded == 0.0 || !rounded.is_finite() { 0.0 } else { rounded })
    }
}

/// Text that cannot be taken for markup, and without the characters that XML forbids.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => f.write_str("\u{fffd}")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}
