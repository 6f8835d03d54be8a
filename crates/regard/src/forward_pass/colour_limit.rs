//! The end of an attention map's colour scale: the value of its darkest colour.
//!
//! The largest value would be a poor choice: in a long text a few early words, which have few visible keys, would make
//! everything else pale. The map is seen as a small picture, each pixel of which shows the largest of what it stands for,
//! so that a thin line counts as much as it is seen; of its pixels one in a hundred may be darker than the scale.

use super::attention_map::AttentionMap;
use anyhow::Result;
use std::sync::atomic::AtomicBool;

/// The side of the picture by which a map is judged.
pub(super) const SIDE: usize = 64;
/// The share of its pixels that may lie beyond the darkest colour.
const BEYOND: f64 = 0.01;

/// The end of a colour scale.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ColourLimit {
    /// The value of the darkest colour.
    pub top: f32,
    /// The largest value, which may lie beyond.
    pub largest: f32,
}

impl ColourLimit {
    /// Of the pixels of a small picture; those that show nothing do not count.
    fn of(pixels: &[f32]) -> Self {
        let mut seen: Vec<f32> =
            pixels.iter().copied().filter(|&value| value > 0.0 && value.is_finite()).collect();
        let beyond = (seen.len() as f64 * BEYOND) as usize;
        if seen.is_empty() {
            return Self::default();
        }
        let (larger, &mut top, _) = seen.select_nth_unstable_by(beyond, |a, b| b.total_cmp(a));
        Self { top, largest: larger.iter().copied().fold(top, f32::max) }
    }
}

/// A map made small.
pub(super) struct Thumbnail {
    pub width: usize,
    pub height: usize,
    /// Row by row, the largest of what each pixel stands for.
    pub values: Vec<f32>,
    /// Of the rows with more than one visible key: under a causal mask the first query sees only itself, and its
    /// weight of 1 means nothing.
    pub top: ColourLimit,
}

impl Thumbnail {
    /// A map at most `side` pixels wide and high.
    pub fn new(grid: &AttentionMap, side: usize, cancel: &AtomicBool) -> Result<Self> {
        let (rows, columns) = grid.size();
        let (height, width) = (rows.min(side), columns.min(side));
        let mut values = vec![0.0_f32; height * width];
        let mut forced = vec![0.0_f32; width];
        // Where each column goes is the same for all rows.
        let place: Vec<usize> = (0..columns).map(|column| column * width / columns.max(1)).collect();
        grid.each_band(0..rows, &(0..columns), cancel, |first, band| {
            for (i, row) in band.chunks(columns.max(1)).enumerate() {
                let pixels = match first + i < grid.first_free() {
                    true => &mut forced[..],
                    false => &mut values[(first + i) * height / rows * width..][..width],
                };
                for (&value, &place) in row.iter().zip(&place) {
                    pixels[place] = pixels[place].max(value);
                }
            }
        })?;
        let top = ColourLimit::of(&values);
        for (pixel, value) in values.iter_mut().zip(forced) {
            *pixel = pixel.max(value);
        }
        Ok(Self { width, height, values, top })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pixels_lie_beyond_the_top() {
        let pixels: Vec<f32> = (0..=1000).map(|value| value as f32).collect();
        assert_eq!(ColourLimit::of(&pixels), ColourLimit { top: 990.0, largest: 1000.0 });
        let few = [0.1, 0.0, f32::NAN, 0.7];
        assert_eq!(
            ColourLimit::of(&few),
            ColourLimit { top: 0.7, largest: 0.7 },
            "of a small map it is the largest"
        );
        assert_eq!(ColourLimit::of(&[0.0; 9]), ColourLimit::default(), "an empty map");
    }
}
