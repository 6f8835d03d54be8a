//! Numbers as people write them: 1,000 · −0.5 · 1.2×10⁻⁵.

/// A number with about four significant digits, a real minus sign and no trailing zeros.
///
/// ```
/// use regard::figure::number;
/// assert_eq!(number(1000.0), "1,000");
/// assert_eq!(number(-0.5), "−0.5");
/// assert_eq!(number(1.2e-5), "1.2×10⁻⁵");
/// assert_eq!(number(1e9), "10⁹");
/// assert_eq!(number(f64::NAN), "–");
/// ```
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return not_finite(value);
    }
    if size == 0.0 {
        return "0".into();
    }
    if !(1e-4..1e6).contains(&size) {
        return scientific(value, 2);
    }
    let decimals = (3 - size.log10().floor() as i32).clamp(0, 7) as usize;
    trim_zeros(fixed(value, decimals))
}

/// So many of something.
///
/// ```
/// use regard::figure::counted;
/// assert_eq!([1, 2].map(|count| counted(count, "layer")), ["1 layer", "2 layers"]);
/// ```
pub fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{} {noun}s", fixed(count as f64, 0)),
    }
}

/// A number with a fixed count of decimals, commas between thousands and a real minus sign.
///
/// ```
/// use regard::figure::fixed;
/// assert_eq!(fixed(-1234.5, 2), "−1,234.50");
/// assert_eq!(fixed(-0.001, 2), "0.00");
/// ```
pub fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return not_finite(value);
    }
    if value.abs() >= 1e15 {
        return scientific(value, decimals);
    }
    let digits = format!("{:.*}", decimals.min(12), value.abs());
    let (whole, fraction) = digits.split_once('.').map_or((digits.as_str(), None), |(w, f)| (w, Some(f)));
    let mut text = String::new();
    if value < 0.0 && digits.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) {
        text.push('−');
    }
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if let Some(fraction) = fraction {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// A number with two significant digits, where only its size matters.
pub(crate) fn brief(value: f64) -> String {
    let unit = 10_f64.powf(value.abs().log10().floor() - 1.0);
    if unit.is_normal() { number((value / unit).round() * unit) } else { number(value) }
}

/// The labels of an axis: all with the decimals that its step needs, or all in powers of ten.
pub(crate) fn labels(ticks: &[f64], percent: bool) -> Vec<String> {
    if percent {
        let hundredfold: Vec<f64> = ticks.iter().map(|tick| tick * 100.0).collect();
        return labels(&hundredfold, false).into_iter().map(|label| label + " %").collect();
    }
    let largest = ticks.iter().fold(0.0_f64, |most, tick| most.max(tick.abs()));
    let step = smallest_step(ticks).unwrap_or(largest);
    if largest >= 1e6 || (largest > 0.0 && largest < 1e-3) {
        return ticks
            .iter()
            .map(|&tick| if tick == 0.0 { "0".into() } else { scientific(tick, 2) })
            .collect();
    }
    // Enough decimals that neighbouring ticks differ and each one is shown as it is (0.25 is not 0.3).
    let exact = |decimals: usize| {
        let unit = 10_f64.powi(decimals as i32);
        ticks.iter().all(|tick| ((tick * unit).round() / unit - tick).abs() <= step * 1e-3)
    };
    let decimals = (0..=8).find(|&decimals| exact(decimals)).unwrap_or(8);
    ticks.iter().map(|&tick| fixed(tick, decimals)).collect()
}

/// The labels of a logarithmic axis: plain while all of them are short, otherwise all in powers of ten.
pub(crate) fn log_labels(ticks: &[f64]) -> Vec<String> {
    let plain = ticks.iter().all(|tick| (1e-3..1e6).contains(tick));
    ticks.iter().map(|&tick| if plain { number(tick) } else { scientific(tick, 2) }).collect()
}

fn smallest_step(ticks: &[f64]) -> Option<f64> {
    ticks.windows(2).map(|pair| (pair[1] - pair[0]).abs()).filter(|&step| step > 0.0).reduce(f64::min)
}

fn not_finite(value: f64) -> String {
    if value.is_nan() {
        "–".into()
    } else if value > 0.0 {
        "∞".into()
    } else {
        "−∞".into()
    }
}

fn scientific(value: f64, decimals: usize) -> String {
    let text = format!("{:.*e}", decimals.min(12), value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mantissa = trim_zeros(mantissa.to_owned());
    let sign = if value < 0.0 { "−" } else { "" };
    let power = superscript(exponent);
    if exponent == "0" || exponent == "1" {
        return format!("{sign}{}", trim_zeros(format!("{:.*}", decimals.min(12), value.abs())));
    }
    if mantissa == "1" { format!("{sign}10{power}") } else { format!("{sign}{mantissa}×10{power}") }
}

fn superscript(exponent: &str) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    exponent
        .chars()
        .map(|c| c.to_digit(10).and_then(|digit| DIGITS.get(digit as usize)).copied().unwrap_or('⁻'))
        .collect()
}

fn trim_zeros(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
