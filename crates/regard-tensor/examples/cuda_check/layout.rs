//! Moving values, dropout and rotation.

use crate::harness::{Case, Check, Expected, Work};
use crate::inputs::by_index;
use regard_tensor::Shape;
use regard_tensor::cuda::dropout::{self, Draws};
use regard_tensor::cuda::layout::{self, Patches};
use regard_tensor::cuda::rotary::{self, Rotation};
use regard_tensor::cuda::{Element, Result};
use regard_tensor::ops::Pairing;
use regard_tensor::random::Key;

pub fn check(check: &mut Check) -> Result<()> {
    if check.wants("layout") {
        for element in [Element::F32, Element::Bf16] {
            permute(check, element)?;
            parts(check, element)?;
            patches(check, element)?;
        }
    }
    for element in [Element::F32, Element::Bf16] {
        if check.wants("dropout") {
            drop_out(check, element)?;
        }
        if check.wants("rotary") {
            rotate(check, element)?;
        }
    }
    Ok(())
}

fn permute(check: &mut Check, element: Element) -> Result<()> {
    let cases: [(&[usize], &[usize]); 8] = [
        (&[3, 5], &[1, 0]),
        (&[2, 7, 3, 8], &[0, 2, 1, 3]),
        (&[2, 3, 4, 5], &[3, 2, 1, 0]),
        (&[4, 33, 65], &[0, 2, 1]),
        (&[2, 3, 2, 2, 3, 2], &[5, 0, 3, 1, 4, 2]),
        (&[6, 1, 4], &[2, 1, 0]),
        (&[8192, 8192], &[1, 0]),
        (&[32, 1024, 12, 64], &[0, 2, 1, 3]),
    ];
    for (lengths, axes) in check.sizes(&cases) {
        let count: usize = lengths.iter().product();
        let x = check.inputs.normal(count, element)?;
        let shape = Shape::from(*lengths);
        let run = || layout::permute(x.buffer.view(), &shape, axes);
        let mut again = || run().map(drop);
        check.case(
            &Case { name: "layout.permute", element, shape: format!("{shape}{axes:?}").replace(", ", "") },
            || Ok(vec![run()?]),
            || {
                let new: Vec<usize> = axes.iter().map(|&axis| lengths[axis]).collect();
                let mut strides = vec![1; lengths.len()];
                for axis in (1..lengths.len()).rev() {
                    strides[axis - 1] = strides[axis] * lengths[axis];
                }
                let value = |index: usize| {
                    let (mut i, mut at) = (index, 0);
                    for (k, &length) in new.iter().enumerate().rev() {
                        at += i % length * strides[axes[k]];
                        i /= length;
                    }
                    f64::from(x.host[at])
                };
                vec![Expected::All(by_index(count, value))]
            },
            (count > 1 << 20).then_some((Work::Bytes(2 * count * element.size()), &mut again as _)),
        )?;
    }
    Ok(())
}

fn parts(check: &mut Check, element: Element) -> Result<()> {
    for (outer, full, inner, start, length) in
        [(3, 7, 5, 2, 4), (4, 12, 64, 4, 4), (1, 9, 3, 1, 7), (5, 6, 8, 0, 1)]
    {
        let x = check.inputs.normal(outer * full * inner, element)?;
        let part = check.inputs.normal(outer * length * inner, element)?;
        let axis = (outer, full, inner);
        let shape = format!("{outer}x{full}x{inner}");
        let wide = |host: &[f32]| -> Vec<f64> { host.iter().map(|&x| f64::from(x)).collect() };
        let inside = |i: usize| (start..start + length).contains(&(i / inner % full));
        let at = |i: usize| (i / (inner * full) * length + i / inner % full - start) * inner + i % inner;
        check.case(
            &Case { name: "layout.slice", element, shape: shape.clone() },
            || {
                let mut over = x.buffer.view().copy()?;
                layout::overwrite(over.view_mut(), axis, start, part.buffer.view())?;
                Ok(vec![
                    layout::slice(x.buffer.view(), axis, start, length)?,
                    layout::unslice(part.buffer.view(), axis, start)?,
                    over,
                ])
            },
            || {
                let all = wide(&x.host);
                let slice = (0..all.len()).filter(|&i| inside(i)).map(|i| all[i]);
                let part = wide(&part.host);
                let unslice = (0..all.len()).map(|i| if inside(i) { part[at(i)] } else { 0.0 });
                let over = (0..all.len()).map(|i| if inside(i) { part[at(i)] } else { all[i] });
                [slice.collect(), unslice.collect(), over.collect()].map(Expected::All).into()
            },
            None,
        )?;
        check.case(
            &Case { name: "layout.concatenate", element, shape },
            || {
                let parts = [x.buffer.view(), part.buffer.view(), x.buffer.view()];
                Ok(vec![layout::concatenate(&parts, outer)?])
            },
            || {
                let (a, b) = (wide(&x.host), wide(&part.host));
                let mut out = Vec::new();
                for block in 0..outer {
                    for values in [&a, &b, &a] {
                        let width = values.len() / outer;
                        out.extend_from_slice(&values[block * width..(block + 1) * width]);
                    }
                }
                vec![Expected::All(out)]
            },
            None,
        )?;
    }
    Ok(())
}

