//! A drawing as PNG: the SVG, rendered with the two fonts of this program and no others.

use super::text::{DATABASE, FALLBACK_FAMILY};
use anyhow::{Context as _, Result, anyhow, bail};
use resvg::{tiny_skia, usvg};

/// The most pixels a picture may have: 256 MB while it is drawn.
const MOST_PIXELS: f64 = 64e6;

/// Renders an SVG of this module at `scale` pixels a unit.
pub fn render(svg: &str, scale: f64) -> Result<Vec<u8>> {
    let tree = usvg::Tree::from_str(svg, &options()).context("the picture is not valid SVG")?;
    let (width, height) = (f64::from(tree.size().width()), f64::from(tree.size().height()));
    if !(scale > 0.0 && width * height * scale * scale <= MOST_PIXELS) {
        bail!(
            "a picture of {width} × {height} at scale {scale} is too large: at most {MOST_PIXELS} pixels are drawn"
        );
    }
    let pixels = |length: f64| ((length * scale).ceil() as u32).max(1);
    let mut pixmap = tiny_skia::Pixmap::new(pixels(width), pixels(height))
        .ok_or_else(|| anyhow!("a picture of {width} × {height} at scale {scale} does not fit in memory"))?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(scale as f32, scale as f32), &mut pixmap.as_mut());
    pixmap.encode_png().context("the picture could not be encoded as PNG")
}

/// A text gets the second font if it requests that, otherwise the first. The renderer's own fallback is off: it changes
/// the font of a whole text for one character, while the SVG requests the second font just where it is needed.
fn options() -> usvg::Options<'static> {
    usvg::Options {
        fontdb: DATABASE.clone(),
        font_resolver: usvg::FontResolver {
            select_font: Box::new(|font, database| {
                let second = font
                    .families()
                    .first()
                    .is_some_and(|family| family.to_string().contains(FALLBACK_FAMILY));
                database.faces().nth(usize::from(second)).map(|face| face.id)
            }),
            select_fallback: Box::new(|_, _, _| None),
        },
        ..usvg::Options::default()
    }
}
