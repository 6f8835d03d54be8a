//! Linear layers and batches of matrix products on the engine's arrays.
//!
//! Products are computed in the type of the activations. A weight of f32 beside activations of bf16 is taken as its copy
//! in bf16, which it keeps; gradients of weights are f32.

use super::columns;
use super::few_rows;
use super::layout;
use super::matmul::{Finish, Matrix, Output, product};
use super::memory::{Buffer, Element, View};
use super::pointwise;
use crate::array::Array;
use crate::error::Result;
use crate::kernels::broadcast::added;
use crate::kernels::linear::{Layout, Sizes};
use crate::kernels::matmul::Side;
use crate::kernels::memory::convert;
use crate::ops::Function;

/// The weight as a matrix (inputs, outputs).
fn weight_matrix(sizes: Sizes, weight: View) -> Matrix {
    match sizes.layout {
        Layout::InOut => Matrix::new(weight, sizes.inputs, sizes.outputs),
        Layout::OutIn => Matrix::new(weight, sizes.outputs, sizes.inputs).transposed(),
    }
}

/// The result, and the values before the function if its derivative is computed from them.
pub(crate) fn forward(
    sizes: Sizes,
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    function: Option<Function>,
) -> Result<(Array, Option<Array>)> {
    let weight = weight.cuda_rounded(x.data_type())?;
    let bias = bias.map(|bias| bias.cuda_rounded(x.data_type())).transpose()?;
    let (x, weight, bias) = (x.cuda()?, weight.cuda()?, bias.as_ref().map(Array::cuda).transpose()?);
    if few_rows::has(sizes, x, weight) {
        let (value, before) = few_rows::forward(sizes, x, weight, bias, function)?;
        return Ok((value.into(), before.map(Array::from)));
    }
    let before = affine(sizes, x, weight, bias)?;
    let Some(function) = function else { return Ok((before.into(), None)) };
    let value = pointwise::forward(function, before.view())?;
    Ok((value.into(), (!function.saves_output()).then(|| before.into())))
}

/// x·W + b.
fn affine(sizes: Sizes, x: View, weight: View, bias: Option<View>) -> Result<Buffer> {
    let Sizes { rows, inputs, outputs, .. } = sizes;
    if let (Some(bias), 0) = (bias, inputs) {
        return Ok(layout::expand(bias, &[outputs].into(), &[rows, outputs].into())?);
    }
    let finish = bias.map_or(Finish::Nothing, Finish::Bias);
    let mut out = x.device().allocate(rows * outputs, x.element())?;
    let (x, weight) = (Matrix::new(x, rows, inputs), weight_matrix(sizes, weight));
    product(x, weight, 1, out.view_mut(), (1.0, Output::Replace), finish)?;
    Ok(out)
}

/// The gradient before the function, and the sums of its columns.
pub(crate) fn before_function(
    function: Function,
    saved: &Array,
    upstream: &Array,
    (rows, columns): (usize, usize),
    wants_bias: bool,
) -> Result<(Array, Option<Array>)> {
    let upstream = convert(upstream, saved.data_type())?;
    let (saved, upstream) = (saved.cuda()?, upstream.cuda()?);
    if !wants_bias {
        return Ok((pointwise::backward(function, saved, upstream)?.into(), None));
    }
    let (gradient, sums) = columns::function_sums(function, saved, upstream, rows, columns)?;
    Ok((gradient.into(), Some(sums.into())))
}

/// A product of values of type `element`, added to a total if one is given and can take it.
fn product_onto(
    a: Matrix,
    b: Matrix,
    (len, element): (usize, Element),
    values: Element,
    total: Option<Array>,
) -> Result<Array> {
    let takes = |total: &Array| {
        let own = Element::from(total.data_type());
        own == Element::F32 || own == values
    };
    match total {
        Some(mut total) if takes(&total) => {
            product(a, b, 1, total.cuda_mut()?, (1.0, Output::Add), Finish::Nothing)?;
            Ok(total)
        }
        total => {
            let mut out = a.device().allocate(len, element)?;
            product(a, b, 1, out.view_mut(), (1.0, Output::Replace), Finish::Nothing)?;
            added(total, out.into())
        }
    }
}

/// g·Wᵀ, added to a gradient if one is given.
pub(crate) fn input_gradient(sizes: Sizes, weight: &Array, g: &Array, total: Option<Array>) -> Result<Array> {
    let weight = weight.cuda_rounded(g.data_type())?;
    let weight = weight_matrix(sizes, weight.cuda()?).transposed();
    let (element, len) = (Element::from(g.data_type()), sizes.rows * sizes.inputs);
    product_onto(Matrix::new(g.cuda()?, sizes.rows, sizes.outputs), weight, (len, element), element, total)
}

/// xᵀ·g in the layout of the weight and in f32, added to a gradient if one is given.
pub(crate) fn weight_gradient(sizes: Sizes, x: &Array, g: &Array, total: Option<Array>) -> Result<Array> {
    let g = convert(g, x.data_type())?;
    let values = Element::from(x.data_type());
    let x = Matrix::new(x.cuda()?, sizes.rows, sizes.inputs);
    let g = Matrix::new(g.cuda()?, sizes.rows, sizes.outputs);
    let (a, b) = match sizes.layout {
        Layout::InOut => (x.transposed(), g),
        Layout::OutIn => (g.transposed(), x),
    };
    product_onto(a, b, (sizes.inputs * sizes.outputs, Element::F32), values, total)
}

/// `a (m×k) · b (k×n)` for each of a batch of matrices of one type.
pub(crate) fn batched(batch: usize, (m, n, k): (usize, usize, usize), a: Side, b: Side) -> Result<Array> {
    let (left, right) = (a.array.cuda()?, b.array.cuda()?);
    let mut out = left.device().allocate(batch * m * n, left.element())?;
    let matrix = |side: Side, view, (rows, columns): (usize, usize)| {
        // As it lies in memory.
        let (rows, columns) = if side.transposed { (columns, rows) } else { (rows, columns) };
        let matrix = Matrix::new(view, rows, columns).strided(columns, side.stride);
        if side.transposed { matrix.transposed() } else { matrix }
    };
    let (left, right) = (matrix(a, left, (m, k)), matrix(b, right, (k, n)));
    product(left, right, batch, out.view_mut(), (1.0, Output::Replace), Finish::Nothing)?;
    Ok(out.into())
}
