//! Arithmetic with broadcasting, the sums that undo it, and simple maps.

use crate::harness::{Case, Check, Expected, Work};
use crate::inputs::{by_index, rounded};
use regard_tensor::Shape;
use regard_tensor::cuda::arithmetic::{self, Arithmetic};
use regard_tensor::cuda::{Element, Result};

/// Where an array of shape `small` stands at element `index` of a larger shape.
pub fn place(index: usize, large: &[usize], small: &[usize]) -> usize {
    let (mut rest, mut at, mut stride) = (index, 0, 1);
    for axis in (0..large.len()).rev() {
        let position = rest % large[axis];
        rest /= large[axis];
        if let Some(k) = (axis + small.len()).checked_sub(large.len()) {
            at += if small[k] == 1 { 0 } else { position * stride };
            stride *= small[k];
        }
    }
    at
}

pub fn check(check: &mut Check) -> Result<()> {
    if check.wants("arithmetic") {
        let shapes: [(&[usize], &[usize], &[usize]); 9] = [
            (&[7], &[7], &[7]),
            (&[33, 64], &[33, 64], &[64]),
            (&[33, 64], &[33, 64], &[33, 1]),
            (&[5, 7, 3], &[7, 1], &[5, 1, 3]),
            (&[2, 3, 4, 5, 6], &[2, 1, 4, 1, 6], &[3, 1, 5, 1]),
            (&[100, 40], &[], &[100, 40]),
            (&[4, 16, 8], &[16, 8], &[4, 1, 8]),
            (&[32_768, 768], &[32_768, 768], &[32_768, 768]),
            (&[32_768, 768], &[32_768, 768], &[768]),
        ];
        for (shape, a, b) in check.sizes(&shapes) {
            for element in [Element::F32, Element::Bf16] {
                binary(check, shape, a, b, element)?;
            }
        }
    }
    maps(check)
}

fn binary(check: &mut Check, shape: &[usize], a: &[usize], b: &[usize], element: Element) -> Result<()> {
    let count: usize = shape.iter().product();
    let large = count > 1 << 20;
    let x = check.inputs.normal(a.iter().product(), element)?;
    let y = check.inputs.map(b.iter().product(), element, |x| x.signum() * (x.abs() + 0.1))?;
    let (out, a_shape, b_shape) = (Shape::from(shape), Shape::from(a), Shape::from(b));
    let kinds: &[Arithmetic] = match large {
        true => &[Arithmetic::Add],
        false => &[Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Multiply, Arithmetic::Divide],
    };
    for &kind in kinds {
        let run =
            || arithmetic::arithmetic(kind, (x.buffer.view(), &a_shape), (y.buffer.view(), &b_shape), &out);
        let mut again = || run().map(drop);
        let moved = (count + x.host.len() + y.host.len()) * element.size();
        check.case(
            &Case { name: &format!("arithmetic.{kind:?}").to_lowercase(), element, shape: out.to_string() },
            || Ok(vec![run()?]),
            || {
                let value = |i: usize| {
                    let (x, y) =
                        (f64::from(x.host[place(i, shape, a)]), f64::from(y.host[place(i, shape, b)]));
                    match kind {
                        Arithmetic::Add => x + y,
                        Arithmetic::Subtract => x - y,
                        Arithmetic::Multiply => x * y,
                        Arithmetic::Divide => x / y,
                    }
                };
                vec![Expected::All(by_index(count, value))]
            },
            large.then_some((Work::Bytes(moved), &mut again as _)),
        )?;
    }
    let g = check.inputs.map(count, element, |x| x + 0.5)?;
    check.case(
        &Case { name: "arithmetic.reduce_to", element, shape: format!("{out} to {b_shape}") },
        || Ok(vec![arithmetic::reduce_to(g.buffer.view(), &out, &b_shape)?]),
        || {
            let mut total = vec![0.0; b_shape.count()];
            for (i, &g) in g.host.iter().enumerate() {
                total[place(i, shape, b)] += f64::from(g);
            }
            vec![Expected::All(total)]
        },
        None,
    )
}

fn maps(check: &mut Check) -> Result<()> {
    if !check.wants("map") {
        return Ok(());
    }
    for &count in check.sizes(&[5, 10_003, 1 << 26]) {
        let large = count > 1 << 20;
        for (from, to) in [
            (Element::F32, Element::F32),
            (Element::F32, Element::Bf16),
            (Element::Bf16, Element::F32),
            (Element::Bf16, Element::Bf16),
            (Element::F32, Element::F16),
        ] {
            let x = check.inputs.normal(count, from)?;
            let run = || arithmetic::affine(x.buffer.view(), 1.5, -0.25, None, to);
            let mut again = || run().map(drop);
            check.case(
                &Case {
                    name: &format!("map.affine.{to:?}").to_lowercase(),
                    element: from,
                    shape: count.to_string(),
                },
                || Ok(vec![run()?]),
                || vec![Expected::All(x.host.iter().map(|&x| f64::from(x) * 1.5 - 0.25).collect())],
                large.then_some((Work::Bytes(count * (from.size() + to.size())), &mut again as _)),
            )?;
        }
        for (total, element) in
            [(Element::F32, Element::F32), (Element::F32, Element::Bf16), (Element::Bf16, Element::Bf16)]
        {
            let (a, b) = (check.inputs.normal(count, total)?, check.inputs.normal(count, element)?);
            let mut room = a.buffer.view().copy()?;
            let mut again = || arithmetic::accumulate(room.view_mut(), b.buffer.view());
            check.case(
                &Case {
                    name: &format!("map.accumulate.{total:?}").to_lowercase(),
                    element,
                    shape: count.to_string(),
                },
                || {
                    let mut total = a.buffer.view().copy()?;
                    arithmetic::accumulate(total.view_mut(), b.buffer.view())?;
                    Ok(vec![total])
                },
                || {
                    vec![Expected::All(
                        a.host.iter().zip(&b.host).map(|(&a, &b)| f64::from(a) + f64::from(b)).collect(),
                    )]
                },
                large.then_some((Work::Bytes(count * (2 * total.size() + element.size())), &mut again as _)),
            )?;
        }
        let x = check.inputs.normal(count, Element::F32)?;
        check.case(
            &Case { name: "map.f16", element: Element::F16, shape: count.to_string() },
            || {
                let half = arithmetic::convert(x.buffer.view(), Element::F16)?;
                Ok(vec![arithmetic::convert(half.view(), Element::Bf16)?, half])
            },
            || {
                let values: Vec<f64> = x.host.iter().map(|&x| f64::from(x)).collect();
                vec![Expected::All(values.clone()), Expected::All(values)]
            },
            None,
        )?;
        let device = check.device.clone();
        check.case(
            &Case { name: "map.fill", element: Element::Bf16, shape: count.to_string() },
            || {
                let mut out = device.allocate(count, Element::Bf16)?;
                arithmetic::fill(out.view_mut(), 1.7)?;
                Ok(vec![out])
            },
            || vec![Expected::All(vec![f64::from(rounded(1.7, Element::Bf16)); count])],
            None,
        )?;
    }
    Ok(())
}
