//! Colour maps: even, readable in grey, by the colour-blind and on either paper.

use regard::figure::{CLASSES, LEVELS, Paint, Rgb, Shade, class, diverging, oklch, sequential};

const SHADES: [Shade; 2] = [Shade::Light, Shade::Dark];

fn lightness(colour: Rgb) -> f64 {
    colour.oklab()[0]
}

fn luminance(colour: Rgb) -> f64 {
    let [red, green, blue] = colour.linear();
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// The contrast ratio of WCAG 2.
fn contrast(a: Rgb, b: Rgb) -> f64 {
    let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
    if a > b { a / b } else { b / a }
}

#[test]
fn sequential_map_changes_lightness_in_even_steps() {
    for shade in SHADES {
        let steps: Vec<f64> = (0..LEVELS)
            .map(|level| lightness(sequential(level + 1, shade)) - lightness(sequential(level, shade)))
            .collect();
        let sign = if shade == Shade::Light { -1.0 } else { 1.0 };
        assert!(steps.iter().all(|step| step * sign > 0.0), "{shade:?} turns back");
        // Eight bits a channel round each colour a little; windows of eight steps are even all the same.
        let windows: Vec<f64> = steps.windows(8).map(|window| window.iter().sum::<f64>().abs()).collect();
        let (least, most) = windows.iter().fold((1.0_f64, 0.0_f64), |(l, m), &w| (l.min(w), m.max(w)));
        assert!(most / least < 1.15, "{shade:?}: steps between {least} and {most}");
    }
}

#[test]
fn colour_maps_begin_near_the_paper() {
    for shade in SHADES {
        let paper = lightness(Paint::Paper.rgb(shade));
        assert!((lightness(sequential(0, shade)) - paper).abs() < 0.08);
        assert!((lightness(diverging(LEVELS / 2, shade)) - paper).abs() < 0.08);
        assert!((lightness(sequential(LEVELS, shade)) - paper).abs() > 0.6);
    }
}

#[test]
fn diverging_map_has_two_arms_of_equal_lightness() {
    for shade in SHADES {
        for step in 1..=LEVELS / 2 {
            let (below, above) = (diverging(LEVELS / 2 - step, shade), diverging(LEVELS / 2 + step, shade));
            assert!((lightness(below) - lightness(above)).abs() < 0.012, "{shade:?} {step}");
            // Blue against orange: negative and positive blue–yellow.
            assert!(below.oklab()[2] < above.oklab()[2]);
        }
    }
}

#[test]
fn digits_can_be_read_on_every_level() {
    for shade in SHADES {
        for level in 0..=LEVELS {
            for paint in [Paint::Sequential(level), Paint::Diverging(level)] {
                let ratio = contrast(paint.rgb(shade), paint.ink().rgb(shade));
                assert!(ratio > 3.2, "{paint:?} on {shade:?}: {ratio}");
            }
        }
    }
}

#[test]
fn text_and_lines_stand_out_from_the_paper() {
    for shade in SHADES {
        let paper = Paint::Paper.rgb(shade);
        assert!(contrast(Paint::Ink.rgb(shade), paper) > 12.0);
        assert!(contrast(Paint::Muted.rgb(shade), paper) > 4.5);
        for index in 0..CLASSES {
            assert!(contrast(class(index, shade), paper) > 2.7, "class {index} on {shade:?}");
        }
    }
}

/// How a colour looks to those without long-wave (or medium-wave) cones, in linear RGB: Viénot, Brettel & Mollon,
/// *Digital video colourmaps for checking the legibility of displays by dichromats*, 1999.
fn dichromat(colour: Rgb, protan: bool) -> Rgb {
    let [red, green, blue] = colour.linear();
    let seen = if protan {
        let yellow = 0.11238 * red + 0.88762 * green;
        [yellow, yellow, 0.00401 * red - 0.00401 * green + blue]
    } else {
        let yellow = 0.29275 * red + 0.70725 * green;
        [yellow, yellow, -0.02234 * red + 0.02234 * green + blue]
    };
    Rgb(seen.map(|value| {
        let value = value.clamp(0.0, 1.0);
        let curved = if value <= 0.0031308 { 12.92 * value } else { 1.055 * value.powf(1.0 / 2.4) - 0.055 };
        (curved * 255.0).round() as u8
    }))
}

#[test]
fn classes_differ_for_every_eye() {
    let distance = |a: Rgb, b: Rgb| {
        let (a, b) = (a.oklab(), b.oklab());
        (0..3).map(|i| (a[i] - b[i]).powi(2)).sum::<f64>().sqrt()
    };
    for shade in SHADES {
        for a in 0..CLASSES {
            for b in 0..a {
                let (x, y) = (class(a, shade), class(b, shade));
                assert!(distance(x, y) > 0.14, "{a} and {b} on {shade:?}");
                for protan in [false, true] {
                    let seen = distance(dichromat(x, protan), dichromat(y, protan));
                    assert!(seen > 0.085, "{a} and {b} on {shade:?}, protan {protan}: {seen}");
                }
            }
        }
        // The first three are told apart in grey as well.
        let grey = [0, 1, 2].map(|index| lightness(class(index, shade)));
        assert!(
            (grey[0] - grey[1]).abs() > 0.04
                && (grey[1] - grey[2]).abs() > 0.04
                && (grey[0] - grey[2]).abs() > 0.04
        );
    }
}

#[test]
fn oklch_is_exact_at_known_points() {
    assert_eq!(oklch(1.0, 0.0, 0.0), Rgb([255; 3]));
    assert_eq!(oklch(0.0, 0.0, 0.0), Rgb([0; 3]));
    // Too much chroma is reduced, at the same lightness.
    let vivid = oklch(0.6, 0.5, 140.0);
    assert!((lightness(vivid) - 0.6).abs() < 0.01);
    // There and back.
    for colour in [Rgb([200, 30, 90]), Rgb([12, 140, 80]), Rgb([1, 2, 250])] {
        let [l, a, b] = colour.oklab();
        assert_eq!(oklch(l, a.hypot(b), b.atan2(a).to_degrees()), colour);
    }
}
