//! The random draws of one text.

use regard_tensor::random::Key;

/// A sequence of draws that depends only on the key and the text's index, so that any text can be generated without the
/// ones before it.
#[derive(Debug, Clone)]
pub(super) struct Draws {
    key: Key,
    text: u64,
    element: u64,
}

impl Draws {
    pub fn new(key: Key, text: u64) -> Self {
        Self { key, text, element: 0 }
    }

    /// A uniform integer in `0..limit`; 0 when `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let value = self.key.below(self.text, self.element, limit);
        self.element += 1;
        value
    }

    /// A uniform number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        const STEPS: usize = 1 << 53;
        self.below(STEPS) as f64 / STEPS as f64
    }

    /// True with this probability.
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// An index with probability proportional to its weight. `cumulative` has the cumulative sums of the weights.
    pub fn weighted(&mut self, cumulative: &[f64]) -> usize {
        let total = cumulative.last().copied().unwrap_or(0.0);
        let at = self.unit() * total;
        cumulative.partition_point(|&sum| sum <= at).min(cumulative.len().saturating_sub(1))
    }

    /// Shuffles the elements.
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for i in (1..elements.len()).rev() {
            let other = self.below(i + 1);
            elements.swap(i, other);
        }
    }
}
