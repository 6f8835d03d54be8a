//! The right operand of a product, usually a layer's weights: `f32`, or 16-bit values that become `f32` where they are read.
//!
//! A model's file is mapped, and mostly holds 16-bit values. Widening them as a whole would take twice the file's memory once
//! more. Here a value is widened on its way into a panel's copy or into a register, so that memory is read at two bytes a
//! weight. The sums are the same, in the same order, as those of widened weights.

use super::Matrix;
use super::task::PANEL;
use super::turn::{Narrow, turn};
use crate::cpu::simd::{Bf16, F16, copy_widened, widen_row};
use crate::storage::Values;
use pulp::{Simd, WithSimd};

/// A matrix of values of any type: element (i, j) lies at `i * row + j * column`.
#[derive(Clone, Copy)]
pub(crate) struct Right<'a> {
    pub values: Values<'a>,
    pub row: usize,
    pub column: usize,
}

impl<'a> From<Matrix<'a>> for Right<'a> {
    fn from(matrix: Matrix<'a>) -> Self {
        Self { values: Values::F32(matrix.values), row: matrix.row, column: matrix.column }
    }
}

impl<'a> Right<'a> {
    /// A row-major matrix with `columns` columns.
    pub fn rows(values: Values<'a>, columns: usize) -> Self {
        Self { values, row: columns, column: 1 }
    }

    /// The same matrix with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self { values: self.values, row: self.column, column: self.row }
    }

    pub(super) fn covers(&self, rows: usize, columns: usize) -> bool {
        rows == 0 || columns == 0 || (rows - 1) * self.row + (columns - 1) * self.column < self.values.count()
    }

    /// The rows from `row` on.
    pub(super) fn rows_from(self, row: usize) -> Self {
        Self { values: self.values.part(row * self.row..self.values.count()), ..self }
    }

    /// Where element (i, j) lies, if its row can be read in place.
    #[inline(always)]
    pub(super) fn in_place(&self, i: usize, j: usize) -> Option<*const f32> {
        match self.values {
            Values::F32(values) if self.column == 1 => Some(values[i * self.row + j..].as_ptr()),
            _ => None,
        }
    }

    /// Copies `len` rows from `depth` on of the columns of a panel to rows of [`PANEL`], with zeros beyond the matrix.
    #[inline(always)]
    pub(super) fn copy_panel<S: Simd>(
        self,
        s: S,
        columns: (usize, usize),
        rows: (usize, usize),
        to: &mut [f32],
    ) {
        // A call: every kind of product would have a copy of it for every type and orientation.
        s.vectorize(CopyPanel { right: self, columns, rows, to });
    }

    /// Rows that lie as the panel's do.
    #[inline(always)]
    fn copy_rows(&self, width: usize, to: &mut [f32]) {
        for (i, to) in to.as_chunks_mut::<PANEL>().0.iter_mut().enumerate() {
            // A copy of known length is a few vector moves instead of a call.
            let whole = width == PANEL;
            let start = i * self.row;
            match self.values {
                Values::F32(from) => match from[start..].first_chunk::<PANEL>() {
                    Some(from) if whole => *to = *from,
                    _ => to[..width].copy_from_slice(&from[start..][..width]),
                },
                Values::Bf16(from) => match from[start..].first_chunk::<PANEL>() {
                    Some(from) if whole => widen_row::<Bf16>(from, to),
                    _ => widen_row::<Bf16>(&from[start..][..width], to),
                },
                Values::F16(from) => match from[start..].first_chunk::<PANEL>() {
                    Some(from) if whole => widen_row::<F16>(from, to),
                    _ => widen_row::<F16>(&from[start..][..width], to),
                },
            }
            to[width..].fill(0.0);
        }
    }

    #[inline(always)]
    pub(super) fn at(&self, place: usize) -> f32 {
        let mut value = [0.0];
        copy_widened(self.values.part(place..place + 1), &mut value);
        value[0]
    }

    /// The dot product of a run of memory with values that do not lie side by side.
    #[inline(always)]
    pub(super) fn dot_apart(&self, a: impl Fn(usize) -> f32, start: usize, len: usize) -> f32 {
        (0..len).map(|i| a(i) * self.at(start + i)).sum()
    }
}

