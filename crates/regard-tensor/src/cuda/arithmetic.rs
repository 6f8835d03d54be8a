//! Arithmetic on two arrays of different shapes, the sums that undo a broadcast, and simple maps.

use super::axes::{Axes, Axis, join};
use super::columns;
use super::error::{Result, ensure};
use super::launch::{Grid, arguments};
use super::memory::{Buffer, Element, View, ViewMut};
use super::program::{Source, source};
use super::reduce;
use crate::shape::Shape;

pub use crate::kernels::broadcast::Arithmetic;

static PROGRAM: Source = source!("arithmetic.cu");

impl Arithmetic {
    fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Subtract => "subtract",
            Self::Multiply => "multiply",
            Self::Divide => "divide",
        }
    }
}

/// The walk over `shape` in which two arrays of other shapes are broadcast to it.
fn walk(shape: &Shape, first: &Shape, second: &Shape) -> Vec<Axis> {
    let (first, second) = (first.broadcast_strides(shape), second.broadcast_strides(shape));
    let axes = shape.iter().zip(first.iter().zip(&second));
    join(axes.map(|(&length, (&first, &second))| Axis { length, first, second }))
}

/// `a ∘ b`, both broadcast to `shape`.
pub fn arithmetic(
    kind: Arithmetic,
    (a, a_shape): (View, &Shape),
    (b, b_shape): (View, &Shape),
    shape: &Shape,
) -> Result<Buffer> {
    let element = a.element();
    ensure(b.element() == element, "arithmetic", element.name(), b.element().name())?;
    ensure(a.len() == a_shape.count() && b.len() == b_shape.count(), "arithmetic", a_shape.count(), a.len())?;
    let count = shape.count();
    let out = a.device().allocate(count, element)?;
    if count == 0 {
        return Ok(out);
    }
    let axes = walk(shape, a_shape, b_shape);
    let (inner, outer) = match axes.split_last() {
        Some((inner, outer)) => (*inner, outer),
        None => (Axis { length: 1, first: 0, second: 0 }, &axes[..]),
    };
    let n = element.per_vector();
    let vectors = inner.length.is_multiple_of(n)
        && in_vectors(a, inner.first, outer.iter().map(|axis| axis.first))
        && in_vectors(b, inner.second, outer.iter().map(|axis| axis.second));
    let (name, suffix) = (kind.name(), element.name());
    if vectors {
        let grid = Grid::over(count, n);
        let outer = Axes::new(outer, "arithmetic")?;
        let columns = (inner.length / n) as u32;
        let (a_moves, b_moves) = (inner.first == 1, inner.second == 1);
        let arguments = arguments![a, b, &out, &outer, (count / n) as u32, columns, a_moves, b_moves];
        a.device().launch(&PROGRAM, &format!("vectors_{name}_{suffix}"), grid, arguments)?;
    } else {
        let axes = Axes::new(&axes, "arithmetic")?;
        let arguments = arguments![a, b, &out, &axes, count as u32];
        a.device().launch(&PROGRAM, &format!("values_{name}_{suffix}"), Grid::over(count, 1), arguments)?;
    }
    Ok(out)
}

/// Whether an operand can be read in vectors: it does not move along the inner axis, or every run starts at a vector.
fn in_vectors(view: View, inner: usize, mut strides: impl Iterator<Item = usize>) -> bool {
    let n = view.element().per_vector();
    let aligned = view.pointer().is_multiple_of(16) && strides.all(|stride| stride.is_multiple_of(n));
    inner == 0 || (inner == 1 && aligned)
}

/// Sums an array of `shape` over the axes along which `target` was broadcast to it, as f32.
pub fn reduce_to(x: View, shape: &Shape, target: &Shape) -> Result<Buffer> {
    ensure(x.len() == shape.count(), "reduce_to", shape.count(), x.len())?;
    let count = target.count();
    let axes = walk(shape, shape, target);
    match axes[..] {
        [Axis { length: rows, second: 0, .. }, Axis { length: width, second: 1, .. }] => {
            return columns::sums(x, rows, width);
        }
        [Axis { length: rows, second: 1, .. }, Axis { length: width, second: 0, .. }] => {
            return reduce::sum(x, (rows, width, 1));
        }
        [Axis { length, second: 0, .. }] => return reduce::sum(x, (1, length, 1)),
        _ => {}
    }
    let pick = |kept: bool| axes.iter().copied().filter(move |axis| (axis.second != 0) == kept);
    let (kept, summed): (Vec<Axis>, Vec<Axis>) = (pick(true).collect(), pick(false).collect());
    let terms: usize = summed.iter().map(|axis| axis.length).product();
    let (kept, summed) = (Axes::new(&kept, "reduce_to")?, Axes::new(&summed, "reduce_to")?);
    let out = x.device().allocate(count, Element::F32)?;
    let kernel = format!("sum_to_{}", x.element().name());
    let arguments = arguments![x, &out, &kept, &summed, count as u32, terms as u32];
    x.device().launch(&PROGRAM, &kernel, Grid::over(count, 1), arguments)?;
    Ok(out)
}

/// `total += x`. A total of f32 takes values of f32 or bf16.
pub fn accumulate(mut total: ViewMut, x: View) -> Result<()> {
    ensure(total.as_view().len() == x.len(), "accumulate", total.as_view().len(), x.len())?;
    let kernel = format!("accumulate_{}_{}", total.as_view().element().name(), x.element().name());
    x.device().launch(&PROGRAM, &kernel, Grid::over(x.len(), 4), arguments![&mut total, x, x.len()])
}

/// `x·scale + shift` for each value, as type `to`. `factor`, one f32 on the device, also multiplies.
pub fn affine(x: View, scale: f32, shift: f32, factor: Option<View>, to: Element) -> Result<Buffer> {
    ensure(factor.is_none_or(|factor| factor.len() == 1), "affine", "one factor", "another number")?;
    let out = x.device().allocate(x.len(), to)?;
    let kernel = format!("affine_{}_{}", x.element().name(), to.name());
    let arguments = arguments![x, &out, factor, scale, shift, x.len()];
    x.device().launch(&PROGRAM, &kernel, Grid::over(x.len(), 4), arguments)?;
    Ok(out)
}

/// The same values in another type.
pub fn convert(x: View, to: Element) -> Result<Buffer> {
    if x.element() == to { x.copy() } else { affine(x, 1.0, 0.0, None, to) }
}

/// Sets every value.
pub fn fill(mut out: ViewMut, value: f32) -> Result<()> {
    let (len, name) = (out.as_view().len(), out.as_view().element().name());
    let arguments = arguments![&mut out, value, len];
    out.as_view().device().launch(&PROGRAM, &format!("fill_{name}"), Grid::over(len, 1), arguments)
}
