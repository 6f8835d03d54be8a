//! A drawing as PNG: the SVG, rendered with the two fonts of this program and no others.

use super::text::DATABASE;
use anyhow::{Context as _, Result, anyhow, bail};
use resvg::{tiny_skia, usvg};

/// The most pixels a picture may have: 256 MB while it is drawn.
const MOST_PIXELS: f64 = 64e6;

/// Renders an SVG at `scale` pixels a unit.
pub(crate) fn render(svg: &str, scale: f64) -> Result<Vec<u8>> {
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

/// Whatever family a text asks for, it gets the first font, and the second one for what the first lacks.
fn options() -> usvg::Options<'static> {
    usvg::Options {
        fontdb: DATABASE.clone(),
        font_resolver: usvg::FontResolver {
            select_font: Box::new(|_, database| database.faces().next().map(|face| face.id)),
            select_fallback: Box::new(|_, tried, database| {
                database.faces().map(|face| face.id).find(|id| !tried.contains(id))
            }),
        },
        ..usvg::Options::default()
    }
}
