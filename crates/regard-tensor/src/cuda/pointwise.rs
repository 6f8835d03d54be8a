//! Functions of one value, applied to each.

use super::error::{Result, ensure};
use super::launch::{Grid, arguments};
use super::memory::{Buffer, View};
use super::program::{Source, source};
use crate::ops::Function;

static PROGRAM: Source = source!("pointwise.cu");

/// Vectors that a thread takes: see `pointwise.cu`.
const STEPS: usize = 2;

/// How kernels of a function are named.
pub(super) fn name(function: Function) -> &'static str {
    match function {
        Function::Exp => "exp",
        Function::Ln => "ln",
        Function::Sqrt => "sqrt",
        Function::Tanh => "tanh",
        Function::Sigmoid => "sigmoid",
        Function::Relu => "relu",
        Function::Gelu => "gelu",
        Function::GeluTanh => "gelu_tanh",
        Function::Silu => "silu",
        Function::EluPlusOne => "elu_plus_one",
    }
}

/// f(x) for each value.
pub fn forward(function: Function, x: View) -> Result<Buffer> {
    let out = x.device().allocate(x.len(), x.element())?;
    let kernel = format!("forward_{}_{}", name(function), x.element().name());
    let grid = Grid::over(x.len(), STEPS * x.element().per_vector());
    x.device().launch(&PROGRAM, &kernel, grid, arguments![x, &out, x.len()])?;
    Ok(out)
}

/// f′·g for each value, from the function's output or input as [`Function`] saves it.
pub fn backward(function: Function, saved: View, g: View) -> Result<Buffer> {
    let fits = saved.len() == g.len() && saved.element() == g.element();
    ensure(fits, "pointwise backward", format_args!("{} {:?}", saved.len(), saved.element()), g.len())?;
    let out = g.device().allocate(g.len(), g.element())?;
    let kernel = format!("backward_{}_{}", name(function), g.element().name());
    let grid = Grid::over(g.len(), STEPS * g.element().per_vector());
    g.device().launch(&PROGRAM, &kernel, grid, arguments![saved, g, &out, g.len()])?;
    Ok(out)
}
