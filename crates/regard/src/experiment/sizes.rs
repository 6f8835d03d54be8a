//! A value for each size of an experiment.

use super::Size;

/// A value for each [`Size`], such as the number of seeds, of steps or of test texts.
///
/// A size that is not named takes the value of the next smaller one, and smoke takes that of quick:
/// `Sizes::quick(4).smoke(2).standard(5)` is 2, 4, 5, 5 and 5.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizes<T> {
    smoke: Option<T>,
    quick: T,
    standard: Option<T>,
    full: Option<T>,
    large: Option<T>,
}

impl<T: Copy> Sizes<T> {
    /// The value at quick size.
    pub const fn quick(value: T) -> Self {
        Self { smoke: None, quick: value, standard: None, full: None, large: None }
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

    /// The value at large size, if it differs from full.
    #[must_use]
    pub const fn large(self, value: T) -> Self {
        Self { large: Some(value), ..self }
    }

    /// Whether large size has a value of its own.
    pub fn names_large(&self) -> bool {
        self.large.is_some()
    }

    /// The value at a size.
    pub fn at(&self, size: Size) -> T {
        match size {
            Size::Smoke => self.smoke.unwrap_or(self.quick),
            Size::Quick => self.quick,
            Size::Standard => self.standard.unwrap_or(self.quick),
            Size::Full => self.full.unwrap_or_else(|| self.at(Size::Standard)),
            Size::Large => self.large.unwrap_or_else(|| self.at(Size::Full)),
        }
    }
}

/// The value at each size that has one of its own, from quick on: "quick 4, standard 5".
impl<T: Copy + std::fmt::Debug> std::fmt::Display for Sizes<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |value: T| format!("{value:?}").replace(&usize::MAX.to_string(), "all");
        write!(f, "quick {}", text(self.quick))?;
        for (name, value) in [("standard", self.standard), ("full", self.full), ("large", self.large)] {
            if let Some(value) = value {
                write!(f, ", {name} {}", text(value))?;
            }
        }
        Ok(())
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
            [Size::Smoke, Size::Quick, Size::Standard, Size::Full, Size::Large].map(|size| sizes.at(size))
        };
        assert_eq!(Sizes::quick(4).smoke(1).full(usize::MAX).to_string(), "quick 4, full all");
        assert_eq!(all(Sizes::quick(4)), [4, 4, 4, 4, 4]);
        assert_eq!(all(Sizes::quick(4).smoke(2).standard(5)), [2, 4, 5, 5, 5]);
        assert_eq!(all(Sizes::quick(4).large(8)), [4, 4, 4, 4, 8]);
        assert_eq!(all(Sizes::quick(4).full(9)), [4, 4, 4, 9, 9]);
    }
}
