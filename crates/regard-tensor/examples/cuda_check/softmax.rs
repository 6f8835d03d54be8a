//! Softmax and log-softmax over rows.

use crate::arithmetic::place;
use crate::harness::{Case, Check, Expected, Work};
use regard_tensor::Shape;
use regard_tensor::cuda::{Element, Result, softmax};

pub fn check(check: &mut Check) -> Result<()> {
    if !check.wants("softmax") {
        return Ok(());
    }
    let sizes: [(&[usize], &[usize]); 5] = [
        (&[3, 5], &[5]),
        (&[2, 3, 4, 33], &[2, 1, 1, 33]),
        (&[4, 7, 1000], &[7, 1]),
        (&[2, 5000], &[2, 5000]),
        (&[32, 12, 256, 256], &[32, 1, 1, 256]),
    ];
    for (shape, mask) in check.sizes(&sizes) {
        for element in [Element::F32, Element::Bf16] {
            for (log, masked) in [(false, false), (false, true), (true, true)] {
                one(check, shape, masked.then_some(mask), element, log)?;
            }
        }
    }
    Ok(())
}

fn one(
    check: &mut Check,
    lengths: &[usize],
    mask_lengths: Option<&&[usize]>,
    element: Element,
    log: bool,
) -> Result<()> {
    let count: usize = lengths.iter().product();
    let width = lengths[lengths.len() - 1];
    let shape = Shape::from(lengths);
    let x = check.inputs.map(count, element, |x| 3.0 * x)?;
    let g = check.inputs.normal(count, element)?;
    let mask = match mask_lengths {
        Some(lengths) => {
            let mut allowed: Vec<u8> =
                check.inputs.ids(lengths.iter().product(), 3).iter().map(|&id| u8::from(id != 0)).collect();
            allowed[0] = 0;
            Some((check.device.upload(&allowed, Element::U8)?, Shape::from(*lengths), allowed))
        }
        None => None,
    };
    let allowed =
        |i: usize| mask.as_ref().is_none_or(|(_, small, values)| values[place(i, lengths, small)] != 0);
    let forward = || {
        let mask = mask.as_ref().map(|(buffer, shape, _)| (buffer.view(), shape));
        softmax::forward(x.buffer.view(), &shape, mask, log)
    };
    let mut y = vec![0.0; count];
    for row in 0..count / width {
        let inside = row * width..(row + 1) * width;
        let sum: f64 = inside.clone().filter(|&i| allowed(i)).map(|i| f64::from(x.host[i]).exp()).sum();
        for i in inside {
            let value = if allowed(i) { f64::from(x.host[i]) } else { f64::NEG_INFINITY };
            y[i] = match (log, sum == 0.0) {
                (true, true) => f64::NEG_INFINITY,
                (true, false) => value - sum.ln(),
                (false, true) => 0.0,
                (false, false) => value.exp() / sum,
            };
        }
    }
    let name =
        format!("softmax{}{}", if log { ".log" } else { "" }, if mask.is_some() { ".mask" } else { "" });
    let large = count > 1 << 22;
    let mut again = || forward().map(drop);
    check.case(
        &Case { name: &format!("{name}.forward"), element, shape: shape.to_string() },
        || Ok(vec![forward()?]),
        || {
            let expected = Expected::All(y.clone());
            // A row with one place allowed has the logarithm x − x there.
            vec![if log { expected.between(&x.host) } else { expected }]
        },
        large.then_some((Work::Bytes(2 * count * element.size()), &mut again as _)),
    )?;
    let rounded: Vec<f32> = y.iter().map(|&y| crate::inputs::rounded(y as f32, element)).collect();
    let y = check.inputs.input(rounded, element)?;
    let run = || softmax::backward(y.buffer.view(), g.buffer.view(), width, log);
    let mut again = || run().map(drop);
    check.case(
        &Case { name: &format!("{name}.backward"), element, shape: shape.to_string() },
        || Ok(vec![run()?]),
        || {
            let mut out = vec![0.0; count];
            for row in 0..count / width {
                let inside = row * width..(row + 1) * width;
                let pair = |i: usize| (f64::from(y.host[i]), f64::from(g.host[i]));
                let term = |i: usize| match (log, pair(i)) {
                    (false, (y, g)) => y * g,
                    (true, (y, g)) => {
                        if y == f64::NEG_INFINITY {
                            0.0
                        } else {
                            g
                        }
                    }
                };
                let total: f64 = inside.clone().map(term).sum();
                for i in inside {
                    let weight = if log { pair(i).0.exp() } else { pair(i).0 };
                    out[i] = term(i) - weight * total;
                }
            }
            // The same, of its gradient.
            vec![if log { Expected::All(out).between(&g.host) } else { Expected::All(out) }]
        },
        large.then_some((Work::Bytes(3 * count * element.size()), &mut again as _)),
    )
}
