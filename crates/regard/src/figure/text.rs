//! The two typefaces, and how wide a text is in them.
//!
//! Text is Inter (its variable font, so that one file has all weights), and DejaVu Sans for the characters that Inter
//! lacks (▁, ∝, Greek extensions, Hebrew, Arabic, …). Both come as crates: a picture needs no installed font. The
//! width is measured by shaping, with the same shaper and the same fallback that later draws the text.

use super::size;
use base64::Engine as _;
use harfrust::{FontRef, ShapeOptions, ShaperData, ShaperInstance, Tag, UnicodeBuffer, Variation};
use resvg::usvg::fontdb;
use std::sync::{Arc, LazyLock};

/// What a browser should use: Inter where it is installed, else what looks closest to it.
pub(crate) const FAMILY: &str =
    "Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

/// For the characters that Inter lacks.
pub(crate) const FALLBACK_FAMILY: &str = "DejaVu Sans";

/// Half the height of a capital, in ems: how far below its middle a text's baseline lies.
pub(crate) const HALF_CAPITAL: f64 = 0.364;

/// The longest text that is laid out, in characters; what is longer is cut first.
const LONGEST: usize = 400;

/// The weight of a font.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FontWeight {
    /// Text.
    Regular,
    /// Headings.
    Semibold,
}

impl FontWeight {
    pub(crate) fn css(self) -> u16 {
        match self {
            FontWeight::Regular => 400,
            FontWeight::Semibold => 600,
        }
    }
}

/// A font, ready to shape with.
struct Face {
    font: FontRef<'static>,
    data: ShaperData,
    instance: Option<ShaperInstance>,
    units: f64,
}

impl Face {
    fn new(bytes: &'static [u8], weight: Option<FontWeight>) -> Option<Self> {
        let font = FontRef::new(bytes).ok()?;
        let instance = weight.map(|weight| {
            ShaperInstance::from_variations(
                &font,
                [Variation { tag: Tag::new(b"wght"), value: f32::from(weight.css()) }],
            )
        });
        let data = ShaperData::new(&font);
        let units = f64::from(data.shaper(&font).instance(instance.as_ref()).build().units_per_em());
        Some(Self { font, data, instance, units })
    }

    /// The width of a text in ems, and whether the font has all its characters.
    fn width(&self, text: &str) -> (f64, bool) {
        let mut buffer = UnicodeBuffer::new();
        buffer.push_str(text);
        buffer.guess_segment_properties();
        let shaper = self.data.shaper(&self.font).instance(self.instance.as_ref()).build();
        let glyphs = shaper.shape(buffer, ShapeOptions::new());
        let advance: f64 = glyphs.glyph_positions().iter().map(|place| f64::from(place.x_advance)).sum();
        (advance / self.units, glyphs.glyph_infos().iter().all(|glyph| glyph.glyph_id != 0))
    }

    fn has(&self, c: char) -> bool {
        self.width(c.encode_utf8(&mut [0; 4])).1
    }
}

/// Which font has a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Font {
    Inter,
    DejaVu,
    /// Neither: a box is drawn.
    Neither,
}

static INTER: LazyLock<&'static [u8]> = LazyLock::new(|| without_substitutions(ttf_inter::REGULAR).leak());
static REGULAR: LazyLock<Option<Face>> = LazyLock::new(|| Face::new(&INTER, Some(FontWeight::Regular)));
static SEMIBOLD: LazyLock<Option<Face>> = LazyLock::new(|| Face::new(&INTER, Some(FontWeight::Semibold)));
static FALLBACK: LazyLock<Option<Face>> = LazyLock::new(|| Face::new(dejavu::sans::regular(), None));

/// Both fonts, for the renderer: Inter first.
pub(crate) static DATABASE: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
    let mut database = fontdb::Database::new();
    database.load_font_data(INTER.to_vec());
    database.load_font_data(dejavu::sans::regular().to_vec());
    Arc::new(database)
});

/// The font with its table of substitutions renamed, so that nothing reads it. Inter turns `->` into an arrow and the x
/// of `3x4` into a multiplication sign; here a token must be shown as it is.
fn without_substitutions(font: &[u8]) -> Vec<u8> {
    let mut font = font.to_vec();
    let tables = font.get(4..6).map_or(0, |count| usize::from(u16::from_be_bytes([count[0], count[1]])));
    for table in 0..tables {
        let start = 12 + 16 * table;
        if let Some(tag) = font.get_mut(start..start + 4)
            && tag == b"GSUB"
        {
            tag.copy_from_slice(b"GSUX"); // keeps the directory sorted
        }
    }
    font
}

