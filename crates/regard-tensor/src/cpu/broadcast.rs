//! Arithmetic on two arrays of different shapes, and the sums that undo a broadcast.

use super::reduce;
use super::simd::{self, dispatch};
use super::threads::{self, ELEMENTS_PER_TASK};
use crate::array::Array;
use crate::kernels::broadcast::Arithmetic;
use crate::shape::Shape;
use pulp::{Simd, WithSimd};

/// Axes that both operands walk in the same way are joined, so that most shapes become one or two loops.
struct Loops {
    lengths: Vec<usize>,
    a: Vec<usize>,
    b: Vec<usize>,
}

impl Loops {
    fn new(shape: &Shape, a: &Shape, b: &Shape) -> Self {
        let (a_strides, b_strides) = (a.broadcast_strides(shape), b.broadcast_strides(shape));
        let mut loops = Self { lengths: Vec::new(), a: Vec::new(), b: Vec::new() };
        for axis in 0..shape.rank() {
            let (length, a, b) = (shape[axis], a_strides[axis], b_strides[axis]);
            if length == 1 {
                continue;
            }
            if let (Some(last), Some(last_a), Some(last_b)) =
                (loops.lengths.last_mut(), loops.a.last_mut(), loops.b.last_mut())
                && *last_a == a * length
                && *last_b == b * length
            {
                *last *= length;
                (*last_a, *last_b) = (a, b);
            } else {
                loops.lengths.push(length);
                loops.a.push(a);
                loops.b.push(b);
            }
        }
        loops
    }

    /// The innermost loop: its length, and whether each operand moves along it.
    fn inner(&self) -> (usize, bool, bool) {
        match (self.lengths.last(), self.a.last(), self.b.last()) {
            (Some(&length), Some(&a), Some(&b)) => (length, a != 0, b != 0),
            _ => (1, false, false),
        }
    }

    /// Where the operands stand at the start of inner loop number `index`.
    fn offsets(&self, mut index: usize) -> (usize, usize) {
        let (mut a, mut b) = (0, 0);
        for axis in (0..self.lengths.len().saturating_sub(1)).rev() {
            let position = index % self.lengths[axis];
            index /= self.lengths[axis];
            a += position * self.a[axis];
            b += position * self.b[axis];
        }
        (a, b)
    }
}

pub(crate) fn arithmetic(
    kind: Arithmetic,
    (a, a_shape): (&Array, &Shape),
    (b, b_shape): (&Array, &Shape),
    shape: &Shape,
) -> Array {
    let (a, b) = (a.slice(), b.slice());
    let loops = Loops::new(shape, a_shape, b_shape);
    let (length, a_moves, b_moves) = loops.inner();
    Array::build(shape.count(), |out| {
        if loops.lengths.len() <= 1 {
            threads::chunks(out, ELEMENTS_PER_TASK, |index, out| {
                let start = index * ELEMENTS_PER_TASK;
                let a = operand(a, a_moves, if a_moves { start } else { 0 }, out.len());
                let b = operand(b, b_moves, if b_moves { start } else { 0 }, out.len());
                dispatch(Row { kind, a, b, out });
            });
            return;
        }
        let rows = threads::rows_per_task(length);
        threads::chunks(out, rows * length, |index, out| {
            for (row, out) in out.chunks_mut(length).enumerate() {
                let (a_start, b_start) = loops.offsets(index * rows + row);
                let a = operand(a, a_moves, a_start, length);
                let b = operand(b, b_moves, b_start, length);
                dispatch(Row { kind, a, b, out });
            }
        });
    })
}

/// The same values under a larger shape that theirs broadcasts to.
pub(crate) fn expand(x: &Array, from: &Shape, to: &Shape) -> Array {
    arithmetic(Arithmetic::Multiply, (x, from), (&Array::filled(1, 1.0), &Shape::default()), to)
}

/// The part of an operand that an inner loop reads: `len` values, or one if it does not move.
fn operand(values: &[f32], moves: bool, start: usize, len: usize) -> &[f32] {
    &values[start..start + if moves { len } else { 1 }]
}

