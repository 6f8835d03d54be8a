//! Rotation of pairs of values by an angle that grows with position.

use super::threads;
use crate::array::Array;
use crate::kernels::rotary::{Pairing, Rotation};

/// `cos` and `sin` hold (positions, rotated / 2); `positions` one for each (batch, time).
pub(crate) fn rotate(x: &Array, cos: &Array, sin: &Array, positions: &[u32], rotation: Rotation) -> Array {
    let Rotation { pairing, heads, width, rotated, direction } = rotation;
    let (x, cos, sin) = (x.slice(), cos.slice(), sin.slice());
    let half = rotated / 2;
    let row = heads * width;
    Array::build(x.len(), |out| {
        let rows = threads::rows_per_task(row);
        threads::chunks(out, rows * row, |index, out| {
            for (i, out) in out.chunks_mut(row.max(1)).enumerate() {
                let place = index * rows + i;
                let position = positions[place] as usize;
                let (cos, sin) = (&cos[position * half..][..half], &sin[position * half..][..half]);
                let x = &x[place * row..(place + 1) * row];
                for (x, out) in x.chunks(width).zip(out.chunks_mut(width)) {
                    match pairing {
                        Pairing::Halves => {
                            for j in 0..half {
                                let (a, b, s) = (x[j], x[j + half], sin[j] * direction);
                                out[j] = a * cos[j] - b * s;
                                out[j + half] = b * cos[j] + a * s;
                            }
                        }
                        Pairing::Interleaved => {
                            for j in 0..half {
                                let (a, b, s) = (x[2 * j], x[2 * j + 1], sin[j] * direction);
                                out[2 * j] = a * cos[j] - b * s;
                                out[2 * j + 1] = b * cos[j] + a * s;
                            }
                        }
                    }
                    out[rotated..].copy_from_slice(&x[rotated..]);
                }
            }
        });
    })
}
