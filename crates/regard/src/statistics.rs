//! Intervals of what experiments measure: means over seeds, paired differences, slopes.
//!
//! Few seeds are the rule here, so intervals are Student's (Gosset, 1908), 95 %: wide when there is little to go by,
//! and infinite for a single value.
//!
//! ```
//! use regard::statistics::{Sample, mean, paired, slope};
//!
//! let accuracy = mean(&[0.80, 0.82, 0.84]);
//! assert!((accuracy.mean - 0.82).abs() < 1e-12 && accuracy.low < 0.78 && accuracy.high > 0.86);
//! // The same seeds under two conditions: what they share is no noise. A seed without a partner is left out.
//! let with: Sample = [(0, 0.81), (1, 0.83), (2, 0.85)].into_iter().collect();
//! let without: Sample = [(0, 0.80), (1, 0.82), (2, 0.84), (3, 0.5)].into_iter().collect();
//! let gain = paired(&with, &without);
//! assert!(gain.low > 0.0099 && gain.high < 0.0101);
//! let line = slope(&[(1.0, 2.0), (2.0, 4.1), (3.0, 5.9), (4.0, 8.0)]);
//! assert!(line.low < 2.0 && 2.0 < line.high);
//! ```

pub use regard_nn::analysis::statistics::Moments;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::collections::BTreeMap;

/// The share of intervals that hold the true value.
pub const LEVEL: f64 = 0.95;

/// A mean with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// How many values it rests on.
    pub count: u64,
    /// Student's degrees of freedom.
    freedom: u64,
}

impl Interval {
    /// The same at another level than [`LEVEL`].
    #[must_use]
    pub fn at(self, level: f64) -> Self {
        let reach = (self.high - self.mean) * student(level, self.freedom) / student(LEVEL, self.freedom);
        match reach.is_finite() {
            true => Self { low: self.mean - reach, high: self.mean + reach, ..self },
            // What has no end, or is no number, stays so at any level.
            false => self,
        }
    }

    /// The mean of shares that were counted, each in steps of this size. Some equal counts do not make a share certain: its error
    /// is at least that of rounding to a step, whose deviation is step ÷ √12.
    #[must_use]
    pub fn in_steps(self, step: f64) -> Self {
        let rounding = student(LEVEL, self.freedom) * step / (12.0 * self.count as f64).sqrt();
        // Comparisons with what is not a number are false.
        match self.high - self.mean < rounding {
            true => Self { low: self.mean - rounding, high: self.mean + rounding, ..self },
            false => self,
        }
    }

    /// What was not measured.
    pub fn nothing() -> Self {
        around(f64::NAN, f64::NAN, 0, 0)
    }
}

/// What was measured with each seed: one value each, since only seeds were drawn independently. Where several were
/// measured with the same seed, it is their mean.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample(BTreeMap<u64, f64>);

impl Sample {
    /// The values, by seed.
    pub fn values(&self) -> Vec<f64> {
        self.0.values().copied().collect()
    }

    /// The value of a seed.
    pub fn of(&self, seed: u64) -> Option<f64> {
        self.0.get(&seed).copied()
    }

    /// The seeds.
    pub fn seeds(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    /// The number of seeds.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their mean and its interval.
    pub fn mean(&self) -> Interval {
        mean(&self.values())
    }

    /// Several measurements of the same seeds: the mean of each seed.
    pub fn together(samples: impl IntoIterator<Item = Self>) -> Self {
        samples.into_iter().flat_map(|sample| sample.0).collect()
    }

    /// The difference of each seed's values. Seeds that only one side has are left out.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self(self.0.iter().filter_map(|(&seed, a)| Some((seed, a - other.of(seed)?))).collect())
    }

    /// The ratio of each seed's values. Seeds that only one side has are left out.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().filter_map(|(&seed, a)| Some((seed, a / other.of(seed)?))).collect())
    }

    /// What becomes of each value.
    #[must_use]
    pub fn map(&self, of: impl Fn(f64) -> f64) -> Self {
        Self(self.0.iter().map(|(&seed, &value)| (seed, of(value))).collect())
    }
}

