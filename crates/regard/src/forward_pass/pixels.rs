//! Maps as 8-bit levels: all of a head as a thumbnail, or one tile of it at any zoom.
//!
//! A pixel that stands for several values shows the largest, so that a thin line (a head that looks one token back) is
//! seen at every zoom. Level 255 is the map's [`ColourLimit`] and everything beyond it; on the logarithmic scale level 0 is a
//! ten-thousandth of it.

use super::attention_map::{AttentionMap, MapKey, MapScale};
use super::colour_limit::{ColourLimit, SIDE, Thumbnail};
use super::pass::ForwardPass;
use super::token_axis::TokenDisplay;
use crate::error::{UsageError, usage_error};
use anyhow::{Result, ensure};
use std::sync::atomic::AtomicBool;

/// The side of a tile, in pixels.
pub const TILE: usize = 256;
/// Orders of magnitude of the logarithmic scale.
const DECADES: f32 = 4.0;
/// The largest thumbnail, and the deepest zoom.
const LARGEST_THUMBNAIL: usize = 128;
const DEEPEST: u32 = 8;

/// Levels of a piece of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct Tile {
    /// How many pixels it is wide.
    pub width: usize,
    /// How many pixels it is high.
    pub height: usize,
    /// The value of level 255.
    pub top: ColourLimit,
    /// Row by row.
    pub levels: Vec<u8>,
}

/// Small pictures of the heads of one attention, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Thumbnails {
    /// How wide each is.
    pub width: usize,
    /// How high each is.
    pub height: usize,
    /// The value of level 255 in each.
    pub tops: Vec<ColourLimit>,
    /// Head by head, row by row.
    pub levels: Vec<u8>,
}

/// The level of a value.
fn level(value: f32, peak: f32, scale: MapScale) -> u8 {
    if !(value > 0.0 && peak > 0.0) {
        return 0;
    }
    let share = match scale {
        MapScale::Log => 1.0 + (value / peak).log10() / DECADES,
        _ => value / peak,
    };
    (share.clamp(0.0, 1.0) * 255.0).round() as u8
}

/// Small pictures of all heads of an attention, at most `side` pixels wide and high.
pub fn thumbnails(
    pass: &ForwardPass,
    site: usize,
    (side, scale, shown): (usize, MapScale, TokenDisplay),
    cancel: &AtomicBool,
) -> Result<Thumbnails> {
    let heads = pass.sites().get(site).map_or(0, |site| site.heads);
    let side = side.clamp(1, LARGEST_THUMBNAIL);
    let mut all = Thumbnails { width: 0, height: 0, tops: Vec::new(), levels: Vec::new() };
    for head in 0..heads {
        let grid = AttentionMap::new(pass, MapKey { site, head, scale, shown }, cancel)?;
        let small = Thumbnail::new(&grid, side, cancel)?;
        // A thumbnail of the usual size already gives the colour limit of all pictures of this map.
        let top = match side {
            SIDE => small.top,
            _ => grid.top(cancel)?,
        };
        grid.remember(top);
        all.levels.extend(small.values.iter().map(|&value| level(value, top.top, scale)));
        all.tops.push(top);
        (all.width, all.height) = (small.width, small.height);
    }
    Ok(all)
}

/// One tile of a map: at zoom z a pixel stands for 2^z × 2^z values.
pub fn tile(grid: &AttentionMap, zoom: u32, (x, y): (usize, usize), cancel: &AtomicBool) -> Result<Tile> {
    ensure!(zoom <= DEEPEST, UsageError(format!("the deepest zoom is {DEEPEST}, not {zoom}")));
    let (rows, columns) = grid.size();
    let span = TILE << zoom;
    let inside = |place: usize, length: usize| place.checked_mul(span).filter(|&start| start < length);
    let (Some(top), Some(left)) = (inside(y, rows), inside(x, columns)) else {
        return Err(usage_error(format!("there is no tile {x}, {y} at zoom {zoom}")));
    };
    let (bottom, right) = ((top + span).min(rows), (left + span).min(columns));
    let ends = grid.top(cancel)?;
    let pixels = |length: usize| length.div_ceil(1 << zoom);
    let (width, height) = (pixels(right - left), pixels(bottom - top));
    let mut largest = vec![0.0_f32; width * height];
    grid.each_band(top..bottom, &(left..right), cancel, |first, band| {
        for (i, values) in band.chunks(right - left).enumerate() {
            let row = &mut largest[((first + i - top) >> zoom) * width..][..width];
            for (j, &value) in values.iter().enumerate() {
                row[j >> zoom] = row[j >> zoom].max(value);
            }
        }
    })?;
    let levels = largest.iter().map(|&value| level(value, ends.top, grid.scale())).collect();
    Ok(Tile { width, height, top: ends, levels })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_run_from_nothing_to_the_peak() {
        assert_eq!([0.0, 0.5, 1.0].map(|v| level(v, 1.0, MapScale::Raw)), [0, 128, 255]);
        assert_eq!([1e-9, 1e-4, 1e-2, 1.0].map(|v| level(v, 1.0, MapScale::Log)), [0, 0, 128, 255]);
        assert_eq!([f32::NAN, -1.0].map(|v| level(v, 1.0, MapScale::Raw)), [0, 0]);
        assert_eq!(level(0.0, 0.0, MapScale::Log), 0, "an empty map");
    }
}
