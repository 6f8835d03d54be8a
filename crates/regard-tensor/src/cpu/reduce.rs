//! Sums, maxima and where they are, along one axis.

use super::broadcast::AddInto;
use super::norm::BANDS;
use super::simd::{self, dispatch};
use super::threads::{self, Shared};
use crate::array::Array;
use crate::kernels::reduce::Axis;
use pulp::{Simd, WithSimd};

struct SumRow<'a>(&'a [f32]);

impl WithSimd for SumRow<'_> {
    type Output = f32;
    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) -> f32 {
        simd::sum(
            s,
            self.0,
            #[inline(always)]
            |x| x,
        )
    }
}

/// Long sums are taken in pieces of this length, each in lanes, then piece by piece.
const PIECE: usize = 4096;

fn sum_row(row: &[f32]) -> f32 {
    row.chunks(PIECE).map(|piece| f64::from(dispatch(SumRow(piece)))).sum::<f64>() as f32
}

pub(crate) fn sum(x: &Array, (outer, length, inner): Axis) -> Array {
    let x = x.slice();
    if inner == 1 {
        return Array::build(outer, |out| {
            let rows = threads::rows_per_task(length);
            threads::chunks(out, rows, |index, out| {
                for (row, out) in out.iter_mut().enumerate() {
                    let start = (index * rows + row) * length;
                    *out = sum_row(&x[start..start + length]);
                }
            });
        });
    }
    let mut total = Array::zeros(outer * inner);
    threads::chunks(total.slice_mut(), inner, |block, total| {
        sum_in_blocks(&x[block * length * inner..(block + 1) * length * inner], inner, total);
    });
    total
}

/// Adds the rows of a matrix to `total`, pairwise above a few rows: the error of a plain sum grows with the number of its
/// terms, that of a pairwise one with its logarithm.
pub(crate) fn sum_in_blocks(x: &[f32], columns: usize, total: &mut [f32]) {
    const FEW: usize = 64;
    let rows = x.len() / columns.max(1);
    if rows <= FEW {
        for row in x.chunks(columns.max(1)) {
            dispatch(AddInto { total, x: row });
        }
        return;
    }
    let (first, second) = x.split_at(rows / 2 * columns);
    let mut half = vec![0.0; columns];
    for part in [first, second] {
        half.fill(0.0);
        sum_in_blocks(part, columns, &mut half);
        dispatch(AddInto { total, x: &half });
    }
}

/// The sum of each column of a matrix: the gradient of a bias.
pub(crate) fn column_sums(x: &Array, rows: usize, columns: usize) -> Array {
    let mut total = Array::zeros(columns);
    add_column_sums(x.slice(), rows, columns, total.slice_mut());
    total
}

/// Bands of rows are summed apart, then in order.
pub(crate) fn add_column_sums(x: &[f32], rows: usize, columns: usize, total: &mut [f32]) {
    if rows == 0 || columns == 0 {
        return;
    }
    let band = rows.div_ceil(BANDS).max(threads::rows_per_task(columns)).max(1);
    let bands = rows.div_ceil(band);
    let mut partial = Array::zeros(bands * columns);
    threads::chunks(partial.slice_mut(), columns, |index, partial| {
        let end = ((index + 1) * band).min(rows);
        sum_in_blocks(&x[index * band * columns..end * columns], columns, partial);
    });
    for partial in partial.slice().chunks(columns) {
        dispatch(AddInto { total, x: partial });
    }
}

/// The largest value along an axis and its place (the first of equals); NaN wins over everything.
pub(crate) fn max(x: &Array, (outer, length, inner): Axis) -> (Array, Vec<u32>) {
    let x = x.slice();
    let mut places = vec![0_u32; outer * inner];
    let places_shared = Shared::new(&mut places);
    let values = Array::build(outer * inner, |out| {
        threads::chunks(out, inner.max(1), |block, out| {
            // SAFETY: each block has its own `inner` places.
            let places = unsafe { places_shared.range(block * inner, inner) };
            let x = &x[block * length * inner..(block + 1) * length * inner];
            out.copy_from_slice(&x[..inner]);
            for (position, row) in x.chunks(inner.max(1)).enumerate().skip(1) {
                for ((best, place), &value) in out.iter_mut().zip(places.iter_mut()).zip(row) {
                    if value > *best || (value.is_nan() && !best.is_nan()) {
                        *best = value;
                        *place = position as u32;
                    }
                }
            }
        });
    });
    (values, places)
}

/// Puts each value at its place along an axis that is zero elsewhere: the gradient of a maximum.
pub(crate) fn scatter(values: &Array, places: &[u32], (outer, length, inner): Axis) -> Array {
    let values = values.slice();
    let mut out = Array::zeros(outer * length * inner);
    threads::chunks(out.slice_mut(), (length * inner).max(1), |block, out| {
        for i in 0..inner {
            out[places[block * inner + i] as usize * inner + i] = values[block * inner + i];
        }
    });
    out
}

struct SquareRow<'a>(&'a [f32]);

impl WithSimd for SquareRow<'_> {
    type Output = f32;
    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) -> f32 {
        simd::sum(
            s,
            self.0,
            #[inline(always)]
            |x| s.mul_f32s(x, x),
        )
    }
}

/// The sum of squares, in pieces by the array's length alone.
pub(crate) fn sum_of_squares(x: &Array) -> f64 {
    let x = x.slice();
    let pieces = x.len().div_ceil(PIECE);
    let mut sums = vec![0.0_f64; pieces];
    let shared = Shared::new(&mut sums);
    let together = 8;
    threads::run(pieces.div_ceil(together), |task| {
        for piece in task * together..((task + 1) * together).min(pieces) {
            let start = piece * PIECE;
            let sum = dispatch(SquareRow(&x[start..(start + PIECE).min(x.len())]));
            // SAFETY: each piece has its own place.
            unsafe { shared.range(piece, 1)[0] = f64::from(sum) };
        }
    });
    sums.iter().sum()
}

/// The Euclidean norm of all arrays together, summed in their order.
pub(crate) fn norm(arrays: &[&Array]) -> Array {
    let squares = arrays.iter().map(|array| sum_of_squares(array));
    Array::filled(1, squares.sum::<f64>().sqrt() as f32)
}
