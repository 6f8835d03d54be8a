//! Means, bootstrap intervals, corrections for multiple tests, and rank correlation.
//!
//! ```
//! use regard_nn::analysis::statistics::{Resampling, holm, spearman};
//!
//! assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 30.0, 20.0])?, Some(0.5));
//! assert_eq!(holm(&[0.01, 0.5]), [0.02, 0.5]);
//! let interval = Resampling::new(0).mean(&[1.0, 2.0, 3.0, 4.0]);
//! assert!(interval.low < 2.5 && 2.5 < interval.high);
//! # Ok::<(), regard_nn::Error>(())
//! ```

use crate::error::{Error, Result};
use regard_tensor::random::Key;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Count, mean and variance of a stream (Welford, 1962).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    /// The number of values.
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

/// A mean with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The number of values.
    pub count: u64,
}

/// A bootstrap over a stream of sentences: how often each resample draws each sentence.
///
/// The counts are Poisson(1), the limit of drawing n of n with replacement, so that no sentence has to be kept in memory
/// (Hanley & MacGibbon, 2006). They depend only on the key and the sentence's index.
#[derive(Debug, Clone, Copy)]
pub struct Resampling {
    /// The key of the random draws.
    pub key: Key,
    /// The number of resamples.
    pub resamples: usize,
    /// The share of resamples inside the interval, such as 0.95.
    pub level: f64,
}

impl Resampling {
    /// 400 resamples and 95 % intervals.
    pub fn new(seed: u64) -> Self {
        Self { key: Key::new(seed).site("bootstrap"), resamples: 400, level: 0.95 }
    }

    /// How often each resample draws a sentence.
    pub fn draws(&self, sentence: u64) -> Vec<f64> {
        (0..self.resamples as u64).map(|resample| poisson(self.key.uniform(sentence, resample))).collect()
    }

    /// The mean of values, one per sentence, and its interval.
    pub fn mean(&self, values: &[f64]) -> Interval {
        let mut estimate = Estimate::default();
        for (sentence, &value) in values.iter().enumerate() {
            estimate.add(value, &self.draws(sentence as u64));
        }
        estimate.interval(self.level)
    }
}

/// The Poisson(1) count for a uniform draw, by inversion.
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

/// A mean over sentences with its bootstrap interval, in memory that depends only on the number of resamples.
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

    /// The mean, and the interval that contains the middle `level` of the resampled means. The ends are infinite for a
    /// single value.
    pub fn interval(&self, level: f64) -> Interval {
        let Moments { count, mean, .. } = self.moments;
        let drawn = self.resamples.iter().filter(|(_, weight)| *weight > 0.0);
        let (low, high) = ends(drawn.map(|(sum, weight)| sum / weight).collect(), level, count);
        Interval { mean, low, high, count }
    }
}

/// The ends of the interval that contains the middle `level` of the resampled values.
fn ends(mut resampled: Vec<f64>, level: f64, count: u64) -> (f64, f64) {
    if count < 2 {
        return (f64::NEG_INFINITY, f64::INFINITY);
    }
    resampled.sort_by(f64::total_cmp);
    let end = |share: f64| quantile(&resampled, share).unwrap_or(f64::NAN);
    let tail = (1.0 - level) / 2.0;
    (end(tail), end(1.0 - tail))
}

/// A sum over sentences and over each resample of them. Two sums give a ratio with its bootstrap interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Total {
    /// The sum.
    pub sum: f64,
    /// The number of sentences.
    pub sentences: u64,
    resamples: Vec<f64>,
}

impl Total {
    /// Adds a sentence's value, which resample i draws `draws[i]` times.
    pub fn add(&mut self, value: f64, draws: &[f64]) {
        self.sum += value;
        self.sentences += 1;
        self.resamples.resize(draws.len(), 0.0);
        for (sum, times) in self.resamples.iter_mut().zip(draws) {
            *sum += times * value;
        }
    }

    /// The ratio of this sum to another; 0 if the other is 0.
    pub fn over(&self, whole: &Self) -> f64 {
        if whole.sum == 0.0 { 0.0 } else { self.sum / whole.sum }
    }

    /// The ratio of this sum to another, with its interval.
    pub fn share(&self, whole: &Self, level: f64) -> Interval {
        let count = whole.sentences;
        let (low, high) = ends(self.resampled(whole).collect(), level, count);
        Interval { mean: self.over(whole), low, high, count }
    }

    /// The ratio in each resample in which the other sum is not 0.
    fn resampled<'a>(&'a self, whole: &'a Self) -> impl Iterator<Item = f64> + 'a {
        let sum = |i: usize| self.resamples.get(i).copied().unwrap_or(0.0);
        let drawn = whole.resamples.iter().enumerate().filter(|(_, whole)| **whole != 0.0);
        drawn.map(move |(i, &whole)| sum(i) / whole)
    }

    /// The p-value of this ratio being larger than another, both counted on the same sentences: a paired test whose
    /// standard error is the spread of the difference over resamples.
    pub fn larger(&self, other: &Self, whole: &Self) -> f64 {
        let difference = self.over(whole) - other.over(whole);
        let mut spread = Moments::default();
        for (a, b) in self.resampled(whole).zip(other.resampled(whole)) {
            spread.add(a - b);
        }
        one_sided(difference, spread.variance().sqrt(), whole.sentences)
    }
}

/// The one-sided p-value of a difference, from its standard error over `count` values.
pub fn one_sided(difference: f64, error: f64, count: u64) -> f64 {
    match count {
        0 | 1 => 1.0,
        _ if difference <= 0.0 => 1.0,
        _ if error == 0.0 => 0.0,
        _ => student_tail(difference / error, count - 1),
    }
}

/// The probability that Student's t with some degrees of freedom exceeds `t`.
pub fn student_tail(t: f64, freedom: u64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom.max(1) as f64).map_or(1.0, |student| student.sf(t))
}

/// A quantile of sorted values, with linear interpolation.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64))
}

/// Holm's correction (1979): rejecting the hypotheses with adjusted p-values below α makes any false rejection with
/// probability at most α.
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

/// Benjamini and Hochberg's correction (1995): among adjusted p-values below α, the expected share of false discoveries is
/// at most α.
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

/// Indices in ascending order of the values; equal values keep their order.
pub fn ascending(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    order
}

/// Ranks from 1; equal values get their mean rank.
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

/// Spearman's rank correlation with ties: Pearson's correlation of the ranks. `None` if either side is constant.
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
