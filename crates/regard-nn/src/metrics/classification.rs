//! Confusion matrix, accuracy, precision, recall and F1.

use crate::error::{Error, Result};

/// The confusion matrix: how often each class was predicted as each.
///
/// Ratios with a zero denominator, such as the precision of a class that was never predicted, are 0 as in scikit-learn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confusion {
    classes: usize,
    /// Row by row: true class, predicted class.
    counts: Vec<u64>,
}

/// More classes than this are a mistake, and the matrix would not fit in memory.
const MOST_CLASSES: usize = 4096;

impl Confusion {
    /// An empty matrix.
    pub fn new(classes: usize) -> Result<Self> {
        if classes == 0 || classes > MOST_CLASSES {
            let problem = format!("{classes} classes: expected 1 to {MOST_CLASSES}");
            return Err(Error::metric("confusion matrix", problem));
        }
        Ok(Self { classes, counts: vec![0; classes * classes] })
    }

    /// The matrix of true and predicted classes. At least one example is needed.
    pub fn of(classes: usize, truth: &[usize], predicted: &[usize]) -> Result<Self> {
        if truth.len() != predicted.len() || truth.is_empty() {
            let problem = format!("{} true classes and {} predicted ones", truth.len(), predicted.len());
            return Err(Error::metric("confusion matrix", problem));
        }
        let mut confusion = Self::new(classes)?;
        for (&truth, &predicted) in truth.iter().zip(predicted) {
            confusion.add(truth, predicted)?;
        }
        Ok(confusion)
    }

    /// Adds one example.
    pub fn add(&mut self, truth: usize, predicted: usize) -> Result<()> {
        if truth >= self.classes || predicted >= self.classes {
            let problem = format!("class {} of {} classes", truth.max(predicted), self.classes);
            return Err(Error::metric("confusion matrix", problem));
        }
        self.counts[truth * self.classes + predicted] += 1;
        Ok(())
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The number of examples of class `truth` predicted as `predicted`; 0 for unknown classes.
    pub fn count(&self, truth: usize, predicted: usize) -> u64 {
        if truth < self.classes && predicted < self.classes {
            self.counts[truth * self.classes + predicted]
        } else {
            0
        }
    }

    /// The number of examples.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The share of correct predictions.
    pub fn accuracy(&self) -> f64 {
        let right = (0..self.classes).map(|class| self.count(class, class)).sum();
        ratio(right, self.total())
    }

    /// The share of the examples predicted as this class that belong to it.
    pub fn precision(&self, class: usize) -> f64 {
        ratio(self.count(class, class), self.predicted(class))
    }

    /// The share of the examples of this class that are predicted as it.
    pub fn recall(&self, class: usize) -> f64 {
        ratio(self.count(class, class), self.actual(class))
    }

    /// The harmonic mean of precision and recall.
    pub fn f1(&self, class: usize) -> f64 {
        ratio(2 * self.count(class, class), self.predicted(class) + self.actual(class))
    }

    /// The mean precision of the classes that occur as true or predicted classes.
    pub fn macro_precision(&self) -> f64 {
        self.mean(Self::precision)
    }

    /// The mean recall of the classes that occur.
    pub fn macro_recall(&self) -> f64 {
        self.mean(Self::recall)
    }

    /// The mean F1 of the classes that occur.
    pub fn macro_f1(&self) -> f64 {
        self.mean(Self::f1)
    }

    fn mean(&self, measure: impl Fn(&Self, usize) -> f64) -> f64 {
        let occurring = (0..self.classes).filter(|&class| self.actual(class) + self.predicted(class) > 0);
        let values: Vec<f64> = occurring.map(|class| measure(self, class)).collect();
        if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
    }

    fn actual(&self, class: usize) -> u64 {
        (0..self.classes).map(|predicted| self.count(class, predicted)).sum()
    }

    fn predicted(&self, class: usize) -> u64 {
        (0..self.classes).map(|truth| self.count(truth, class)).sum()
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
