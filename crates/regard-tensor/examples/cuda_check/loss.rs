//! Cross-entropy of rows and its gradient, and binary cross-entropy.

use crate::harness::{Case, Check, Expected, Work};
use regard_tensor::cuda::loss::{self, Targets};
use regard_tensor::cuda::{Element, Result};

/// Rows, classes, values from one row to the next.
type Size = (usize, usize, usize);

pub fn check(check: &mut Check) -> Result<()> {
    let sizes: [Size; 6] = [
        (3, 5, 5),
        (100, 65, 65),
        (77, 1001, 1008),
        (9, 70_001, 70_001),
        (130, 50_257, 50_304),
        (8192, 50_257, 50_304),
    ];
    for &size in check.sizes(&sizes) {
        for element in [Element::F32, Element::Bf16] {
            if check.wants("loss.cross_entropy") && (size.0 < 8192 || element == Element::Bf16) {
                cross_entropy(check, size, element)?;
            }
        }
    }
    if check.wants("loss.binary") {
        for element in [Element::F32, Element::Bf16] {
            binary(check, 10_007, element)?;
        }
    }
    Ok(())
}

fn cross_entropy(check: &mut Check, (rows, classes, stride): Size, element: Element) -> Result<()> {
    let large = rows >= 8192;
    let logits = check.inputs.map(rows * stride, element, |x| 3.0 * x)?;
    let mut ids = check.inputs.ids(rows, classes);
    let ignored = 1;
    ids[rows / 2] = ignored;
    let (smoothing, scale) = (0.1, 1.0 / 16.0);
    let device_ids = check.device.upload(&ids, Element::U32)?;
    let upstream = check.inputs.normal(rows, Element::F32)?;
    let targets = Targets { ids: device_ids.view(), classes, stride, ignored: Some(ignored), smoothing };
    let picked: Vec<usize> = if large { vec![0, rows / 2, rows - 1] } else { (0..rows).collect() };
    let reference = |row: usize, factor: f64| {
        let x = &logits.host[row * stride..][..classes];
        let mut gradient = vec![0.0; stride];
        if ids[row] == ignored {
            return (0.0, gradient);
        }
        let (epsilon, count) = (f64::from(smoothing), classes as f64);
        let lse = x.iter().map(|&x| f64::from(x).exp()).sum::<f64>().ln();
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
        let target = ids[row] as usize;
        for (g, &x) in gradient.iter_mut().zip(x) {
            *g = ((f64::from(x) - lse).exp() - epsilon / count) * factor;
        }
        gradient[target] -= (1.0 - epsilon) * factor;
        (lse - (1.0 - epsilon) * f64::from(x[target]) - epsilon * mean, gradient)
    };
    let losses = || {
        let loss = |&row: &usize| (row, vec![reference(row, 1.0).0]);
        Expected::Rows(1, picked.iter().map(loss).collect())
    };
    let gradients = |factor: &dyn Fn(usize) -> f64| {
        let gradient = |&row: &usize| (row, reference(row, factor(row)).1);
        Expected::Rows(stride, picked.iter().map(gradient).collect())
    };
    let shape = format!("{rows}x{classes}/{stride}");
    let bytes = rows * stride * element.size();
    let mut again = || loss::cross_entropy(logits.buffer.view(), targets).map(drop);
    check.case(
        &Case { name: "loss.cross_entropy", element, shape: shape.clone() },
        || Ok(vec![loss::cross_entropy(logits.buffer.view(), targets)?.losses]),
        || vec![losses()],
        large.then_some((Work::Bytes(bytes), &mut again as _)),
    )?;
    let mut room = logits.buffer.view().copy()?;
    let mut again = || loss::cross_entropy_in_place(room.view_mut(), targets, scale).map(drop);
    check.case(
        &Case { name: "loss.cross_entropy.in_place", element, shape: shape.clone() },
        || {
            let mut logits = logits.buffer.view().copy()?;
            let losses = loss::cross_entropy_in_place(logits.view_mut(), targets, scale)?.losses;
            Ok(vec![losses, logits])
        },
        || vec![losses(), gradients(&|_| f64::from(scale))],
        large.then_some((Work::Bytes(2 * bytes), &mut again as _)),
    )?;
    let lse = loss::cross_entropy(logits.buffer.view(), targets)?.lse;
    let run =
        || loss::cross_entropy_gradient(logits.buffer.view(), lse.view(), upstream.buffer.view(), targets);
    let mut again = || run().map(drop);
    check.case(
        &Case { name: "loss.cross_entropy.gradient", element, shape },
        || Ok(vec![run()?]),
        || vec![gradients(&|row| upstream.host[row].into())],
        large.then_some((Work::Bytes(2 * bytes), &mut again as _)),
    )
}

fn binary(check: &mut Check, count: usize, element: Element) -> Result<()> {
    let x = check.inputs.map(count, element, |x| 5.0 * x)?;
    let t = check.inputs.map(count, Element::F32, |x| (x.abs() / 4.0).min(1.0))?;
    let g = check.inputs.normal(count, Element::F32)?;
    let pairs = || x.host.iter().zip(&t.host).map(|(&x, &t)| (f64::from(x), f64::from(t)));
    check.case(
        &Case { name: "loss.binary", element, shape: count.to_string() },
        || Ok(vec![loss::binary_cross_entropy(x.buffer.view(), t.buffer.view())?]),
        || vec![Expected::All(pairs().map(|(x, t)| x.max(0.0) - x * t + (-x.abs()).exp().ln_1p()).collect())],
        None,
    )?;
    check.case(
        &Case { name: "loss.binary.gradient", element, shape: count.to_string() },
        || Ok(vec![loss::binary_cross_entropy_gradient(x.buffer.view(), t.buffer.view(), g.buffer.view())?]),
        || {
            let slopes = pairs().map(|(x, t)| 1.0 / (1.0 + (-x).exp()) - t);
            vec![Expected::All(slopes.zip(&g.host).map(|(slope, &g)| slope * f64::from(g)).collect())]
        },
        None,
    )
}
