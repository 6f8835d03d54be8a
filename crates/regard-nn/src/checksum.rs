//! A checksum against accidental changes. It is not cryptographic.

/// A checksum of a sequence of values.
///
/// Each step adds eight bytes and is invertible, so that a single change is always detected; rotating the bits between
/// steps makes it unlikely that several changes cancel.
///
/// ```
/// use regard_nn::Checksum;
/// let mut sum = Checksum::default();
/// sum.ids(&[1, 2, 3]);
/// let mut other = Checksum::default();
/// other.ids(&[1, 3, 2]);
/// assert_ne!(sum.value(), other.value());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Checksum {
    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Adds bytes and their number.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        let (whole, rest) = bytes.as_chunks::<8>();
        for eight in whole {
            self.number(u64::from_le_bytes(*eight));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.number(u64::from_le_bytes(last));
    }

    /// Adds ids and their number.
    pub fn ids(&mut self, ids: &[u32]) {
        self.words(ids.len(), ids.iter().copied());
    }

    /// Adds the bits of values and their number.
    pub fn values(&mut self, values: &[f32]) {
        self.words(values.len(), values.iter().map(|value| value.to_bits()));
    }

    fn words(&mut self, count: usize, mut words: impl Iterator<Item = u32>) {
        self.number(count as u64);
        while let Some(first) = words.next() {
            self.number(u64::from(first) | u64::from(words.next().unwrap_or(0)) << 32);
        }
    }

    /// The checksum.
    pub fn value(self) -> u64 {
        self.0
    }
}
