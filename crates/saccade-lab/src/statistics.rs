//! Intervals of what experiments measure: means over seeds, paired differences, slopes.
//!
//! Few seeds are the rule here, so intervals are Student's (Gosset, 1908), 95 %: wide when there is little to go by,
//! and infinite for a single value.
//!
//! ```
//! use saccade_lab::statistics::{mean, paired, slope};
//!
//! let accuracy = mean(&[0.80, 0.82, 0.84]);
//! assert!((accuracy.mean - 0.82).abs() < 1e-12 && accuracy.low < 0.78 && accuracy.high > 0.86);
//! // The same seeds under two conditions: what they share is no noise.
//! let gain = paired(&[0.81, 0.83, 0.85], &[0.80, 0.82, 0.84]);
//! assert!(gain.low > 0.0099 && gain.high < 0.0101);
//! let line = slope(&[(1.0, 2.0), (2.0, 4.1), (3.0, 5.9), (4.0, 8.0)]);
//! assert!(line.low < 2.0 && 2.0 < line.high);
//! ```

pub use saccade::analysis::statistics::{Interval, Moments};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The share of intervals that hold the true value.
pub const LEVEL: f64 = 0.95;

/// The mean of values and its interval.
pub fn mean(values: &[f64]) -> Interval {
    let moments = moments(values);
    // Nothing has no mean, and nothing follows from it.
    let centre = if values.is_empty() { f64::NAN } else { moments.mean };
    around(centre, moments.error(), moments.count.saturating_sub(1), moments.count)
}

/// The mean of `a[i] − b[i]` and its interval: the two were measured under the same seeds, in the same order. Values
/// without a partner are left out.
pub fn paired(a: &[f64], b: &[f64]) -> Interval {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    mean(&differences)
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

/// A value that is not a sample of anything: a count, an error that was computed exactly.
pub fn exact(value: f64) -> Interval {
    Interval { mean: value, low: value, high: value, count: 1 }
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
    let reach = match StudentsT::new(0.0, 1.0, freedom as f64) {
        Ok(student) if freedom > 0 => student.inverse_cdf(0.5 + LEVEL / 2.0) * error,
        _ => f64::INFINITY,
    };
    Interval { mean, low: mean - reach, high: mean + reach, count }
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
    fn one_value_says_nothing_about_its_spread() {
        let interval = mean(&[1.0]);
        assert_eq!((interval.low, interval.high), (f64::NEG_INFINITY, f64::INFINITY));
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
