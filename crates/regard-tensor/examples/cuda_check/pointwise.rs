//! Functions of one value, column sums, and both together.

use crate::harness::{Case, Check, Expected, Terms, Work};
use crate::inputs::{Input, by_index, rounded};
use regard_tensor::cuda::{Element, Result, columns, pointwise};
use regard_tensor::ops::Function;

const FUNCTIONS: [Function; 10] = [
    Function::Exp,
    Function::Ln,
    Function::Sqrt,
    Function::Tanh,
    Function::Sigmoid,
    Function::Relu,
    Function::Gelu,
    Function::GeluTanh,
    Function::Silu,
    Function::EluPlusOne,
];

/// The distribution function of the standard normal distribution, by its series about 0 or its continued fraction.
fn normal_cdf(x: f64) -> f64 {
    let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
    if x.abs() < 4.0 {
        let (mut term, mut sum) = (x, x);
        for i in 1..200 {
            term *= x * x / f64::from(2 * i + 1);
            sum += term;
        }
        return 0.5 + density * sum;
    }
    let mut fraction = x.abs();
    for i in (1..60).rev() {
        fraction = x.abs() + f64::from(i) / fraction;
    }
    let tail = density / fraction;
    if x < 0.0 { tail } else { 1.0 - tail }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The value and the derivative.
fn reference(function: Function, x: f64) -> (f64, f64) {
    match function {
        Function::Exp => (x.exp(), x.exp()),
        Function::Ln => (x.ln(), 1.0 / x),
        Function::Sqrt => (x.sqrt(), 0.5 / x.sqrt()),
        Function::Tanh => (x.tanh(), 1.0 - x.tanh().powi(2)),
        Function::Sigmoid => (sigmoid(x), sigmoid(x) * (1.0 - sigmoid(x))),
        Function::Relu => (x.max(0.0), f64::from(u8::from(x > 0.0))),
        Function::Gelu => {
            let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
            (x * normal_cdf(x), normal_cdf(x) + x * density)
        }
        Function::GeluTanh => {
            let c = 2.0 * (2.0 / std::f64::consts::PI).sqrt();
            let s = sigmoid(c * (x + 0.044715 * x.powi(3)));
            (x * s, s + x * s * (1.0 - s) * c * (1.0 + 3.0 * 0.044715 * x * x))
        }
        Function::Silu => {
            let s = sigmoid(x);
            (x * s, s * (1.0 + x * (1.0 - s)))
        }
        Function::EluPlusOne => {
            if x > 0.0 {
                (x + 1.0, 1.0)
            } else {
                (x.exp(), x.exp())
            }
        }
    }
}

/// Whether the derivative is computed from the output.
fn saves_output(function: Function) -> bool {
    !matches!(function, Function::Ln | Function::Gelu | Function::GeluTanh | Function::Silu)
}

/// What the backward pass reads: the input, or the output as it is stored.
fn saved(check: &Check, function: Function, x: &Input, element: Element) -> Result<Input> {
    let values = x.host.iter().map(|&x| match saves_output(function) {
        true => rounded(reference(function, x.into()).0 as f32, element),
        false => x,
    });
    check.inputs.input(values.collect(), element)
}

/// The derivative from what was saved.
fn derivative(function: Function, saved: f64) -> f64 {
    match function {
        Function::Exp => saved,
        Function::Sqrt => 0.5 / saved,
        Function::Tanh => 1.0 - saved * saved,
        Function::Sigmoid => saved * (1.0 - saved),
        Function::EluPlusOne => saved.min(1.0),
        _ => reference(function, saved).1,
    }
}

pub fn check(check: &mut Check) -> Result<()> {
    functions(check)?;
    sums(check)
}

fn functions(check: &mut Check) -> Result<()> {
    for function in FUNCTIONS {
        let label = format!("pointwise.{function:?}").to_lowercase();
        if !check.wants(&label) {
            continue;
        }
        for element in [Element::F32, Element::Bf16] {
            let gelu = matches!(function, Function::Gelu | Function::GeluTanh);
            for count in [7, 100_003, 32_768 * 3072] {
                let large = count > 1 << 20;
                if large && (!gelu || check.sizes(&[0, 1]).len() == 1) {
                    continue;
                }
                let positive = matches!(function, Function::Ln | Function::Sqrt);
                let x =
                    check.inputs.map(count, element, |x| if positive { x.abs() + 0.1 } else { 2.0 * x })?;
                let g = check.inputs.normal(count, element)?;
                let before = saved(check, function, &x, element)?;
                let shape = count.to_string();
                // The host is slow: of a large array the first and last rows are compared.
                let some = |value: &dyn Fn(usize) -> f64| {
                    let width = if large { 4096 } else { count };
                    let rows = if large { vec![0, count / width / 2, count / width - 1] } else { vec![0] };
                    let row = |row: usize| (row, (row * width..(row + 1) * width).map(value).collect());
                    vec![Expected::Rows(width, rows.into_iter().map(row).collect())]
                };
                let mut again = || pointwise::forward(function, x.buffer.view()).map(drop);
                check.case(
                    &Case { name: &format!("{label}.forward"), element, shape: shape.clone() },
                    || Ok(vec![pointwise::forward(function, x.buffer.view())?]),
                    || some(&|i| reference(function, x.host[i].into()).0),
                    large.then_some((Work::Bytes(2 * count * element.size()), &mut again as _)),
                )?;
                let run = || pointwise::backward(function, before.buffer.view(), g.buffer.view());
                let mut again = || run().map(drop);
                check.case(
                    &Case { name: &format!("{label}.backward"), element, shape },
                    || Ok(vec![run()?]),
                    || some(&|i| derivative(function, before.host[i].into()) * f64::from(g.host[i])),
                    large.then_some((Work::Bytes(3 * count * element.size()), &mut again as _)),
                )?;
            }
        }
    }
    Ok(())
}

fn sums(check: &mut Check) -> Result<()> {
    if !check.wants("columns") {
        return Ok(());
    }
    let sizes = [(1, 1), (3, 5), (1000, 77), (5000, 65), (129, 3072), (32768, 768), (32768, 3072)];
    for &(rows, width) in check.sizes(&sizes) {
        for element in [Element::F32, Element::Bf16] {
            let count = rows * width;
            let large = rows > 10_000;
            let x = check.inputs.normal(count, element)?;
            let g = check.inputs.normal(count, element)?;
            let shape = format!("{rows}x{width}");
            let total = |values: &dyn Fn(usize) -> f64| {
                let mut total = vec![0.0; width];
                for i in 0..count {
                    total[i % width] += values(i);
                }
                Expected::All(total)
            };
            let mut again = || columns::sums(x.buffer.view(), rows, width).map(drop);
            check.case(
                &Case { name: "columns.sums", element, shape: shape.clone() },
                || Ok(vec![columns::sums(x.buffer.view(), rows, width)?]),
                || vec![total(&|i| x.host[i].into())],
                large.then_some((Work::Bytes(count * element.size()), &mut again as _)),
            )?;
            let function = Function::GeluTanh;
            let run = || columns::function_sums(function, x.buffer.view(), g.buffer.view(), rows, width);
            let mut again = || run().map(drop);
            check.case(
                &Case { name: "columns.gelu_tanh_sums", element, shape },
                || {
                    let (dx, sums) = run()?;
                    Ok(vec![dx, sums])
                },
                || {
                    let slope = |i: usize| derivative(function, x.host[i].into()) * f64::from(g.host[i]);
                    let dx = by_index(count, slope);
                    // The sums are those of the gradient as it is stored.
                    let sums = total(&|i| rounded(dx[i] as f32, element).into());
                    vec![Expected::All(dx), sums.summed(Terms::Rounded(element))]
                },
                large.then_some((Work::Bytes(3 * count * element.size()), &mut again as _)),
            )?;
        }
    }
    Ok(())
}
