//! The width of a text is the width that is drawn.

use super::texts;
use regard::figure::{
    ColourScale, FontWeight, Panel, Passage, Picture, Theme, Words, shorten, visible, width,
};

/// The leftmost and rightmost column with ink in a PNG.
fn ink(png: &[u8]) -> (usize, usize) {
    let image = decoded(png);
    let dark = |x: usize| (0..image.height).any(|y| image.pixel(x, y)[1] < 140);
    let first = (0..image.width).find(|&x| dark(x)).unwrap();
    let last = (0..image.width).rfind(|&x| dark(x)).unwrap();
    (first, last)
}

pub struct Image {
    pub width: usize,
    pub height: usize,
    bytes: Vec<u8>,
}

impl Image {
    pub fn pixel(&self, x: usize, y: usize) -> [u8; 3] {
        let start = (y * self.width + x) * 4;
        [self.bytes[start], self.bytes[start + 1], self.bytes[start + 2]]
    }
}

/// Decodes a PNG of eight-bit RGBA.
pub fn decoded(bytes: &[u8]) -> Image {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let mut buffer = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut buffer).unwrap();
    assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgba, png::BitDepth::Eight));
    Image { width: info.width as usize, height: info.height as usize, bytes: buffer }
}

#[test]
fn a_text_is_as_wide_as_measured() {
    // Latin with accents, kerning pairs, digits, mathematics, arrows, and characters that only the second font has.
    let lines = [
        "Attention to WAVE Tokens",
        "Čeština, Übung, señor, ğ Ġ",
        "√dₖ · −0.5 × 10⁻³ ≤ 1 → 2",
        "loss ∝ N ▁the ∈ ⟨x⟩ H",
    ];
    for line in lines {
        let scale = 4.0;
        let png = Picture::new(line).scale(scale).to_png(Theme::LIGHT).unwrap();
        let (first, last) = ink(&png);
        let drawn = (last - first) as f64 / scale;
        let measured = width(line, 16.0, FontWeight::Semibold);
        // The first and last letter have up to a pixel and a half of room beside their ink.
        assert!((measured - drawn - 1.5).abs() < 1.8, "{line}: measured {measured}, drawn {drawn}");
        assert!((first as f64 / scale - 20.0).abs() < 2.5);
    }
}

#[test]
fn tokens_are_shown_as_they_are() {
    // A font that turned these into an arrow or a multiplication sign would change their width.
    for (whole, parts) in [("->", ["-", ">"]), ("3x", ["3", "x"])] {
        let apart: f64 = parts.iter().map(|part| width(part, 100.0, FontWeight::Regular)).sum();
        let together = width(whole, 100.0, FontWeight::Regular);
        assert!((together - apart).abs() < 8.0, "{whole}: {together} against {apart}");
    }
    let x_between_digits = width("3x4", 100.0, FontWeight::Regular);
    let multiplication = width("3×4", 100.0, FontWeight::Regular);
    assert!((x_between_digits - multiplication).abs() > 1.0);
}

#[test]
fn long_text_ends_in_an_ellipsis_and_fits() {
    let word = "internationalisation";
    for limit in [20.0, 35.0, 60.0, 90.0] {
        let short = shorten(word, 11.0, FontWeight::Regular, limit);
        assert!(short.ends_with('…') && width(&short, 11.0, FontWeight::Regular) <= limit, "{short}");
        assert!(word.starts_with(short.trim_end_matches('…')));
    }
    assert_eq!(shorten(word, 11.0, FontWeight::Regular, 500.0), word);
    // Cut between characters, never inside one.
    assert!(shorten("žluťoučký kůň úpěl ďábelské ódy", 11.0, FontWeight::Regular, 50.0).ends_with('…'));
}

#[test]
fn what_cannot_be_seen_is_made_visible() {
    assert_eq!(visible("a\nb\tc"), "a↵b⇥c");
    assert_eq!(visible("  "), "␣␣");
    assert_eq!(visible("\u{0}\u{1b}\u{202e}x\u{feff}"), format!("\u{fffd}\u{fffd}\u{fffd}x\u{feff}"));
    assert_eq!(visible(&"x".repeat(1_000_000)).chars().count(), 401);
    let words = Words::new(ColourScale::sequential("")).passage(Passage::new([("\n", 0.5), (" ", 0.1)]));
    assert!(texts(&words.draw()).contains(&"↵".to_owned()));
}
