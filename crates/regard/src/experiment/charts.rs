//! Charts that most experiments draw: means over seeds with their intervals, as bars or as lines, and galleries of weights.

use crate::figure::{Bar, Bars, Gallery, Matrix};
use crate::statistics::{Interval, Sample, mean};
use std::fmt::Display;

/// The names of conditions, for an axis.
pub fn names<T: Display>(all: impl IntoIterator<Item = T>) -> Vec<String> {
    all.into_iter().map(|one| one.to_string()).collect()
}

/// A bar with its interval.
pub fn bar(interval: Interval) -> Bar {
    Bar::new(interval.mean).interval(interval.low, interval.high)
}

/// The bar of a share: its interval ends at 0 and 1.
pub fn share(interval: Interval) -> Bar {
    Bar::new(interval.mean).interval(interval.low.max(0.0), interval.high.min(1.0))
}

/// A series of bars for each of some conditions, one bar in each group.
pub fn grouped<S: Display + Copy, G: Copy>(
    empty: Bars,
    series: impl IntoIterator<Item = S>,
    groups: &[G],
    of: impl Fn(S, G) -> Bar,
) -> Bars {
    series.into_iter().fold(empty, |bars, one| {
        bars.series(one.to_string(), groups.iter().map(|&group| of(one, group)).collect())
    })
}

/// A point of a line: x, mean, and the ends of the interval.
pub type Point = (f64, f64, f64, f64);

/// A mean with its interval.
pub fn point(x: f64, interval: Interval) -> Point {
    (x, interval.mean, interval.low, interval.high)
}

/// A mean share, whose interval ends at 0 and 1.
pub fn share_point(x: f64, interval: Interval) -> Point {
    (x, interval.mean, interval.low.max(0.0), interval.high.min(1.0))
}

/// A mean, from the smallest to the largest value.
pub fn range_point(x: f64, values: &[f64]) -> Point {
    let (low, high) = range(values);
    (x, mean(values).mean, low, high)
}

/// A mean, from one standard deviation below to one above.
pub fn spread_point(x: f64, sample: &Sample) -> Point {
    let (centre, spread) = (sample.mean().mean, crate::statistics::deviation(&sample.values()));
    (x, centre, centre - spread, centre + spread)
}

/// The smallest and the largest of values that are not negative.
pub fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, 0.0), |(low, high), &x| (x.min(low), x.max(high)))
}

/// A gallery with square maps of weights added; what is not square is left out.
pub fn with_maps<'a>(gallery: Gallery, side: usize, maps: impl IntoIterator<Item = &'a Vec<f32>>) -> Gallery {
    let matrices = maps.into_iter().filter_map(|weights| Matrix::new(side, side, weights.clone()).ok());
    matrices.fold(gallery, |gallery, matrix| gallery.map("", matrix))
}