/// The arguments of [`Right::copy_panel`].
struct CopyPanel<'a> {
    right: Right<'a>,
    /// First and how many.
    columns: (usize, usize),
    rows: (usize, usize),
    to: &'a mut [f32],
}

impl WithSimd for CopyPanel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { right, columns: (column, width), rows: (depth, len), to } = self;
        if len == 0 {
            return;
        }
        let start = depth * right.row + column * right.column;
        let from = Right { values: right.values.part(start..right.values.count()), ..right };
        let to = &mut to[..len * PANEL];
        if right.column == 1 {
            from.copy_rows(width, to);
        } else if right.row == 1 {
            if width < PANEL {
                to.fill(0.0);
            }
            match from.values {
                Values::F32(values) => turn::<S, f32>((width, len), (values, right.column), to),
                Values::Bf16(bits) => {
                    turn::<S, Narrow<Bf16>>((width, len), (Narrow::all(bits), right.column), to);
                }
                Values::F16(bits) => {
                    turn::<S, Narrow<F16>>((width, len), (Narrow::all(bits), right.column), to);
                }
            }
        } else {
            for (i, to) in to.chunks_exact_mut(PANEL).enumerate() {
                to.fill(0.0);
                for (j, to) in to[..width].iter_mut().enumerate() {
                    *to = from.at(i * right.row + j * right.column);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Output, product};
    use super::*;

    /// Bit patterns of every kind: normal, small enough to be flushed, both signs, and zero.
    fn patterns(count: usize, half: bool) -> Vec<u16> {
        let pattern = |i: usize| {
            let mixed = (i as u32).wrapping_mul(2_654_435_761) >> 13;
            let (sign, fraction) = ((mixed & 1) << 15, mixed >> 1 & 0x7f);
            let exponent = if half { 8 + (mixed >> 8) % 12 } else { 120 + (mixed >> 8) % 10 };
            let normal = sign | if half { exponent << 10 | fraction << 3 } else { exponent << 7 | fraction };
            match i % 37 {
                0 => 0,
                1 => (sign | fraction) as u16,
                _ => normal as u16,
            }
        };
        (0..count).map(pattern).collect()
    }

    /// Every orientation, replaced and added to: the bits of the product with weights that were widened before.
    fn check(m: usize, n: usize, k: usize) {
        let left: Vec<f32> = (0..m * k).map(|i| ((i * 31 % 97) as f32 - 48.0) / 37.0).collect();
        for half in [false, true] {
            let bits = patterns(k * n, half);
            let values = if half { Values::F16(&bits) } else { Values::Bf16(&bits) };
            let mut wide = vec![0.0; bits.len()];
            copy_widened(values, &mut wide);
            for orientation in 0..4 {
                let turned = |side: usize| orientation & side != 0;
                let a = if turned(1) { Matrix::rows(&left, m).transposed() } else { Matrix::rows(&left, k) };
                let right = |values| match turned(2) {
                    true => Right::rows(values, k).transposed(),
                    false => Right::rows(values, n),
                };
                for output in [Output::Replace, Output::Add] {
                    let (mut narrow, mut widened) = (vec![0.5; m * n], vec![0.5; m * n]);
                    product((m, n, k), a, right(values), &mut narrow, output);
                    product((m, n, k), a, right(Values::F32(&wide)), &mut widened, output);
                    let same = narrow.iter().zip(&widened).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same, "{m}×{n}×{k} half {half} way {orientation}");
                }
            }
        }
    }

    #[test]
    fn sixteen_bit_values_give_the_bits_of_widened_ones() {
        for m in [1, 2, 3, 4, 5, 7, 65] {
            for n in [1, 15, 16, 63, 64, 65, 130] {
                for k in [1, 3, 31, 32, 33, 64, 257, 385] {
                    check(m, n, k);
                }
            }
        }
        // Several bands and panels to a task, several stretches of the sums; then sums in parts.
        check(200, 130, 400);
        check(33, 40, 4097);
        check(1, 700, 900);
    }
}
