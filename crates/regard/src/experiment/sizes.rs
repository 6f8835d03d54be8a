//! A value for each size of an experiment.

use super::Size;

/// A value for each [`Size`], such as the number of seeds, of steps or of test texts.
///
/// A size that is not named takes the value of the next smaller one, and smoke takes that of quick:
/// `Sizes::quick(4).smoke(2).standard(5)` is 2, 4, 5 and 5.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizes<T> {
    smoke: Option<T>,
    quick: T,
    standard: Option<T>,
    full: Option<T>,
}

impl<T: Copy> Sizes<T> {
    /// The value at quick size.
    pub const fn quick(value: T) -> Self {
        Self { smoke: None, quick: value, standard: None, full: None }
    }

    /// The value at smoke size, if it differs from quick.
    #[must_use]
    pub const fn smoke(self, value: T) -> Self {
        Self { smoke: Some(value), ..self }
    }

    /// The value at standard size, if it differs from quick.
    #[must_use]
    pub const fn standard(self, value: T) -> Self {
        Self { standard: Some(value), ..self }
    }

    /// The value at full size, if it differs from standard.
    #[must_use]
    pub const fn full(self, value: T) -> Self {
        Self { full: Some(value), ..self }
    }

    /// The value at a size.
    pub fn at(&self, size: Size) -> T {
        match size {
            Size::Smoke => self.smoke.unwrap_or(self.quick),
            Size::Quick => self.quick,
            Size::Standard => self.standard.unwrap_or(self.quick),
            Size::Full => self.full.unwrap_or_else(|| self.at(Size::Standard)),
        }
    }
}

/// The seeds of an experiment whose models take seconds to train: three times as many at standard size.
pub const SMALL_MODELS: Sizes<u64> = Sizes::quick(5).standard(15).full(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_is_not_named_takes_the_value_of_the_next_smaller_one() {
        let all = |sizes: Sizes<u32>| {
            [Size::Smoke, Size::Quick, Size::Standard, Size::Full].map(|size| sizes.at(size))
        };
        assert_eq!(all(Sizes::quick(4)), [4, 4, 4, 4]);
        assert_eq!(all(Sizes::quick(4).smoke(2).standard(5)), [2, 4, 5, 5]);
        assert_eq!(all(Sizes::quick(4).full(9)), [4, 4, 4, 9]);
    }
}
