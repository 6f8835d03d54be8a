//! Products of all types and transpositions, and those of GPT-2's training step.

use crate::harness::{Case, Check, Expected, Terms, Work};
use crate::inputs::{Input, rounded};
use regard_tensor::cuda::matmul::{Finish, Matrix, Output, product};
use regard_tensor::cuda::{Buffer, Element, Result};

/// One product: batches, m, n, k, whether the factors are stored transposed.
#[derive(Clone, Copy)]
struct Shape {
    batches: usize,
    m: usize,
    n: usize,
    k: usize,
    a_transposed: bool,
    b_transposed: bool,
}

/// Whether a product is timed, and with which algorithm.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Timing {
    No,
    Yes,
    Tuned,
}

pub fn check(check: &mut Check) -> Result<()> {
    if !check.wants("matmul") {
        return Ok(());
    }
    let types = [(Element::F32, Element::F32), (Element::Bf16, Element::Bf16), (Element::Bf16, Element::F32)];
    for (element, out) in types {
        for (a_transposed, b_transposed) in [(false, false), (false, true), (true, false), (true, true)] {
            for (batches, m, n, k) in [(1, 37, 53, 71), (3, 64, 128, 96)] {
                let shape = Shape { batches, m, n, k, a_transposed, b_transposed };
                one(check, shape, (element, out), Output::Replace, Timing::No)?;
            }
            let shape = Shape { batches: 1, m: 256, n: 64, k: 128, a_transposed, b_transposed };
            one(check, shape, (element, out), Output::Add, Timing::No)?;
        }
    }
    Ok(())
}

/// Products that fill the device.
pub fn check_large(check: &mut Check) -> Result<()> {
    if !check.wants("matmul") || check.sizes(&[0, 1]).len() == 1 {
        return Ok(());
    }
    let plain = |m, n, k| Shape { batches: 1, m, n, k, a_transposed: false, b_transposed: false };
    let (bf16, f32) = ((Element::Bf16, Element::Bf16), (Element::Bf16, Element::F32));
    one(check, plain(4096, 4096, 4096), (Element::F32, Element::F32), Output::Replace, Timing::Yes)?;
    one(check, plain(8192, 8192, 8192), bf16, Output::Replace, Timing::Yes)?;
    // GPT-2's feed-forward: forward, gradient of the input, gradient of the weight.
    one(check, plain(32768, 3072, 768), bf16, Output::Replace, Timing::Yes)?;
    one(check, Shape { b_transposed: true, ..plain(32768, 768, 3072) }, bf16, Output::Replace, Timing::Yes)?;
    one(check, Shape { a_transposed: true, ..plain(768, 3072, 32768) }, f32, Output::Add, Timing::Yes)?;
    one(check, Shape { b_transposed: true, ..plain(8192, 50304, 768) }, bf16, Output::Replace, Timing::Yes)?;
    check.device.tune_products(true);
    one(check, plain(32768, 2304, 768), bf16, Output::Replace, Timing::Tuned)?;
    one(check, plain(32760, 3072, 768), bf16, Output::Replace, Timing::Tuned)?;
    one(check, Shape { a_transposed: true, ..plain(2304, 768, 32768) }, f32, Output::Add, Timing::Tuned)?;
    check.device.tune_products(false);
    Ok(())
}

