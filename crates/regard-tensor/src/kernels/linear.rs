//! x·W + b with an optional function of the result.

use super::pointwise::Function;
use super::{broadcast, on_cpu, reduce};
use crate::array::Array;
use crate::error::Result;
use crate::storage::Kernels;
use crate::{cpu, cuda};

/// How the weight lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// (inputs, outputs): GPT-2's `Conv1D`.
    InOut,
    /// (outputs, inputs): PyTorch's `Linear`.
    OutIn,
}

/// The sizes of the problem.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub rows: usize,
    pub inputs: usize,
    pub outputs: usize,
    pub layout: Layout,
}

/// The result, and what the function's derivative needs of it (see [`Function::saves_output`]).
pub(crate) fn forward(
    sizes: Sizes,
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    function: Option<Function>,
) -> Result<(Array, Option<Array>)> {
    let (value, before) = match x.kernels() {
        Kernels::Cuda => cuda::linear::forward(sizes, x, weight, bias, function),
        // The weight keeps its type: 16-bit values are widened as they are read.
        Kernels::Cpu => {
            let weight = weight.fetched();
            on_cpu("linear", (x, bias), |(x, bias)| cpu::linear::forward(sizes, x, &weight, bias, function))
        }
    }?;
    let saved = before.or_else(|| function.map(|_| value.clone()));
    Ok((value, saved))
}

/// The gradient before the function, from that after it, and the sums of its columns (the bias's gradient).
pub(crate) fn before_function(
    sizes: Sizes,
    function: Option<Function>,
    saved: Option<&Array>,
    upstream: &Array,
    wants_bias: bool,
) -> Result<(Array, Option<Array>)> {
    let Sizes { rows, outputs, .. } = sizes;
    let (Some(function), Some(saved)) = (function, saved) else {
        let bias = if wants_bias { Some(reduce::column_sums(upstream, rows, outputs)?) } else { None };
        return Ok((upstream.clone(), bias));
    };
    match upstream.kernels() {
        Kernels::Cuda => {
            cuda::linear::before_function(function, saved, upstream, (rows, outputs), wants_bias)
        }
        Kernels::Cpu => on_cpu("before_function", (saved, upstream), |(saved, upstream)| {
            cpu::linear::before_function(function, saved, upstream, (rows, outputs), wants_bias)
        }),
    }
}

/// g·Wᵀ, added to a gradient if one is given.
pub(crate) fn input_gradient(sizes: Sizes, weight: &Array, g: &Array, total: Option<Array>) -> Result<Array> {
    match g.kernels() {
        Kernels::Cuda => cuda::linear::input_gradient(sizes, weight, g, total),
        Kernels::Cpu => {
            let weight = weight.fetched();
            let product = on_cpu("input_gradient", g, |g| cpu::linear::input_gradient(sizes, &weight, g))?;
            broadcast::added(total, product)
        }
    }
}

/// xᵀ·g in the layout of the weight, added to a gradient if one is given.
pub(crate) fn weight_gradient(sizes: Sizes, x: &Array, g: &Array, total: Option<Array>) -> Result<Array> {
    match g.kernels() {
        Kernels::Cuda => cuda::linear::weight_gradient(sizes, x, g, total),
        Kernels::Cpu => {
            let product =
                on_cpu("weight_gradient", (x, g), |(x, g)| cpu::linear::weight_gradient(sizes, x, g))?;
            broadcast::added(total, product)
        }
    }
}
