//! The right operand of a product, usually a layer's weights: `f32`, or 16-bit values that become `f32` where they are read.
//!
//! A model's file is mapped, and mostly holds 16-bit values. Widening them as a whole would take twice the file's memory once
//! more. Here a value is widened on its way into a panel's copy or into a register, so that memory is read at two bytes a
//! weight. The sums are the same, in the same order, as those of widened weights.

use super::task::PANEL;
use super::{Matrix, Output};
use crate::cpu::simd::{Bf16, F16, Half, copy_widened, widen_row};
use crate::cpu::tile;
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

    /// The dot products of `a` with columns of a transposed matrix, from `column` on: each is a run of memory.
    #[inline(always)]
    pub(super) fn dots<S: Simd>(self, s: S, a: &[f32], column: usize, out: &mut [f32], output: Output) {
        // A call, as for panels.
        s.vectorize(Dots { right: self, a, column, out, output });
    }

    /// One of them, for values of `a` that do not lie side by side.
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
                Values::F32(values) => {
                    tile::transpose((width, len), (values, right.column), (to, PANEL), 1.0);
                }
                Values::Bf16(bits) => turn::<Bf16>((width, len), (bits, right.column), to),
                Values::F16(bits) => turn::<F16>((width, len), (bits, right.column), to),
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

/// Values of a run that are turned at a time: a cache line of 16-bit values.
const RUN: usize = 32;

/// `to[i][j] = from[j][i]` for `columns` runs of `len` values, `run` apart.
#[inline(always)]
fn turn<H: Half>((columns, len): (usize, usize), (from, run): (&[u16], usize), to: &mut [f32]) {
    let mut wide = [0.0; PANEL * RUN];
    for start in (0..len).step_by(RUN) {
        let count = RUN.min(len - start);
        for (j, wide) in wide.as_chunks_mut::<RUN>().0.iter_mut().enumerate().take(columns) {
            match from[j * run + start..].first_chunk::<RUN>() {
                Some(from) if count == RUN => widen_row::<H>(from, wide),
                _ => widen_row::<H>(&from[j * run + start..][..count], wide),
            }
        }
        tile::transpose((columns, count), (&wide, RUN), (&mut to[start * PANEL..], PANEL), 1.0);
    }
}

/// The arguments of [`Right::dots`].
struct Dots<'a> {
    right: Right<'a>,
    a: &'a [f32],
    column: usize,
    out: &'a mut [f32],
    output: Output,
}

impl WithSimd for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        match self.right.values {
            Values::F32(values) => self.of::<S, f32>(s, values, |s, from| {
                // SAFETY: `dot` only loads whole registers of what it was given.
                unsafe { tile::load(s, from) }
            }),
            // SAFETY: `dot` only loads whole registers of what it was given.
            Values::Bf16(bits) => self.of::<S, u16>(s, bits, |s, from| unsafe { Bf16::load(s, from) }),
            // SAFETY: `dot` only loads whole registers of what it was given.
            Values::F16(bits) => self.of::<S, u16>(s, bits, |s, from| unsafe { F16::load(s, from) }),
        }
    }
}

impl Dots<'_> {
    /// Several columns side by side: `a` is loaded once for all, and memory is asked for more than one of them at a time.
    #[inline(always)]
    fn of<S: Simd, T: Copy + Default>(
        self,
        s: S,
        values: &[T],
        load: impl Fn(S, *const T) -> S::f32s + Copy,
    ) {
        let Self { right, a, column, out, output } = self;
        let run = |j: usize| &values[(column + j) * right.column..][..a.len()];
        let (count, mut j) = (out.len(), 0);
        let mut put = |j: usize, dot: f32| {
            let out = &mut out[j];
            *out = if output == Output::Add { *out + dot } else { dot };
        };
        while j < count {
            // Four sums a column fill half of the registers.
            if S::REGISTER_COUNT >= 32 && count - j >= 4 {
                let all = dot(s, a, [run(j), run(j + 1), run(j + 2), run(j + 3)], load);
                (0..4).for_each(|i| put(j + i, all[i]));
                j += 4;
            } else if count - j >= 2 {
                let both = dot(s, a, [run(j), run(j + 1)], load);
                (0..2).for_each(|i| put(j + i, both[i]));
                j += 2;
            } else {
                put(j, dot(s, a, [run(j)], load)[0]);
                j += 1;
            }
        }
    }
}

/// The dot products of a slice with others as long, each in four running sums of a register; `load` reads a register.
#[inline(always)]
fn dot<S: Simd, T: Copy + Default, const N: usize>(
    s: S,
    a: &[f32],
    b: [&[T]; N],
    load: impl Fn(S, *const T) -> S::f32s,
) -> [f32; N] {
    assert!(b.iter().all(|b| b.len() == a.len()));
    let mut sums = [[s.splat_f32s(0.0); 4]; N];
    let fours = a.len() / S::F32_LANES / 4 * 4;
    // Written out four times: sums whose place is known when this is compiled stay in registers.
    let mut at = 0;
    while at < fours * S::F32_LANES {
        step::<S, T, N, 0>(s, a, b, at, &load, &mut sums);
        step::<S, T, N, 1>(s, a, b, at, &load, &mut sums);
        step::<S, T, N, 2>(s, a, b, at, &load, &mut sums);
        step::<S, T, N, 3>(s, a, b, at, &load, &mut sums);
        at += 4 * S::F32_LANES;
    }
    // At most three whole registers and a part of one are left.
    if at < a.len() {
        last::<S, T, N, 0>(s, a, b, at, &load, &mut sums);
        last::<S, T, N, 1>(s, a, b, at, &load, &mut sums);
        last::<S, T, N, 2>(s, a, b, at, &load, &mut sums);
        last::<S, T, N, 3>(s, a, b, at, &load, &mut sums);
    }
    sums.map(|[a, b, c, d]| s.reduce_sum_f32s(s.add_f32s(s.add_f32s(a, b), s.add_f32s(c, d))))
}

/// Register `Q` of those from `at` on, which lies wholly inside the slices.
#[inline(always)]
fn step<S: Simd, T: Copy, const N: usize, const Q: usize>(
    s: S,
    a: &[f32],
    b: [&[T]; N],
    at: usize,
    load: &impl Fn(S, *const T) -> S::f32s,
    sums: &mut [[S::f32s; 4]; N],
) {
    let at = at + Q * S::F32_LANES;
    // SAFETY: inside the slice.
    let x = unsafe { tile::load(s, a.as_ptr().add(at)) };
    for n in 0..N {
        sums[n][Q] = s.mul_add_e_f32s(x, load(s, b[n].as_ptr().wrapping_add(at)), sums[n][Q]);
    }
}

/// The same for a register that may reach beyond the end, or lie there.
#[inline(always)]
fn last<S: Simd, T: Copy + Default, const N: usize, const Q: usize>(
    s: S,
    a: &[f32],
    b: [&[T]; N],
    at: usize,
    load: &impl Fn(S, *const T) -> S::f32s,
    sums: &mut [[S::f32s; 4]; N],
) {
    let start = at + Q * S::F32_LANES;
    if start >= a.len() {
        return;
    }
    let rest = start..a.len().min(start + S::F32_LANES);
    let x = s.partial_load_f32s(&a[rest.clone()]);
    for n in 0..N {
        let mut padded = [T::default(); 16];
        padded[..rest.len()].copy_from_slice(&b[n][rest.clone()]);
        sums[n][Q] = s.mul_add_e_f32s(x, load(s, padded.as_ptr()), sums[n][Q]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::product;
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