fn one(
    check: &mut Check,
    shape: Shape,
    (element, out_element): (Element, Element),
    output: Output,
    timing: Timing,
) -> Result<()> {
    let Shape { batches, m, n, k, a_transposed, b_transposed } = shape;
    let a = check.inputs.normal(batches * m * k, element)?;
    let b = check.inputs.normal(batches * k * n, element)?;
    let before = check.inputs.normal(batches * m * n, out_element)?;
    let letter = |transposed| if transposed { 't' } else { 'n' };
    let case = Case {
        name: &format!(
            "matmul.{}{}{}{}{}",
            letter(a_transposed),
            letter(b_transposed),
            if out_element == element { "" } else { ".f32" },
            if output == Output::Add { ".add" } else { "" },
            if timing == Timing::Tuned { ".tuned" } else { "" }
        ),
        element,
        shape: format!("{batches}x{m}x{n}x{k}"),
    };
    let run = |out: &mut Buffer| {
        let (a, b) = (matrix(&a, m, k, a_transposed), matrix(&b, k, n, b_transposed));
        product(a, b, batches, out.view_mut(), (1.0, output), Finish::Nothing)
    };
    let device = check.device.clone();
    let mut room = device.allocate(batches * m * n, out_element)?;
    let mut again = || run(&mut room);
    let work = Work::Operations(2.0 * (batches * m * n) as f64 * k as f64);
    check.case(
        &case,
        || {
            let mut out = match output {
                Output::Add => before.buffer.view().copy()?,
                Output::Replace => device.allocate(batches * m * n, out_element)?,
            };
            run(&mut out)?;
            Ok(vec![out])
        },
        || {
            // Some rows are enough for large products.
            let total = batches * m;
            let rows = (0..total).step_by((total / 24).max(1)).map(|row| {
                let (batch, i) = (row / m, row % m);
                let mut values = vec![0.0; n];
                let x = |p: usize| {
                    let at = if a_transposed { p * m + i } else { i * k + p };
                    f64::from(a.host[batch * m * k + at])
                };
                let b = &b.host[batch * k * n..][..k * n];
                if b_transposed {
                    for (value, b) in values.iter_mut().zip(b.chunks(k)) {
                        *value = b.iter().enumerate().map(|(p, &b)| x(p) * f64::from(b)).sum();
                    }
                } else {
                    for (p, b) in b.chunks(n).enumerate() {
                        let x = x(p);
                        for (value, &b) in values.iter_mut().zip(b) {
                            *value += x * f64::from(b);
                        }
                    }
                }
                if output == Output::Add {
                    for (value, &old) in values.iter_mut().zip(&before.host[row * n..]) {
                        *value += f64::from(old);
                    }
                }
                (row, values)
            });
            let expected = Expected::Rows(n, rows.collect());
            let on_tensor_cores = element != Element::F32;
            vec![if on_tensor_cores { expected.summed(Terms::Products(k)) } else { expected }]
        },
        (timing != Timing::No).then_some((work, &mut again as _)),
    )
}

/// A (rows × columns) factor, stored transposed or not.
fn matrix(input: &Input, rows: usize, columns: usize, transposed: bool) -> Matrix<'_> {
    match transposed {
        true => Matrix::new(input.buffer.view(), columns, rows).transposed(),
        false => Matrix::new(input.buffer.view(), rows, columns),
    }
}

/// A bias, and a bias with GELU.
pub fn check_finishes(check: &mut Check) -> Result<()> {
    if !check.wants("matmul") {
        return Ok(());
    }
    let (m, n, k) = (192, 256, 128);
    for element in [Element::F32, Element::Bf16] {
        let a = check.inputs.map(m * k, element, |x| 0.1 * x)?;
        let b = check.inputs.normal(k * n, element)?;
        let bias = check.inputs.normal(n, element)?;
        let device = check.device.clone();
        let mut sums = vec![0.0; m * n];
        for (i, sums) in sums.chunks_mut(n).enumerate() {
            for (j, sum) in sums.iter_mut().enumerate() {
                let products = (0..k).map(|p| f64::from(a.host[i * k + p]) * f64::from(b.host[p * n + j]));
                *sum = products.sum::<f64>() + f64::from(bias.host[j]);
            }
        }
        let factors = || (Matrix::new(a.buffer.view(), m, k), Matrix::new(b.buffer.view(), k, n));
        let shape = format!("{m}x{n}x{k}");
        check.case(
            &Case { name: "matmul.bias", element, shape: shape.clone() },
            || {
                let mut out = device.allocate(m * n, element)?;
                let (a, b) = factors();
                let finish = Finish::Bias(bias.buffer.view());
                product(a, b, 1, out.view_mut(), (1.0, Output::Replace), finish)?;
                Ok(vec![out])
            },
            || vec![Expected::All(sums.clone())],
            None,
        )?;
        check.case(
            &Case { name: "matmul.bias_gelu", element, shape },
            || {
                let mut out = device.allocate(m * n, element)?;
                let mut before = device.allocate(m * n, element)?;
                let (a, b) = factors();
                let finish = Finish::BiasGelu { bias: bias.buffer.view(), before: before.view_mut() };
                product(a, b, 1, out.view_mut(), (1.0, Output::Replace), finish)?;
                Ok(vec![out, before])
            },
            || {
                let gelu = |&x: &f64| {
                    let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
                    0.5 * x * (1.0 + u.tanh())
                };
                let before: Vec<f64> =
                    sums.iter().map(|&x| f64::from(rounded(x as f32, Element::F32))).collect();
                vec![Expected::All(before.iter().map(gelu).collect()), Expected::All(before)]
            },
            None,
        )?;
    }
    Ok(())
}
