//! The ROC curve and its area.

use crate::error::{Error, Result};

/// A point of the curve: examples with a score of at least `threshold` are predicted positive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RocPoint {
    /// The lowest score that is predicted positive; infinite at the first point.
    pub threshold: f32,
    /// The share of negative examples predicted positive.
    pub false_positive_rate: f64,
    /// The share of positive examples predicted positive.
    pub true_positive_rate: f64,
}

/// The receiver operating characteristic, with one point per distinct score, from (0, 0) to (1, 1).
#[derive(Debug, Clone, PartialEq)]
pub struct RocCurve {
    points: Vec<RocPoint>,
    area: f64,
}

impl RocCurve {
    /// The curve of these examples. Both classes must occur, and no score may be NaN.
    pub fn of(truth: &[bool], scores: &[f32]) -> Result<Self> {
        let fail = |problem: String| Err(Error::metric("ROC curve", problem));
        if truth.len() != scores.len() {
            return fail(format!("{} true classes and {} scores", truth.len(), scores.len()));
        }
        if let Some(index) = scores.iter().position(|score| score.is_nan()) {
            return fail(format!("the score of example {index} is not a number"));
        }
        let positives = truth.iter().filter(|&&positive| positive).count() as u64;
        let negatives = truth.len() as u64 - positives;
        if positives == 0 || negatives == 0 {
            return fail(format!(
                "both classes must occur, got {positives} positive and {negatives} negative examples"
            ));
        }
        let mut order: Vec<usize> = (0..truth.len()).collect();
        // Without NaN the order is total; −0 equals 0.
        order.sort_by(|&a, &b| scores[b].partial_cmp(&scores[a]).unwrap_or(std::cmp::Ordering::Equal));
        let mut points =
            vec![RocPoint { threshold: f32::INFINITY, false_positive_rate: 0.0, true_positive_rate: 0.0 }];
        // Twice the area in units of one positive by one negative example: integers, without rounding.
        let (mut hits, mut alarms, mut doubled) = (0_u64, 0_u64, 0_u128);
        for tied in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
            let new_hits = tied.iter().filter(|&&i| truth[i]).count() as u64;
            let new_alarms = tied.len() as u64 - new_hits;
            // A trapezium: half the pairs with equal scores count as ordered correctly.
            doubled += u128::from(new_alarms) * u128::from(2 * hits + new_hits);
            hits += new_hits;
            alarms += new_alarms;
            points.push(RocPoint {
                threshold: scores[tied[0]],
                false_positive_rate: alarms as f64 / negatives as f64,
                true_positive_rate: hits as f64 / positives as f64,
            });
        }
        let area = doubled as f64 / 2.0 / (positives as f64 * negatives as f64);
        Ok(Self { points, area })
    }

    /// The points, from the highest threshold to the lowest.
    pub fn points(&self) -> &[RocPoint] {
        &self.points
    }

    /// The area under the curve (ROC-AUC): the probability that a positive example scores higher than a negative one,
    /// ties counting half.
    pub fn area(&self) -> f64 {
        self.area
    }
}
