//! Ids in ascending order.

use super::error::Result;
use super::launch::{Grid, arguments};
use super::memory::{Buffer, Element, View};
use super::program::{Source, source};

static PROGRAM: Source = source!("sort.cu");

/// As many ids as a block takes, and how many values a digit has: see `sort.cu`.
const TILE: usize = 2048;
const DIGIT_BITS: u32 = 4;

/// Ids in ascending order, and where each was before; equal ids keep their order. All ids must be below `limit`.
pub(super) fn sort(ids: View, limit: usize) -> Result<(Buffer, Buffer)> {
    let (device, count) = (ids.device(), ids.len());
    let room = || device.allocate(count, Element::U32);
    let (mut sorted, mut order) = (room()?, room()?);
    let (mut next_sorted, mut next_order) = (room()?, room()?);
    let blocks = count.div_ceil(TILE);
    let places = device.allocate(blocks << DIGIT_BITS, Element::U32)?;
    // At least one pass, which also fills `order`.
    let bits = (usize::BITS - limit.saturating_sub(1).leading_zeros()).max(1);
    for shift in (0..bits).step_by(DIGIT_BITS as usize) {
        let (from, from_order) = if shift == 0 { (ids, None) } else { (sorted.view(), Some(order.view())) };
        let grid = Grid::new(blocks, 256);
        device.launch(&PROGRAM, "count_digits", grid, arguments![from, &places, count, shift])?;
        device.launch(&PROGRAM, "scan", Grid::new(1, 1024), arguments![&places, places.len()])?;
        device.launch(
            &PROGRAM,
            "scatter",
            grid,
            arguments![from, from_order, &next_sorted, &next_order, &places, count, shift],
        )?;
        std::mem::swap(&mut sorted, &mut next_sorted);
        std::mem::swap(&mut order, &mut next_order);
    }
    Ok((sorted, order))
}
