//! Layer norm and RMS norm, alone and after a residual sum.

use crate::harness::{Case, Check, Expected, Work};
use crate::inputs::{by_rows, rounded};
use regard_tensor::cuda::norm::{self, Norm};
use regard_tensor::cuda::{Element, Result, View};

const EPSILON: f32 = 1e-5;

/// Mean and 1 / deviation of a row.
fn moments(row: &[f32], centred: bool) -> (f64, f64) {
    let count = row.len() as f64;
    let mean = if centred { row.iter().map(|&x| f64::from(x)).sum::<f64>() / count } else { 0.0 };
    let variance = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / count;
    (mean, 1.0 / (variance + f64::from(EPSILON)).sqrt())
}

pub fn check(check: &mut Check) -> Result<()> {
    if !check.wants("norm") {
        return Ok(());
    }
    let sizes = [(3, 5), (17, 64), (33, 768), (29, 1000), (10, 1023), (9, 2048), (7, 5120), (32768, 768)];
    for &(rows, width) in check.sizes(&sizes) {
        for element in [Element::F32, Element::Bf16] {
            for centred in [true, false] {
                forward(check, rows, width, element, centred)?;
                backward(check, rows, width, element, centred)?;
            }
        }
    }
    Ok(())
}

fn name(centred: bool, rest: &str) -> String {
    format!("norm.{}.{rest}", if centred { "layer" } else { "rms" })
}

fn forward(check: &mut Check, rows: usize, width: usize, element: Element, centred: bool) -> Result<()> {
    let count = rows * width;
    let x = check.inputs.map(count, element, |x| 2.0 * x + 1.0)?;
    let residual = check.inputs.normal(count, element)?;
    let weight = check.inputs.normal(width, Element::F32)?;
    let bias = check.inputs.normal(width, Element::F32)?;
    let bias_view = centred.then_some(bias.buffer.view());
    let norm = Norm { centred, weight: weight.buffer.view(), bias: bias_view, epsilon: EPSILON };
    let normalise = |x: &[f32]| {
        by_rows(rows, width, |row, out| {
            let x = &x[row * width..][..width];
            let (mean, inverse) = moments(x, centred);
            for (i, out) in out.iter_mut().enumerate() {
                let bias = if centred { f64::from(bias.host[i]) } else { 0.0 };
                *out = (f64::from(x[i]) - mean) * inverse * f64::from(weight.host[i]) + bias;
            }
        })
    };
    let large = rows > 10_000;
    let (label, shape) = (name(centred, "forward"), format!("{rows}x{width}"));
    let mut again = || norm::forward(x.buffer.view(), &norm).map(drop);
    check.case(
        &Case { name: &label, element, shape: shape.clone() },
        || Ok(vec![norm::forward(x.buffer.view(), &norm)?.0]),
        || vec![Expected::All(normalise(&x.host))],
        large.then_some((Work::Bytes(2 * count * element.size()), &mut again as _)),
    )?;
    let label = name(centred, "add_forward");
    let mut again = || norm::add_forward(x.buffer.view(), residual.buffer.view(), &norm).map(drop);
    check.case(
        &Case { name: &label, element, shape },
        || {
            let (sum, y, _) = norm::add_forward(x.buffer.view(), residual.buffer.view(), &norm)?;
            Ok(vec![sum, y])
        },
        || {
            let sum: Vec<f32> =
                x.host.iter().zip(&residual.host).map(|(a, b)| rounded(a + b, element)).collect();
            let y = normalise(&sum);
            vec![Expected::All(sum.into_iter().map(f64::from).collect()), Expected::All(y)]
        },
        large.then_some((Work::Bytes(4 * count * element.size()), &mut again as _)),
    )
}

fn backward(check: &mut Check, rows: usize, width: usize, element: Element, centred: bool) -> Result<()> {
    let count = rows * width;
    let x = check.inputs.map(count, element, |x| 2.0 * x + 1.0)?;
    let g = check.inputs.normal(count, element)?;
    let through = check.inputs.normal(count, element)?;
    let weight = check.inputs.normal(width, Element::F32)?;
    let norm = Norm { centred, weight: weight.buffer.view(), bias: None, epsilon: EPSILON };
    let (_, saved) = norm::forward(x.buffer.view(), &norm)?;
    let reference = |through: Option<&[f32]>| {
        let dx = by_rows(rows, width, |row, out| {
            let (x, g) = (&x.host[row * width..][..width], &g.host[row * width..][..width]);
            let (mean, inverse) = moments(x, centred);
            let n = |i: usize| (f64::from(x[i]) - mean) * inverse;
            let h = |i: usize| f64::from(g[i]) * f64::from(weight.host[i]);
            let mean_h = if centred { (0..width).map(h).sum::<f64>() / width as f64 } else { 0.0 };
            let mean_hn = (0..width).map(|i| h(i) * n(i)).sum::<f64>() / width as f64;
            for (i, out) in out.iter_mut().enumerate() {
                let beside = through.map_or(0.0, |through| f64::from(through[row * width + i]));
                *out = inverse * (h(i) - mean_h - n(i) * mean_hn) + beside;
            }
        });
        let mut parameters = vec![0.0; 2 * width];
        for row in 0..rows {
            let x = &x.host[row * width..][..width];
            let (mean, inverse) = moments(x, centred);
            for i in 0..width {
                let g = f64::from(g.host[row * width + i]);
                parameters[i] += g * (f64::from(x[i]) - mean) * inverse;
                parameters[width + i] += g;
            }
        }
        vec![Expected::All(dx), Expected::All(parameters)]
    };
    let large = rows > 10_000;
    for (rest, beside) in [("backward", None), ("add_backward", Some(&through))] {
        let view: Option<View> = beside.map(|input| input.buffer.view());
        let saved = (saved.mean.view(), saved.inverse.view());
        let run = || norm::backward(x.buffer.view(), &norm, saved, g.buffer.view(), view);
        let mut again = || run().map(drop);
        let transfers = if beside.is_some() { 4 } else { 3 };
        check.case(
            &Case { name: &name(centred, rest), element, shape: format!("{rows}x{width}") },
            || {
                let gradients = run()?;
                Ok(vec![gradients.x, gradients.parameters])
            },
            || reference(beside.map(|input| &input.host[..])),
            large.then_some((Work::Bytes(transfers * count * element.size()), &mut again as _)),
        )?;
    }
    Ok(())
}