impl FromIterator<(u64, f64)> for Sample {
    fn from_iter<I: IntoIterator<Item = (u64, f64)>>(values: I) -> Self {
        let mut by_seed: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for (seed, value) in values {
            by_seed.entry(seed).or_default().push(value);
        }
        let one = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        Self(by_seed.into_iter().map(|(seed, values)| (seed, one(values))).collect())
    }
}

/// The mean of values and its interval.
pub fn mean(values: &[f64]) -> Interval {
    let moments = moments(values);
    // Nothing has no mean, and nothing follows from it.
    let centre = if values.is_empty() { f64::NAN } else { moments.mean };
    around(centre, moments.error(), moments.count.saturating_sub(1), moments.count)
}

/// The mean over seeds of a − b, and its interval. Seeds that only one side has are left out.
pub fn paired(a: &Sample, b: &Sample) -> Interval {
    a.minus(b).mean()
}

/// The slope of the least-squares line through the values of each seed against x, and the mean of the seeds' slopes.
pub fn slope_by_seed(points: &[(f64, Sample)]) -> Interval {
    slopes(points).mean()
}

/// The slope of the least-squares line through the values of each seed against x. Seeds that lack a value anywhere are left
/// out.
pub fn slopes(points: &[(f64, Sample)]) -> Sample {
    let seeds = points.first().map(|(_, sample)| sample.seeds().collect::<Vec<_>>()).unwrap_or_default();
    let of_seed = |seed: u64| -> Option<(u64, f64)> {
        let line: Option<Vec<(f64, f64)>> =
            points.iter().map(|(x, sample)| Some((*x, sample.of(seed)?))).collect();
        Some((seed, slope(&line?).mean))
    };
    seeds.into_iter().filter_map(of_seed).collect()
}

/// The slope of the least-squares line through points, and its interval.
pub fn slope(points: &[(f64, f64)]) -> Interval {
    let n = points.len();
    let x = moments(&points.iter().map(|point| point.0).collect::<Vec<_>>());
    let y = moments(&points.iter().map(|point| point.1).collect::<Vec<_>>());
    let spread: f64 = points.iter().map(|point| (point.0 - x.mean).powi(2)).sum();
    let slope = points.iter().map(|point| (point.0 - x.mean) * (point.1 - y.mean)).sum::<f64>() / spread;
    let rest: f64 = points.iter().map(|point| (point.1 - y.mean - slope * (point.0 - x.mean)).powi(2)).sum();
    let freedom = n.saturating_sub(2) as u64;
    let error = (rest / freedom as f64 / spread).sqrt();
    around(slope, error, freedom, n as u64)
}

/// Where the least-squares line through points passes at 0.
pub fn intercept(points: &[(f64, f64)]) -> f64 {
    let x = moments(&points.iter().map(|point| point.0).collect::<Vec<_>>()).mean;
    let y = moments(&points.iter().map(|point| point.1).collect::<Vec<_>>()).mean;
    y - slope(points).mean * x
}

/// A power with a floor, y = floor + a·x^exponent, through points: the floor and the exponent of the least-squares fit.
///
/// For each floor the rest is a line on logarithmic axes; floors are tried from 0 to just below the least y, on a grid that is refined
/// three times. Without a finite fit there is none.
pub fn power_with_floor(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    const TRIES: usize = 200;
    let least = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let fit = |floor: f64| {
        let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), (y - floor).ln())).collect();
        let (exponent, at_one) = (slope(&logs).mean, intercept(&logs));
        let error = |&(x, y): &(f64, f64)| (y - floor - (at_one + exponent * x.ln()).exp()).powi(2);
        (points.iter().map(error).sum::<f64>(), exponent)
    };
    let (mut from, mut to) = (0.0, least * 0.9999);
    let mut best = (f64::INFINITY, f64::NAN, f64::NAN);
    for _ in 0..4 {
        let step = (to - from) / TRIES as f64;
        for floor in (0..=TRIES).map(|i| from + step * i as f64) {
            let (error, exponent) = fit(floor);
            if error < best.0 {
                best = (error, floor, exponent);
            }
        }
        (from, to) = ((best.1 - step).max(0.0), (best.1 + step).min(least * 0.9999));
    }
    (best.1.is_finite() && best.2.is_finite()).then_some((best.1, best.2))
}

