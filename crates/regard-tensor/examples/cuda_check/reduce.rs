//! Sums and maxima along an axis.

use crate::harness::{Case, Check, Expected, Work};
use regard_tensor::cuda::{Element, Result, reduce};

pub fn check(check: &mut Check) -> Result<()> {
    if !check.wants("reduce") {
        return Ok(());
    }
    let sizes = [
        (3, 5, 1),
        (70_000, 3, 1),
        (1, 100_003, 1),
        (4, 7, 5),
        (1, 900, 33),
        (2, 40_000, 1),
        (32, 200, 256),
        (1, 25_165_824, 1),
    ];
    for &axis in check.sizes(&sizes) {
        for element in [Element::F32, Element::Bf16] {
            one(check, axis, element)?;
        }
    }
    Ok(())
}

fn one(check: &mut Check, axis: reduce::Axis, element: Element) -> Result<()> {
    let (outer, length, inner) = axis;
    let count = outer * length * inner;
    let large = count > 1 << 22;
    // A mean apart from 0: sums that cancel have no meaningful relative error.
    let x = check.inputs.map(count, element, |x| x + 0.5)?;
    let shape = format!("{outer}x{length}x{inner}");
    let at = |o: usize, l: usize, i: usize| f64::from(x.host[(o * length + l) * inner + i]);
    let bytes = Work::Bytes(count * element.size());
    let mut again = || reduce::sum(x.buffer.view(), axis).map(drop);
    check.case(
        &Case { name: "reduce.sum", element, shape: shape.clone() },
        || Ok(vec![reduce::sum(x.buffer.view(), axis)?]),
        || {
            let sum = |k: usize| (0..length).map(|l| at(k / inner, l, k % inner)).sum();
            vec![Expected::All((0..outer * inner).map(sum).collect())]
        },
        large.then_some((bytes, &mut again as _)),
    )?;
    let mut again = || reduce::sum_of_squares(x.buffer.view()).map(drop);
    check.case(
        &Case { name: "reduce.squares", element, shape: shape.clone() },
        || Ok(vec![reduce::sum_of_squares(x.buffer.view())?]),
        || vec![Expected::All(vec![x.host.iter().map(|&x| f64::from(x).powi(2)).sum()])],
        large.then_some((bytes, &mut again as _)),
    )?;
    let places: Vec<usize> = (0..outer * inner)
        .map(|k| {
            let better = |best: usize, l: usize| {
                if at(k / inner, l, k % inner) > at(k / inner, best, k % inner) { l } else { best }
            };
            (0..length).fold(0, better)
        })
        .collect();
    let values: Vec<f64> = places.iter().enumerate().map(|(k, &l)| at(k / inner, l, k % inner)).collect();
    let mut again = || reduce::max(x.buffer.view(), axis).map(drop);
    check.case(
        &Case { name: "reduce.max", element, shape: shape.clone() },
        || {
            let (values, places) = reduce::max(x.buffer.view(), axis)?;
            Ok(vec![values, places])
        },
        || vec![Expected::All(values.clone()), Expected::All(places.iter().map(|&l| l as f64).collect())],
        (large && outer > 1).then_some((bytes, &mut again as _)),
    )?;
    let (device_values, device_places) = reduce::max(x.buffer.view(), axis)?;
    check.case(
        &Case { name: "reduce.scatter", element, shape },
        || Ok(vec![reduce::scatter(device_values.view(), device_places.view(), axis)?]),
        || {
            let mut out = vec![0.0; count];
            for (k, &l) in places.iter().enumerate() {
                out[(k / inner * length + l) * inner + k % inner] = values[k];
            }
            vec![Expected::All(out)]
        },
        None,
    )
}