/// CSS that gives a page Inter itself, about a megabyte, so that it needs no installed font either.
pub fn font_face() -> String {
    let font = base64::engine::general_purpose::STANDARD.encode(ttf_inter::REGULAR);
    format!(
        "@font-face{{font-family:Inter;font-weight:100 900;src:url(data:font/otf;base64,{font})}}\n\
         svg.figure{{font-feature-settings:'calt' 0}}\n"
    )
}

/// The text in pieces, each with the font that has its characters.
pub(crate) fn runs(text: &str) -> Vec<(&str, Font)> {
    let mut runs: Vec<(usize, Font)> = Vec::new();
    for (start, c) in text.char_indices() {
        let font = font_of(c);
        if runs.last().is_none_or(|&(_, last)| last != font) {
            runs.push((start, font));
        }
    }
    let ends = runs.iter().skip(1).map(|run| run.0).chain([text.len()]);
    runs.iter().zip(ends).map(|(&(start, font), end)| (text.get(start..end).unwrap_or(""), font)).collect()
}

fn font_of(c: char) -> Font {
    if c.is_ascii() || REGULAR.as_ref().is_some_and(|face| face.has(c)) {
        Font::Inter
    } else if FALLBACK.as_ref().is_some_and(|face| face.has(c)) {
        Font::DejaVu
    } else {
        Font::Neither
    }
}

/// The width of a text and whether the fonts have all its characters.
pub(crate) fn measure(text: &str, size: f64, weight: FontWeight) -> (f64, bool) {
    let inter = if weight == FontWeight::Regular { &*REGULAR } else { &*SEMIBOLD };
    let (mut total, mut complete) = (0.0, true);
    for (piece, font) in runs(text) {
        let face = match font {
            Font::Inter => inter.as_ref(),
            Font::DejaVu => FALLBACK.as_ref(),
            Font::Neither => None,
        };
        complete &= face.is_some();
        // A box, or in a browser probably a wide character of another font.
        total += face.map_or_else(|| piece.chars().count() as f64, |face| face.width(piece).0);
    }
    (total * size, complete)
}

/// The width of a text in pixels.
pub fn width(text: &str, size: f64, weight: FontWeight) -> f64 {
    measure(text, size, weight).0
}

/// The text if it fits, otherwise its beginning and an ellipsis.
pub fn shorten(text: &str, size: f64, weight: FontWeight, limit: f64) -> String {
    let text = visible(text);
    if width(&text, size, weight) <= limit {
        return text;
    }
    let ends: Vec<usize> = text.char_indices().map(|(start, _)| start).collect();
    let with_ellipsis = |end: usize| format!("{}…", text.get(..end).unwrap_or("").trim_end());
    let fitting = ends.partition_point(|&end| width(&with_ellipsis(end), size, weight) <= limit);
    with_ellipsis(fitting.checked_sub(1).and_then(|last| ends.get(last)).copied().unwrap_or(0))
}

/// A label at the size of ticks, shortened to a width.
pub(crate) fn short_label(text: &str, limit: f64) -> String {
    shorten(text, size::TICK, FontWeight::Regular, limit)
}

/// The width of a label at the size of ticks.
pub(crate) fn label_width(text: &str) -> f64 {
    width(text, size::TICK, FontWeight::Regular)
}

/// The width of the widest label at the size of ticks.
pub(crate) fn widest_label<'a>(labels: impl IntoIterator<Item = &'a String>) -> f64 {
    labels.into_iter().map(|label| label_width(label)).fold(0.0, f64::max)
}

/// The text in lines no wider than the limit, broken at spaces; a single word that is too wide is shortened.
pub fn wrap(text: &str, size: f64, weight: FontWeight, limit: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in visible(text).split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size, weight) <= limit => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(shorten(word, size, weight, limit)),
        }
    }
    lines
}

/// A label that can be drawn: line breaks as ↵, tabs as ⇥, other control characters (also those that change the
/// direction of what follows) as �, a text of nothing but spaces as ␣.
pub fn visible(text: &str) -> String {
    let blank = !text.is_empty() && text.chars().all(|c| c == ' ');
    let mut shown: String =
        text.chars().take(LONGEST).map(|c| if blank { '␣' } else { drawable(c) }).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

fn drawable(c: char) -> char {
    match c {
        '\n' => '↵',
        '\t' => '⇥',
        c if c.is_control() => '\u{fffd}',
        // Marks and overrides of direction, line and paragraph separators, non-characters.
        '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{2028}'
        | '\u{2029}' => '\u{fffd}',
        c if (u32::from(c) & 0xfffe) == 0xfffe || ('\u{fdd0}'..='\u{fdef}').contains(&c) => '\u{fffd}',
        c => c,
    }
}