/// ln of the ratio of two variances, the first over the second, and its interval: 0 where values spread alike.
///
/// The error of ln s² is about √(2/(n − 1)) for normal values; with Student's quantile of both sides' degrees of freedom the interval is
/// that of the F distribution to about a hundredth, for eight values as for eighty.
pub fn log_variance_ratio(a: &Sample, b: &Sample) -> Interval {
    let [a, b] = [a, b].map(|sample| moments(&sample.values()));
    let freedom = |moments: &Moments| moments.count.saturating_sub(1);
    let (of_a, of_b) = (freedom(&a), freedom(&b));
    if of_a == 0 || of_b == 0 {
        // A single value has no spread.
        return around(f64::NAN, f64::NAN, 0, a.count.min(b.count));
    }
    let error = (2.0 / of_a as f64 + 2.0 / of_b as f64).sqrt();
    around((a.variance() / b.variance()).ln(), error, of_a + of_b, a.count.min(b.count))
}

/// A value that is not a sample of anything: a count, an error that was computed exactly.
pub fn exact(value: f64) -> Interval {
    around(value, 0.0, 1, 1)
}

/// The standard deviation of values.
pub fn deviation(values: &[f64]) -> f64 {
    moments(values).variance().sqrt()
}

fn moments(values: &[f64]) -> Moments {
    let mut moments = Moments::default();
    for &value in values {
        moments.add(value);
    }
    moments
}

fn around(mean: f64, error: f64, freedom: u64, count: u64) -> Interval {
    let reach = if freedom == 0 { f64::INFINITY } else { student(LEVEL, freedom) * error };
    Interval { mean, low: mean - reach, high: mean + reach, count, freedom }
}

