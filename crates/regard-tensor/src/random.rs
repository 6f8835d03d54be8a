//! Random draws by name, not by turn.
//!
//! A generator with a running state gives results that depend on all earlier draws. Here a draw is a pure function
//! of *where* it is used: the seed, the step, the site (a name such as `layers.3.ffn.output`), the example's
//! index in the data and the element's index in the example. Recomputing a checkpointed segment, resuming a
//! run, splitting a batch or changing the number of threads therefore gives the same numbers.
//!
//! The function is Philox4x32-10 (Salmon et al., *Parallel random numbers: as easy as 1, 2, 3*, 2011): ten
//! rounds of multiply and mix on a 128-bit counter under a 64-bit key.
//!
//! ```
//! use regard_tensor::random::Key;
//! let key = Key::new(7).step(100).site("layers.0.ffn.output");
//! assert_eq!(key.uniform(3, 5), key.uniform(3, 5));
//! assert_ne!(key.uniform(3, 5), key.uniform(3, 6));
//! ```

/// A named source of random draws.
///
/// It remembers the source it was derived from and the name within it: a recorded training step derives its keys anew
/// from the key of another step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    source: u64,
    name: u64,
}

impl Key {
    /// The source of a whole run.
    pub fn new(seed: u64) -> Self {
        Self { source: seed ^ 0x5acc_ade0_0000_0001, name: 0 }
    }

    /// The source for one training step.
    #[must_use]
    pub fn step(self, step: u64) -> Self {
        self.fold(step.wrapping_mul(2))
    }

    /// The source for one named site in a model or program.
    #[must_use]
    pub fn site(self, name: &str) -> Self {
        // FNV-1a over the name; odd, so that no site equals a step.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        self.fold(hash | 1)
    }

    fn fold(self, value: u64) -> Self {
        Self { source: self.value(), name: mix(value) }
    }

    fn value(self) -> u64 {
        mix(self.source ^ self.name)
    }

    /// Its name within `source`, if it was derived from that in one step.
    pub(crate) fn within(self, source: Self) -> Option<u64> {
        (self.source == source.value()).then_some(self.name)
    }

    /// The key of this name within another source.
    pub(crate) fn named(self, name: u64) -> Self {
        Self { source: self.value(), name }
    }

    /// Four random 32-bit words for block `block` of example `example`.
    #[inline]
    pub fn words(self, example: u64, block: u64) -> [u32; 4] {
        let counter = [block as u32, (block >> 32) as u32, example as u32, (example >> 32) as u32];
        philox(counter, self.halves())
    }

    /// The two halves of the key, for kernels that run Philox in lanes.
    #[inline]
    pub(crate) fn halves(self) -> [u32; 2] {
        let value = self.value();
        [value as u32, (value >> 32) as u32]
    }

    /// A uniform number in [0, 1) for one element of one example.
    pub fn uniform(self, example: u64, element: u64) -> f32 {
        unit(self.words(example, element / 4)[(element % 4) as usize])
    }

    /// A uniform integer in `0..limit` for one element of one example; 0 when `limit` is 0.
    pub fn below(self, example: u64, element: u64, limit: usize) -> usize {
        let words = self.words(example, element);
        let wide = u64::from(words[0]) << 32 | u64::from(words[1]);
        ((u128::from(wide) * limit as u128) >> 64) as usize
    }

    /// `count` draws from the normal distribution with mean 0 and standard deviation `deviation`.
    pub fn normal(self, count: usize, deviation: f32) -> Vec<f32> {
        let mut values = Vec::with_capacity(count + 3);
        for block in 0..count.div_ceil(4) {
            let [a, b, c, d] = self.words(0, block as u64);
            for (u, v) in [(a, b), (c, d)] {
                // Box–Muller in f64; 1 − u lies in (0, 1], so the logarithm is finite.
                let radius = (-2.0 * (1.0 - f64::from(u) / 4294967296.0).ln()).sqrt() * f64::from(deviation);
                let (sin, cos) = (std::f64::consts::TAU * f64::from(v) / 4294967296.0).sin_cos();
                values.push((radius * cos) as f32);
                values.push((radius * sin) as f32);
            }
        }
        values.truncate(count);
        values
    }

    /// `count` draws from the uniform distribution on [low, high).
    pub fn uniforms(self, count: usize, low: f32, high: f32) -> Vec<f32> {
        // Rounding may reach `high`, which is excluded.
        let last = high.next_down().max(low);
        (0..count as u64).map(|i| (low + (high - low) * self.uniform(0, i)).min(last)).collect()
    }

    /// A random permutation of `0..count` for one epoch or example.
    pub fn permutation(self, example: u64, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for i in (1..count).rev() {
            order.swap(i, self.below(example, i as u64, i + 1));
        }
        order
    }
}

/// A number in [0, 1) with 24 bits from a random word.
#[inline]
pub(crate) fn unit(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// The finaliser of `SplitMix64`.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub(crate) const PHILOX_MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
pub(crate) const PHILOX_WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

#[inline]
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(PHILOX_MULTIPLIERS[0]) * u64::from(counter[0]);
        let b = u64::from(PHILOX_MULTIPLIERS[1]) * u64::from(counter[2]);
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
        key = [key[0].wrapping_add(PHILOX_WEYL[0]), key[1].wrapping_add(PHILOX_WEYL[1])];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers from the Random123 distribution.
    #[test]
    fn philox_matches_the_published_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn normal_draws_have_the_expected_moments() {
        let draws = Key::new(1).site("test").normal(100_000, 2.0);
        let mean = draws.iter().map(|&x| f64::from(x)).sum::<f64>() / 1e5;
        let variance = draws.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / 1e5;
        // Five standard errors of the mean (0.0063) and of the variance (0.018).
        assert!(mean.abs() < 0.032 && (variance - 4.0).abs() < 0.09, "{mean} {variance}");
    }

    #[test]
    fn a_permutation_contains_every_index_once_and_depends_on_the_key() {
        let order = Key::new(1).permutation(0, 1000);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().enumerate().all(|(i, &x)| i == x));
        assert_ne!(order, Key::new(2).permutation(0, 1000));
        assert_ne!(order, Key::new(1).permutation(1, 1000));
    }

    #[test]
    fn a_name_can_be_taken_to_another_source() {
        let (first, second) = (Key::new(3).step(1), Key::new(3).step(2));
        let name = first.site("layers.0").within(first).unwrap();
        assert_eq!(second.named(name), second.site("layers.0"));
        assert!(first.site("layers.0").within(second).is_none());
        assert!(first.site("layers.0").site("output").within(first).is_none());
    }

    #[test]
    fn sites_and_steps_do_not_collide() {
        let key = Key::new(3);
        let sites = (0..100).map(|i| key.site(&format!("layers.{i}")));
        let steps = (0..100).map(|i| key.step(i));
        let all: std::collections::HashSet<_> = sites.chain(steps).collect();
        assert_eq!(all.len(), 200);
    }
}
