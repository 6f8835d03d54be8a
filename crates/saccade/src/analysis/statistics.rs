//! Means, intervals, corrections for many tests, and rank correlation.
//!
//! ```
//! use saccade::analysis::statistics::{Resampling, holm, spearman};
//!
//! assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 30.0, 20.0])?, Some(0.5));
//! assert_eq!(holm(&[0.01, 0.5]), [0.02, 0.5]);
//! let interval = Resampling::new(0).mean(&[1.0, 2.0, 3.0, 4.0]);
//! assert!(interval.low < 2.5 && 2.5 < interval.high);
//! # Ok::<(), saccade::Error>(())
//! ```

use crate::error::{Error, Result};
use saccade_tensor::random::Key;

/// Count, mean and variance of a stream (Welford, 1962).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    /// How many values there were.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    squares: f64,
}

impl Moments {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    /// The variance, Σ(x − mean)² / (n − 1); 0 for fewer than two values.
    pub fn variance(&self) -> f64 {
        if self.count < 2 { 0.0 } else { self.squares / (self.count - 1) as f64 }
    }

    /// The standard error of the mean.
    pub fn error(&self) -> f64 {
        if self.count == 0 { 0.0 } else { (self.variance() / self.count as f64).sqrt() }
    }
}

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
}

/// Resamples of a stream of sentences: how often each resample draws each sentence.
///
/// The counts are Poisson(1), which is what drawing n of n with replacement tends to, and needs no sentence to be
/// remembered (Hanley & MacGibbon, 2006). They depend on the key and the sentence's number alone.
#[derive(Debug, Clone, Copy)]
pub struct Resampling {
    /// What the draws are keyed by.
    pub key: Key,
    /// The number of resamples.
    pub resamples: usize,
    /// The share of resamples inside the interval, such as 0.95.
    pub level: f64,
}

impl Resampling {
    /// 400 resamples and intervals of 95 %.
    pub fn new(seed: u64) -> Self {
        Self { key: Key::new(seed).site("bootstrap"), resamples: 400, level: 0.95 }
    }

    /// How often each resample draws a sentence.
    pub fn draws(&self, sentence: u64) -> Vec<f64> {
        (0..self.resamples as u64).map(|resample| poisson(self.key.uniform(sentence, resample))).collect()
    }

    /// The mean of values and its interval, each value a sentence.
    pub fn mean(&self, values: &[f64]) -> Interval {
        let mut estimate = Estimate::default();
        for (sentence, &value) in values.iter().enumerate() {
            estimate.add(value, &self.draws(sentence as u64));
        }
        estimate.interval(self.level)
    }
}

/// The count that a uniform draw stands for in the Poisson distribution of mean 1.
fn poisson(uniform: f32) -> f64 {
    let (mut count, mut share) = (0.0, (-1.0_f64).exp());
    let mut below = share;
    while f64::from(uniform) >= below && count < 20.0 {
        count += 1.0;
        share /= count;
        below += share;
    }
    count
}

/// A mean over sentences that can say how sure it is, in memory for its resamples alone.
#[derive(Debug, Clone, Default)]
pub struct Estimate {
    /// Count, mean and variance.
    pub moments: Moments,
    /// Weighted sum and weight of each resample.
    resamples: Vec<(f64, f64)>,
}

impl Estimate {
    /// Adds a sentence's value, which resample i draws `draws[i]` times.
    pub fn add(&mut self, value: f64, draws: &[f64]) {
        self.moments.add(value);
        self.resamples.resize(draws.len(), (0.0, 0.0));
        for ((sum, weight), times) in self.resamples.iter_mut().zip(draws) {
            *sum += times * value;
            *weight += times;
        }
    }

    /// The mean and the interval that holds the middle `level` of the resamples' means.
    pub fn interval(&self, level: f64) -> Interval {
        let Moments { count, mean, .. } = self.moments;
        let drawn = self.resamples.iter().filter(|(_, weight)| *weight > 0.0);
        let mut means: Vec<f64> = drawn.map(|(sum, weight)| sum / weight).collect();
        means.sort_by(f64::total_cmp);
        let tail = (1.0 - level) / 2.0;
        let end = |share: f64| quantile(&means, share).unwrap_or(mean);
        Interval { mean, low: end(tail), high: end(1.0 - tail), count }
    }
}

/// A quantile of sorted values, between neighbours in proportion.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64))
}

/// Holm's correction (1979): p-values such that calling those below α significant errs even once with probability at
/// most α.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let count = p_values.len();
    let mut corrected = vec![1.0; count];
    let mut largest: f64 = 0.0;
    for (rank, index) in ascending(p_values).into_iter().enumerate() {
        largest = largest.max((p_values[index] * (count - rank) as f64).min(1.0));
        corrected[index] = largest;
    }
    corrected
}

/// Benjamini and Hochberg's correction (1995): of those below α at most the share α is expected to be false.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let count = p_values.len();
    let mut corrected = vec![1.0; count];
    let mut smallest: f64 = 1.0;
    for (rank, index) in ascending(p_values).into_iter().enumerate().rev() {
        smallest = smallest.min(p_values[index] * count as f64 / (rank + 1) as f64);
        corrected[index] = smallest;
    }
    corrected
}

/// Indices from the smallest value to the largest, equal ones in their order.
pub fn ascending(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    order
}

/// Ranks from 1; equal values share the mean of theirs.
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let order = ascending(values);
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    while first < order.len() {
        let same = |&&index: &&usize| values[index] == values[order[first]];
        let ties = order[first..].iter().take_while(same).count().max(1);
        for &index in &order[first..first + ties] {
            ranks[index] = first as f64 + f64::midpoint(ties as f64, 1.0);
        }
        first += ties;
    }
    ranks
}

/// Spearman's rank correlation, ties included: Pearson's correlation of the ranks. None if either side is constant.
pub fn spearman(a: &[f64], b: &[f64]) -> Result<Option<f64>> {
    if a.len() != b.len() {
        return Err(Error::metric("rank correlation", format!("{} values against {}", a.len(), b.len())));
    }
    if a.iter().chain(b).any(|value| value.is_nan()) {
        return Err(Error::metric("rank correlation", "a value is not a number"));
    }
    Ok(pearson(&ranks(a), &ranks(b)))
}

fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        ab += (x - mean_a) * (y - mean_b);
        aa += (x - mean_a).powi(2);
        bb += (y - mean_b).powi(2);
    }
    (aa > 0.0 && bb > 0.0).then(|| (ab / (aa * bb).sqrt()).clamp(-1.0, 1.0))
}

/// The probability that a standard normal value is larger than z, to about 1e-7 (Abramowitz & Stegun, 26.2.17).
pub fn normal_tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - normal_tail(-z);
    }
    let t = 1.0 / (1.0 + 0.2316419 * z);
    let series = [1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530];
    let sum = series.iter().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt() * sum
}
