//! Attention of one new token over a cache with room.

use super::error::{Result, ensure};
use super::launch::{Grid, arguments};
use super::memory::{Buffer, Element, View, ViewMut};
use super::program::{Source, source};

pub use crate::kernels::decode::Decode;

static PROGRAM: Source = source!("decode.cu");

/// Threads of a block, keys that each asks for at once, and keys that a block takes at most, as in the program.
const THREADS: usize = 128;
const AHEAD: usize = 4;
const MOST_RUN: usize = 64;

/// Keys that a thread block takes: each lane of a group reads one vector of a key.
fn run(width: usize, element: Element) -> usize {
    let lanes = (width / element.per_vector()).next_power_of_two().min(32);
    (THREADS / lanes * AHEAD).min(MOST_RUN)
}

/// New query, key and value of each text; caches; the place of the new ones (u32, below the room); a sink a head (f32).
///
/// Each block attends to a run of keys; a second kernel joins the runs in their order.
pub fn decode(
    [query, key, value]: [View; 3],
    [mut keys, mut values]: [ViewMut; 2],
    at: View,
    sink: Option<View>,
    sizes: Decode,
) -> Result<Buffer> {
    let Decode { batch, heads, kv_heads, room, width, scale, soft_cap } = sizes;
    let (element, device) = (query.element(), query.device());
    let whole = width.is_multiple_of(element.per_vector()) && width <= 256;
    ensure(
        whole,
        "decode",
        format_args!("heads of a multiple of {}, up to 256", element.per_vector()),
        width,
    )?;
    ensure(query.len() == batch * heads * width, "decode", batch * heads * width, query.len())?;
    let new = batch * kv_heads * width;
    for (view, expected) in
        [(key, new), (value, new), (keys.as_view(), new * room), (values.as_view(), new * room)]
    {
        let fits = view.len() == expected && view.element() == element && view.pointer().is_multiple_of(16);
        ensure(fits, "decode", format_args!("{expected} aligned values of {}", element.name()), view.len())?;
    }
    ensure(at.len() == batch, "decode", batch, at.len())?;
    let runs = room.div_ceil(run(width, element));
    // Of each run and query head: a sum of values, the largest score, the sum of weights.
    let parts = device.allocate(batch * heads * runs * (width + 2), Element::F32)?;
    let out = device.allocate(query.len(), element)?;
    let cap = soft_cap.unwrap_or(0.0);
    let grid = Grid { blocks: (batch * kv_heads, runs, 1), ..Grid::new(1, THREADS) }.early();
    device.launch(
        &PROGRAM,
        &format!("runs_{}", element.name()),
        grid,
        arguments![
            query,
            key,
            value,
            &mut keys,
            &mut values,
            at,
            &parts,
            heads as u32,
            kv_heads as u32,
            room as u32,
            width as u32,
            scale,
            cap
        ],
    )?;
    let grid = Grid::new(batch * heads, width.next_multiple_of(32)).early();
    let name = format!("join_{}", element.name());
    let sizes = (heads as u32, runs as u32, width as u32);
    device.launch(&PROGRAM, &name, grid, arguments![&parts, at, sink, &out, sizes.0, sizes.1, sizes.2])?;
    Ok(out)
}