fn patches(check: &mut Check, element: Element) -> Result<()> {
    for (batch, channels, height, width, size) in [(2, 3, 9, 11, 4), (3, 1, 28, 28, 7), (2, 3, 32, 32, 8)] {
        let patches = Patches { batch, channels, height, width, size };
        let (down, across) = (height / size, width / size);
        let pixels = batch * channels * height * width;
        let values = batch * down * across * channels * size * size;
        let x = check.inputs.normal(pixels, element)?;
        let g = check.inputs.normal(values, element)?;
        let pixel = |i: usize| {
            let (column, rest) = (i % size, i / size);
            let (row, rest) = (rest % size, rest / size);
            let (channel, rest) = (rest % channels, rest / channels);
            let (left, rest) = (rest % across, rest / across);
            let (top, image) = (rest % down, rest / down);
            ((image * channels + channel) * height + top * size + row) * width + left * size + column
        };
        check.case(
            &Case {
                name: "layout.patches",
                element,
                shape: format!("{batch}x{channels}x{height}x{width}/{size}"),
            },
            || Ok(vec![layout::unfold(x.buffer.view(), patches)?, layout::fold(g.buffer.view(), patches)?]),
            || {
                let unfolded = (0..values).map(|i| f64::from(x.host[pixel(i)])).collect();
                let mut folded = vec![0.0; pixels];
                for i in 0..values {
                    folded[pixel(i)] = f64::from(g.host[i]);
                }
                vec![Expected::All(unfolded), Expected::All(folded)]
            },
            None,
        )?;
    }
    Ok(())
}

fn drop_out(check: &mut Check, element: Element) -> Result<()> {
    for &(examples, per_example) in
        check.sizes(&[(3, 5), (7, 1001), (70_000, 8), (4, 4096), (32, 1024 * 768)])
    {
        let count = examples * per_example;
        let x = check.inputs.normal(count, element)?;
        let (key, first_example) = (Key::new(count as u64).site("dropout"), (1 << 33) + 5);
        let (threshold, scale) = (1_288_490_188, 1.0 / 0.7);
        let draws = Draws { key, first_example, per_example, threshold, scale };
        let mut again = || dropout::apply(x.buffer.view(), draws).map(drop);
        check.case(
            &Case { name: "dropout", element, shape: format!("{examples}x{per_example}") },
            || Ok(vec![dropout::apply(x.buffer.view(), draws)?]),
            || {
                let value = |i: usize| {
                    let (example, at) = ((i / per_example) as u64, (i % per_example) as u64);
                    let word = key.words(first_example + example, at / 4)[(at % 4) as usize];
                    if word >= threshold { f64::from(x.host[i]) * f64::from(scale) } else { 0.0 }
                };
                vec![Expected::All(by_index(count, value))]
            },
            (count > 1 << 22).then_some((Work::Bytes(2 * count * element.size()), &mut again as _)),
        )?;
    }
    Ok(())
}

fn rotate(check: &mut Check, element: Element) -> Result<()> {
    let sizes = [(5, 2, 10, 6), (9, 3, 64, 64), (11, 2, 80, 32), (7, 1, 12, 12), (32_768, 12, 64, 64)];
    for &(rows, heads, width, rotated) in check.sizes(&sizes) {
        let count = rows * heads * width;
        let limit = 100;
        let half = rotated / 2;
        let x = check.inputs.normal(count, element)?;
        let (cos, sin) = (
            check.inputs.map(limit * half, Element::F32, f32::cos)?,
            check.inputs.map(limit * half, Element::F32, f32::sin)?,
        );
        let positions = check.inputs.ids(rows, limit);
        let device_positions = check.device.upload(&positions, Element::U32)?;
        for pairing in [Pairing::Halves, Pairing::Interleaved] {
            for back in [false, true] {
                let direction = if back { -1.0 } else { 1.0 };
                let rotation = Rotation { pairing, heads, width, rotated, direction };
                let run = || {
                    let (cos, sin) = (cos.buffer.view(), sin.buffer.view());
                    rotary::rotate(x.buffer.view(), cos, sin, device_positions.view(), rotation)
                };
                let mut again = || run().map(drop);
                let name = format!("rotary.{pairing:?}{}", if back { ".back" } else { "" }).to_lowercase();
                check.case(
                    &Case { name: &name, element, shape: format!("{rows}x{heads}x{width}/{rotated}") },
                    || Ok(vec![run()?]),
                    || {
                        let mut out: Vec<f64> = x.host.iter().map(|&x| f64::from(x)).collect();
                        for head in 0..rows * heads {
                            for j in 0..half {
                                let angle = positions[head / heads] as usize * half + j;
                                let (c, mut s) = (f64::from(cos.host[angle]), f64::from(sin.host[angle]));
                                if back {
                                    s = -s;
                                }
                                let (i, k) = match pairing {
                                    Pairing::Halves => (j, j + half),
                                    Pairing::Interleaved => (2 * j, 2 * j + 1),
                                };
                                let (i, k) = (head * width + i, head * width + k);
                                let (a, b) = (out[i], out[k]);
                                (out[i], out[k]) = (a * c - b * s, b * c + a * s);
                            }
                        }
                        vec![Expected::All(out)]
                    },
                    (count > 1 << 22).then_some((Work::Bytes(2 * count * element.size()), &mut again as _)),
                )?;
            }
        }
    }
    Ok(())
}
