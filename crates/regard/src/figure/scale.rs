//! From values to places on the page, and the round numbers that are marked on the way.

/// Values beyond these are drawn at the border; between them every difference and every quotient is finite.
const LARGEST: f64 = 1e150;
const SMALLEST: f64 = 1e-150;

/// A map from an interval of values to an interval of pixels, straight or logarithmic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    log: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// `low` and `high` come from [`interval`], so that they differ and, on a logarithmic scale, are positive.
    pub fn new(log: bool, (low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        Self { log, low, high, from, to }
    }

    /// Where a value lies; `None` if it has no place (not a number, or not positive on a logarithmic scale).
    pub fn at(&self, value: f64) -> Option<f64> {
        if !usable(value, self.log) {
            return None;
        }
        let value = value.clamp(-LARGEST, LARGEST);
        let share = if self.log {
            (value.log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        // Far outside is as good as a little outside: the drawing is clipped there.
        Some(self.from + share.clamp(-100.0, 100.0) * (self.to - self.from))
    }

    /// Where a value lies, moved to the border if it is outside.
    pub fn inside(&self, value: f64) -> Option<f64> {
        self.at(value).map(|place| place.clamp(self.from.min(self.to), self.from.max(self.to)))
    }

    pub fn contains(&self, value: f64) -> bool {
        value >= self.low && value <= self.high
    }
}

/// Whether a value can be placed on an axis.
pub(crate) fn usable(value: f64, log: bool) -> bool {
    value.is_finite() && (!log || value > 0.0)
}

/// An interval that holds all usable values and is wide enough to be divided.
pub(crate) fn interval(values: impl IntoIterator<Item = f64>, log: bool) -> (f64, f64) {
    let (low, high) = values
        .into_iter()
        .filter(|&value| usable(value, log))
        .map(|value| value.clamp(-LARGEST, LARGEST))
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return if log { (1.0, 10.0) } else { (0.0, 1.0) };
    }
    if log {
        let (low, high) = (low.max(SMALLEST), high.max(SMALLEST));
        return if high / low < 1.01 { (low / 2.0, high * 2.0) } else { (low, high) };
    }
    let size = low.abs().max(high.abs());
    if high - low > size * 1e-9 && high - low > SMALLEST {
        (low, high)
    } else if size < SMALLEST {
        (0.0, 1.0)
    } else {
        (low - size * 0.1, high + size * 0.1)
    }
}

/// The interval widened outwards to round numbers, and the round numbers in it.
pub(crate) fn round_out((low, high): (f64, f64), log: bool, count: usize) -> ((f64, f64), Vec<f64>) {
    if log {
        return round_out_log(low, high, count);
    }
    let step = round_step((high - low) / count.max(1) as f64);
    // A hair of tolerance: 0.3 is the third tenth, though it is not exactly representable.
    let first = (low / step + 1e-9).floor();
    let last = (high / step - 1e-9).ceil().max(first + 1.0).min(first + 1000.0);
    let ticks: Vec<f64> = (0..=(last - first) as usize).map(|i| multiple(first + i as f64, step)).collect();
    ((multiple(first, step), multiple(last, step)), ticks)
}

/// The round numbers inside an interval.
pub(crate) fn ticks_within((low, high): (f64, f64), log: bool, count: usize) -> Vec<f64> {
    let slack = if log { 0.0 } else { (high - low) * 1e-9 };
    let (_, mut ticks) = round_out((low, high), log, count);
    ticks.retain(|&tick| tick >= low - slack && tick <= high + slack);
    ticks
}

/// The nearest of 1, 2, 2.5 or 5 times a power of ten that is not below `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .map(|digit| digit * power)
        .into_iter()
        .find(|&s| s >= step * 0.999)
        .unwrap_or(step)
}

/// `index` steps, without the rounding error of a step such as 0.1.
fn multiple(index: f64, step: f64) -> f64 {
    let inverse = (1.0 / step).round();
    if step < 1.0 && ((1.0 / step) - inverse).abs() < 1e-9 * inverse { index / inverse } else { index * step }
}

/// Logarithmic: over less than a decade the round numbers of a straight scale, over up to three 1, 2, 5, and beyond
/// that powers of ten, or every n-th of them. The ends are 1, 2 or 5 times a power of ten.
fn round_out_log(low: f64, high: f64, count: usize) -> ((f64, f64), Vec<f64>) {
    let ratio = high / low;
    if ratio < 10.0 {
        let (ends, ticks) = round_out((low, high), false, count);
        if ends.0 > 0.0 {
            return (ends, ticks);
        }
    }
    let (first, last) = ((low.log10() + 1e-9).floor() as i32, (high.log10() - 1e-9).ceil() as i32);
    let marks: Vec<f64> =
        (first..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * power_of_ten(power))).collect();
    let below = marks.iter().copied().rfind(|&mark| mark <= low * (1.0 + 1e-9)).unwrap_or(low);
    let above = marks.iter().copied().find(|&mark| mark >= high * (1.0 - 1e-9)).unwrap_or(high);
    let inside = |mark: &f64| *mark >= below && *mark <= above;
    if ratio < 1000.0 {
        return ((below, above), marks.into_iter().filter(inside).collect());
    }
    let every = ((last - first) as usize).div_ceil(count.max(2)).max(1);
    let powers = (first..=last).step_by(every).map(power_of_ten);
    ((below, above), powers.filter(inside).collect())
}

/// 10^power; a quotient below one is exact where `powi` is not.
fn power_of_ten(power: i32) -> f64 {
    if power < 0 { 1.0 / 10_f64.powi(-power) } else { 10_f64.powi(power) }
}
