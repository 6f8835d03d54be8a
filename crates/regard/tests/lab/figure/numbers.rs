//! Numbers as labels.

use proptest::prelude::*;
use regard::figure::{fixed, number};

#[test]
fn numbers_look_as_people_write_them() {
    let cases = [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-0.5, "−0.5"),
        (1000.0, "1,000"),
        (-12345.6, "−12,346"),
        (999_999.0, "999,999"),
        (1e6, "10⁶"),
        (2.5e7, "2.5×10⁷"),
        (0.001, "0.001"),
        (0.0001234, "0.0001234"),
        (0.00005, "5×10⁻⁵"),
        (-1e-12, "−10⁻¹²"),
        (f64::INFINITY, "∞"),
        (f64::NEG_INFINITY, "−∞"),
        (f64::NAN, "–"),
    ];
    for (value, text) in cases {
        assert_eq!(number(value), text);
    }
    assert_eq!(fixed(0.126, 2), "0.13");
    assert_eq!(fixed(1_234_567.0, 0), "1,234,567");
    assert_eq!(fixed(-0.0001, 2), "0.00");
    assert_eq!(fixed(f64::NAN, 2), "–");
}

/// Reads a label back.
fn read(text: &str) -> f64 {
    let plain: String = text.replace(',', "").replace('−', "-");
    let (mantissa, power) = match plain.split_once("10") {
        // A power of ten, and not a number such as 100.
        Some((before, after)) if after.starts_with(|c: char| "⁰¹²³⁴⁵⁶⁷⁸⁹⁻".contains(c)) => {
            let digits: String = after
                .chars()
                .map(|c| {
                    "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().position(|d| d == c).map_or('-', |d| char::from(b'0' + d as u8))
                })
                .collect();
            let sign = if before.starts_with('-') { -1.0 } else { 1.0 };
            let mantissa = before.trim_start_matches('-').trim_end_matches('×');
            let size: f64 = if mantissa.is_empty() { 1.0 } else { mantissa.parse().unwrap() };
            (sign * size, digits.parse::<i32>().unwrap_or(1))
        }
        _ => (plain.parse().unwrap(), 0),
    };
    mantissa * 10_f64.powi(power)
}

proptest! {
    #[test]
    fn a_number_reads_back_within_half_a_percent(mantissa in 1.0..10.0_f64, power in -30..30_i32, negative: bool) {
        let value = mantissa * 10_f64.powi(power) * if negative { -1.0 } else { 1.0 };
        let text = number(value);
        prop_assert!(text.chars().count() <= 12, "{text} is long");
        prop_assert!((read(&text) / value - 1.0).abs() < 5.1e-3, "{value} became {text}");
    }
}
