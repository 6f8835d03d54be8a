//! The random draws of one text.

use regard_tensor::random::Key;

/// A sequence of draws that depends on the key and the text's index alone: two texts share nothing, and any of them can
/// be made without the ones before it.
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

    /// A whole number in `0..limit`; 0 when `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let value = self.key.below(self.text, self.element, limit);
        self.element += 1;
        value
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        const STEPS: usize = 1 << 53;
        self.below(STEPS) as f64 / STEPS as f64
    }

    /// True in this share of cases.
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// An index, each as often as its weight says. `cumulative` holds the sums of the weights up to each.
    pub fn weighted(&mut self, cumulative: &[f64]) -> usize {
        let total = cumulative.last().copied().unwrap_or(0.0);
        let at = self.unit() * total;
        cumulative.partition_point(|&sum| sum <= at).min(cumulative.len().saturating_sub(1))
    }

    /// Puts the elements into a random order.
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for i in (1..elements.len()).rev() {
            let other = self.below(i + 1);
            elements.swap(i, other);
        }
    }
}