/// How many standard errors an interval reaches to each side.
fn student(level: f64, freedom: u64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom.max(1) as f64)
        .map_or(f64::INFINITY, |student| student.inverse_cdf(0.5 + level / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_is_students() {
        // t of 4 degrees of freedom at 97.5 % is 2.776445 (any table).
        let interval = mean(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        let reach = 2.776_445 * (2.5_f64 / 5.0).sqrt();
        assert!((interval.high - 3.0 - reach).abs() < 1e-5, "{interval:?}");
        assert!((3.0 - interval.low - reach).abs() < 1e-5);
        assert_eq!(interval.count, 5);
        assert!(mean(&[]).mean.is_nan() && mean(&[]).low.is_nan());
    }

    #[test]
    fn one_value_has_no_spread() {
        let interval = mean(&[1.0]);
        assert_eq!((interval.low, interval.high), (f64::NEG_INFINITY, f64::INFINITY));
    }

    #[test]
    fn an_interval_at_a_higher_level_is_wider() {
        // t of 4 degrees of freedom at 99.5 % is 4.604095.
        let interval = mean(&[1.0, 2.0, 3.0, 4.0, 5.0]).at(0.99);
        let reach = 4.604_095 * (2.5_f64 / 5.0).sqrt();
        assert!((interval.high - 3.0 - reach).abs() < 1e-5 && (3.0 - interval.low - reach).abs() < 1e-5);
        assert_eq!(exact(2.0).at(0.99), exact(2.0));
        assert_eq!(mean(&[1.0]).at(0.99), mean(&[1.0]));
        assert_eq!(exact(f64::INFINITY).at(0.99), exact(f64::INFINITY));
        assert!(Interval::nothing().at(0.99).low.is_nan());
    }

    #[test]
    fn equal_counts_are_not_certain() {
        // t of 2 degrees of freedom at 97.5 % is 4.302653; six runs a seed are steps of a sixth.
        let share = mean(&[0.5; 3]).in_steps(1.0 / 6.0);
        let reach = 4.302_653 / 6.0 / 36_f64.sqrt();
        assert!(
            (share.high - 0.5 - reach).abs() < 1e-5 && (0.5 - share.low - reach).abs() < 1e-5,
            "{share:?}"
        );
        let wide = mean(&[0.0, 0.5, 1.0]);
        assert_eq!(wide.in_steps(0.1), wide, "what spreads more than that stays as it is");
        assert_eq!(mean(&[1.0]).in_steps(0.1), mean(&[1.0]));
        assert!(Interval::nothing().in_steps(0.1).low.is_nan());
    }

    #[test]
    fn only_seeds_count_as_independent() {
        let twice: Sample = [(0, 1.0), (0, 3.0), (1, 4.0), (1, 4.0)].into_iter().collect();
        assert_eq!((twice.values(), twice.mean().count), (vec![2.0, 4.0], 2));
        // Whatever the order, and whoever is missing, a seed is compared with itself.
        let other: Sample = [(7, 100.0), (1, 1.0), (0, 0.0)].into_iter().collect();
        let difference = paired(&twice, &other);
        assert_eq!((difference.mean, difference.count), (2.5, 2));
        let line = [
            (0.0, twice.clone()),
            (1.0, twice.map(|value| value + 2.0)),
            (2.0, twice.map(|value| value + 4.0)),
        ];
        assert_eq!((slope_by_seed(&line).mean, slope_by_seed(&line).count), (2.0, 2));
    }

    #[test]
    fn a_power_is_found_above_its_floor() {
        let points = |floor: f64| [1e4, 1e5, 1e6, 1e7].map(|n: f64| (n, floor + 50.0 * n.powf(-0.35)));
        for floor in [0.0, 1.7, 3.0] {
            let (found, exponent) = power_with_floor(&points(floor)).unwrap();
            assert!((found - floor).abs() < 1e-3 && (exponent + 0.35).abs() < 1e-3, "{found} {exponent}");
        }
        assert_eq!(power_with_floor(&[(1.0, f64::NAN), (2.0, 1.0)]), None);
    }

    #[test]
    fn the_interval_of_a_ratio_of_variances_is_that_of_the_f_distribution() {
        let sample = |scale: f64, count: u64| (0..count).map(|i| (i, scale * i as f64)).collect::<Sample>();
        let ratio = log_variance_ratio(&sample(2.0, 8), &sample(1.0, 8));
        assert!((ratio.mean - 4_f64.ln()).abs() < 1e-12);
        // F of 7 and 7 degrees of freedom at 97.5 % is 4.9949 (any table).
        assert!((ratio.high - ratio.mean - 4.994_9_f64.ln()).abs() < 0.02, "{ratio:?}");
        assert!(
            log_variance_ratio(&sample(2.0, 1), &sample(1.0, 8)).high.is_nan(),
            "one value decides nothing"
        );
    }

    #[test]
    fn a_slope_has_the_interval_of_its_residuals() {
        // By hand: x = 0, 1, 2, 3 and y = 0, 1, 2, 4 give 1.3, residuals 0.2, −0.1, −0.4, 0.3 (sum of squares 0.3).
        let interval = slope(&[(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (3.0, 4.0)]);
        assert!((interval.mean - 1.3).abs() < 1e-12);
        let reach = 4.302_653 * (0.3_f64 / 2.0 / 5.0).sqrt();
        assert!((interval.high - 1.3 - reach).abs() < 1e-5, "{interval:?}");
        assert!((intercept(&[(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (3.0, 4.0)]) + 0.2).abs() < 1e-12);
    }
}
