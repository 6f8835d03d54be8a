//! Colours, computed in OKLab so that equal steps look equal (Björn Ottosson, *A perceptual color space for image
//! processing*, 2020).
//!
//! The sequential map changes lightness evenly from end to end, so it reads the same in grey and to any eye; hue only
//! helps. The light map and the dark map are one path of hues walked in opposite directions: small values are always
//! near the paper. The diverging map has its middle at the paper and two arms of equal lightness, blue and orange, the pair
//! that all common kinds of colour blindness distinguish.

use super::theme::Shade;

/// A colour as the screen takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rgb(pub [u8; 3]);

impl Rgb {
    /// `#rrggbb`
    pub fn hex(self) -> String {
        let [red, green, blue] = self.0;
        format!("#{red:02x}{green:02x}{blue:02x}")
    }

    /// Red, green and blue in proportion to light, 0 to 1.
    pub fn linear(self) -> [f64; 3] {
        self.0.map(|value| {
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// Lightness, green–red and blue–yellow.
    pub fn oklab(self) -> [f64; 3] {
        let [red, green, blue] = self.linear();
        let l = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue).cbrt();
        let m = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue).cbrt();
        let s = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue).cbrt();
        [
            0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
            1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
            0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
        ]
    }
}

/// The colour of a lightness (0 to 1), a chroma (0 is grey) and a hue in degrees. Where the screen cannot show so much
/// chroma, it is the most that it can show at that lightness and hue.
pub fn oklch(lightness: f64, chroma: f64, hue: f64) -> Rgb {
    let inside =
        |chroma: f64| linear_of(lightness, chroma, hue).iter().all(|v| (-1e-6..=1.0 + 1e-6).contains(v));
    let (mut low, mut high) = (0.0, chroma);
    if inside(chroma) {
        low = chroma;
    } else {
        for _ in 0..24 {
            let middle = f64::midpoint(low, high);
            if inside(middle) { low = middle } else { high = middle }
        }
    }
    Rgb(linear_of(lightness, low, hue).map(|value| {
        let value = value.clamp(0.0, 1.0);
        let curved = if value <= 0.0031308 { 12.92 * value } else { 1.055 * value.powf(1.0 / 2.4) - 0.055 };
        (curved * 255.0).round() as u8
    }))
}

fn linear_of(lightness: f64, chroma: f64, hue: f64) -> [f64; 3] {
    let (sin, cos) = hue.to_radians().sin_cos();
    let (a, b) = (chroma * cos, chroma * sin);
    let l = (lightness + 0.3963377774 * a + 0.2158037573 * b).powi(3);
    let m = (lightness - 0.1055613458 * a - 0.0638541728 * b).powi(3);
    let s = (lightness - 0.0894841775 * a - 1.2914855480 * b).powi(3);
    [
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
    ]
}

/// The last level of a colour map; the middle one is half of it.
pub const LEVELS: u8 = 128;

/// Sequential: from the paper to full strength.
pub fn sequential(level: u8, shade: Shade) -> Rgb {
    let share = f64::from(level.min(LEVELS)) / f64::from(LEVELS);
    let lightness = match shade {
        Shade::Light => 0.975 - 0.705 * share,
        Shade::Dark => 0.255 + 0.685 * share,
    };
    // One curve for both: pale yellow, green, blue, deep violet.
    let depth = ((0.975 - lightness) / 0.705).clamp(0.0, 1.0);
    let hue = 105.0 + 180.0 * depth.powf(0.85);
    // As much chroma as every screen can show along the way: a limit that cut in would be seen as an edge.
    let chroma = 0.012 + 0.088 * (depth.min(0.5) * std::f64::consts::PI).sin();
    // On dark paper a saturated zero would draw the eye to nothing.
    let chroma = if shade == Shade::Dark { chroma * (0.4 + 1.5 * share).min(1.0) } else { chroma };
    oklch(lightness, chroma, hue)
}

/// Diverging: blue for negative, the paper in the middle, orange for positive.
pub fn diverging(level: u8, shade: Shade) -> Rgb {
    let signed = f64::from(level.min(LEVELS)) / f64::from(LEVELS) * 2.0 - 1.0;
    let share = signed.abs();
    let hue = if signed < 0.0 { 255.0 } else { 48.0 };
    let (lightness, most) = match shade {
        Shade::Light => (0.975 - 0.475 * share, 0.13),
        Shade::Dark => (0.270 + 0.450 * share, 0.12),
    };
    oklch(lightness, most * share.powf(0.9), hue)
}

/// How many classes have a colour of their own; with shapes and dashes more can be distinguished.
pub const CLASSES: usize = 6;

/// The colour of a class or series. They differ in hue and in lightness, so that they survive colour blindness and grey.
pub fn class(index: usize, shade: Shade) -> Rgb {
    const LIGHT: [(f64, f64, f64); CLASSES] = [
        (0.46, 0.16, 260.0),
        (0.69, 0.18, 50.0),
        (0.53, 0.11, 166.0),
        (0.39, 0.17, 335.0),
        (0.68, 0.11, 232.0),
        (0.26, 0.01, 260.0),
    ];
    const DARK: [(f64, f64, f64); CLASSES] = [
        (0.66, 0.15, 255.0),
        (0.77, 0.16, 60.0),
        (0.72, 0.12, 168.0),
        (0.62, 0.17, 348.0),
        (0.85, 0.09, 222.0),
        (0.96, 0.00, 0.0),
    ];
    let (lightness, chroma, hue) = match shade {
        Shade::Light => LIGHT[index % CLASSES],
        Shade::Dark => DARK[index % CLASSES],
    };
    oklch(lightness, chroma, hue)
}