/// One inner loop. An operand of length 1 is the same for every element.
struct Row<'a> {
    kind: Arithmetic,
    a: &'a [f32],
    b: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Row<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        match self.kind {
            Arithmetic::Add => self.go(
                s,
                #[inline(always)]
                |a, b| s.add_f32s(a, b),
            ),
            Arithmetic::Subtract => self.go(
                s,
                #[inline(always)]
                |a, b| s.sub_f32s(a, b),
            ),
            Arithmetic::Multiply => self.go(
                s,
                #[inline(always)]
                |a, b| s.mul_f32s(a, b),
            ),
            Arithmetic::Divide => self.go(
                s,
                #[inline(always)]
                |a, b| s.div_f32s(a, b),
            ),
        }
    }
}

impl Row<'_> {
    #[inline(always)]
    fn go<S: Simd>(self, s: S, f: impl Fn(S::f32s, S::f32s) -> S::f32s) {
        let Self { a, b, out, .. } = self;
        let n = out.len();
        match (a.len() == n, b.len() == n) {
            (true, true) => {
                for i in 0..simd::registers(s, out) {
                    simd::set(s, out, i, f(simd::get(s, a, i), simd::get(s, b, i)));
                }
            }
            (true, false) => {
                let b = s.splat_f32s(b[0]);
                for i in 0..simd::registers(s, out) {
                    simd::set(s, out, i, f(simd::get(s, a, i), b));
                }
            }
            (false, true) => {
                let a = s.splat_f32s(a[0]);
                for i in 0..simd::registers(s, out) {
                    simd::set(s, out, i, f(a, simd::get(s, b, i)));
                }
            }
            (false, false) => {
                let value = f(s.splat_f32s(a[0]), s.splat_f32s(b[0]));
                for i in 0..simd::registers(s, out) {
                    simd::set(s, out, i, value);
                }
            }
        }
    }
}

/// Adds `x` to `total` in place.
pub(crate) fn accumulate(total: &mut Array, x: &Array) {
    let x = x.slice();
    threads::chunks(total.slice_mut(), ELEMENTS_PER_TASK, |index, total| {
        let start = index * ELEMENTS_PER_TASK;
        dispatch(AddInto { total, x: &x[start..] });
    });
}

/// `total += x` on one thread.
pub(crate) struct AddInto<'a> {
    pub total: &'a mut [f32],
    pub x: &'a [f32],
}

impl WithSimd for AddInto<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let Self { total, x } = self;
        let x = &x[..total.len()];
        for i in 0..simd::registers(s, total) {
            let sum = s.add_f32s(simd::get(s, total, i), simd::get(s, x, i));
            simd::set(s, total, i, sum);
        }
    }
}

/// `x·scale + shift` for each value.
pub(crate) fn affine(x: &Array, scale: f32, shift: f32) -> Array {
    let x = x.slice();
    Array::build(x.len(), |out| {
        threads::chunks(out, ELEMENTS_PER_TASK, |index, out| {
            let start = index * ELEMENTS_PER_TASK;
            for (out, x) in out.iter_mut().zip(&x[start..]) {
                *out = x * scale + shift;
            }
        });
    })
}

/// `x·factor` for each value: x itself if the factor (one value) is 1.
pub(crate) fn scale_by(x: &Array, factor: &Array) -> Array {
    let factor = factor.slice()[0];
    if factor == 1.0 { x.clone() } else { affine(x, factor, 0.0) }
}

/// Sums an array of `shape` over the axes along which `target` was broadcast to it.
pub(crate) fn reduce_to(x: &Array, shape: &Shape, target: &Shape) -> Array {
    let loops = Loops::new(shape, target, shape);
    // The two frequent cases: a bias over rows, and a value a row.
    match (&loops.lengths[..], &loops.a[..]) {
        (&[rows, columns], &[0, 1]) => return reduce::column_sums(x, rows, columns),
        (&[rows, columns], &[1, 0]) => return reduce::sum(x, (rows, columns, 1)),
        (&[count], &[0]) => return reduce::sum(x, (1, count, 1)),
        _ => {}
    }
    let x = x.slice();
    let (length, moves, _) = loops.inner();
    let mut total = Array::zeros(target.count());
    let values = total.slice_mut();
    for (index, row) in x.chunks(length.max(1)).enumerate() {
        let (start, _) = loops.offsets(index);
        if moves {
            dispatch(AddInto { total: &mut values[start..start + length], x: row });
        } else {
            values[start] += row.iter().sum::<f32>();
        }
    }
    total
}
