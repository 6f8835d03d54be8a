//! What several experiments measure models with.

pub mod cross_attention;
pub mod head_patterns;
pub mod savings;
pub mod stopwatch;
pub mod tagger_attention;
pub mod word_guessing;
pub mod word_kinds;

/// The largest of some sizes: infinite if one of them is not a number, which `max` would pass over.
pub fn largest(sizes: impl IntoIterator<Item = f64>) -> f64 {
    sizes.into_iter().fold(0.0, |most, size| if size.is_nan() { f64::INFINITY } else { most.max(size) })
}
