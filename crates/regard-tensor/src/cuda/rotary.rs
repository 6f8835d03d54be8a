//! Rotation of pairs of values by an angle that grows with position.

use super::error::{Result, ensure};
use super::launch::{Grid, arguments};
use super::memory::{Buffer, Element, View};
use super::program::{Source, source};
use crate::ops::Pairing;

pub use crate::kernels::rotary::Rotation;

static PROGRAM: Source = source!("rotary.cu");

/// `cos` and `sin` hold (positions, rotated / 2) f32 values; `positions` one for each row, below their number.
pub fn rotate(x: View, cos: View, sin: View, positions: View, rotation: Rotation) -> Result<Buffer> {
    let Rotation { pairing, heads, width, rotated, direction } = rotation;
    let rows = positions.len();
    ensure(x.len() == rows * heads * width, "rotary", rows * heads * width, x.len())?;
    ensure(
        rotated <= width && rotated.is_multiple_of(2),
        "rotary",
        format_args!("at most {width}"),
        rotated,
    )?;
    let fits = cos.element() == Element::F32 && sin.element() == Element::F32 && cos.len() == sin.len();
    ensure(fits, "rotary", "as many f32 sines as cosines", sin.len())?;
    let device = x.device();
    let out = device.allocate(x.len(), x.element())?;
    // Pairs that a thread takes, and the values it reads at once: 16 bytes where the widths allow it.
    let (pairs, values) = match (pairing, x.element()) {
        (Pairing::Halves, _) => (4, 4),
        (Pairing::Interleaved, Element::F32) => (2, 4),
        (Pairing::Interleaved, _) => (4, 8),
    };
    let even = (rotated / 2).is_multiple_of(pairs)
        && (width - rotated).is_multiple_of(pairs)
        && width.is_multiple_of(values)
        && x.pointer().is_multiple_of(16);
    let together = if even { pairs } else { 1 };
    let name = match pairing {
        Pairing::Halves => "halves",
        Pairing::Interleaved => "interleaved",
    };
    let groups = rotated / 2 / together + (width - rotated) / together;
    device.launch(
        &PROGRAM,
        &format!("rotate_{name}_{}_{together}", x.element().name()),
        Grid::over(rows * heads * groups, 1),
        arguments![x, &out, cos, sin, positions, rows, heads as u32, width as u32, rotated as u32, direction],
    )?;
    Ok(out)
}
