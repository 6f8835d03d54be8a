//! AdamW and SGD over several parameters, and the norm of all gradients.

use crate::harness::{Case, Check, Expected, Work};
use crate::inputs::Input;
use regard_tensor::cuda::optimiser::{Job, Optimiser, Rule};
use regard_tensor::cuda::{Buffer, Element, Result, View};

const DECAY: f32 = 0.1;

/// One parameter, its gradient and its running means.
struct Parameter {
    value: Input,
    gradient: Input,
    first: Input,
    second: Input,
}

/// Copies of what an update changes.
struct Copies {
    value: Buffer,
    first: Buffer,
    second: Buffer,
    shadow: Buffer,
}

pub fn check(check: &mut Check) -> Result<()> {
    if !check.wants("optimiser") {
        return Ok(());
    }
    // GPT-2's parameters: tables, then twelve blocks of matrices and vectors.
    let mut gpt2 = vec![50_304 * 768, 1024 * 768];
    for _ in 0..12 {
        gpt2.extend([
            768 * 2304,
            2304,
            768 * 768,
            768,
            768 * 3072,
            3072,
            3072 * 768,
            768,
            768,
            768,
            768,
            768,
        ]);
    }
    let sizes = [vec![1], vec![5, 4096, 10_000, 3], gpt2];
    for lengths in check.sizes(&sizes) {
        one(check, lengths)?;
    }
    Ok(())
}

fn one(check: &mut Check, lengths: &[usize]) -> Result<()> {
    let total: usize = lengths.iter().sum();
    let large = total > 1 << 20;
    let inputs = &mut check.inputs;
    let parameters = lengths.iter().map(|&count| {
        Ok(Parameter {
            value: inputs.normal(count, Element::F32)?,
            gradient: inputs.normal(count, Element::F32)?,
            first: inputs.normal(count, Element::F32)?,
            second: inputs.map(count, Element::F32, |x| x * x + 0.1)?,
        })
    });
    let parameters = parameters.collect::<Result<Vec<_>>>()?;
    let shape = format!("{} of {total}", lengths.len());
    let mut optimiser = Optimiser::new(&check.device)?;
    let gradients: Vec<View> = parameters.iter().map(|p| p.gradient.buffer.view()).collect();
    let squares: f64 = parameters.iter().flat_map(|p| &p.gradient.host).map(|&g| f64::from(g).powi(2)).sum();
    let limit = 0.5;
    let (norm, scale) = (squares.sqrt(), limit / squares.sqrt());
    let mut norms = Optimiser::new(&check.device)?;
    let mut again = || norms.norm(&gradients, limit as f32).map(drop);
    check.case(
        &Case { name: "optimiser.norm", element: Element::F32, shape: shape.clone() },
        || Ok(vec![optimiser.norm(&gradients, limit as f32)?]),
        || vec![Expected::All(vec![norm, if norm > limit { scale } else { 1.0 }])],
        large.then_some((Work::Bytes(4 * total), &mut again as _)),
    )?;
    let device_scale = optimiser.norm(&gradients, limit as f32)?;
    let scale = if norm > limit { scale } else { 1.0 };
    let adam = Rule::Adam { rate: 0.01, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, step: 3 };
    let momentum = Rule::Momentum { rate: 0.01, momentum: 0.9 };
    for (name, rule, bytes) in [("optimiser.adamw", adam, 30), ("optimiser.sgd", momentum, 22)] {
        let device = check.device.clone();
        let copies = || {
            parameters
                .iter()
                .map(|p| {
                    Ok(Copies {
                        value: p.value.buffer.view().copy()?,
                        first: p.first.buffer.view().copy()?,
                        second: p.second.buffer.view().copy()?,
                        shadow: device.allocate(p.value.host.len(), Element::Bf16)?,
                    })
                })
                .collect::<Result<Vec<_>>>()
        };
        let update = |optimiser: &mut Optimiser, copies: &mut [Copies]| {
            let jobs = copies.iter_mut().zip(&parameters).map(|(copies, parameter)| Job {
                parameter: copies.value.view_mut(),
                gradient: parameter.gradient.buffer.view(),
                first: copies.first.view_mut(),
                second: Some(copies.second.view_mut()),
                shadow: Some(copies.shadow.view_mut()),
                pace: None,
                coupled: 0.0,
                decoupled: DECAY,
            });
            let scale = device_scale.view().part(1, 1)?;
            optimiser.update(rule, Some(scale), &mut jobs.collect::<Vec<_>>())
        };
        let (mut timed, mut room) = (Optimiser::new(&check.device)?, copies()?);
        let mut again = || update(&mut timed, &mut room);
        check.case(
            &Case { name, element: Element::F32, shape: shape.clone() },
            || {
                let mut copies = copies()?;
                update(&mut optimiser, &mut copies)?;
                Ok(copies.into_iter().flat_map(|c| [c.value, c.first, c.second, c.shadow]).collect())
            },
            || parameters.iter().flat_map(|parameter| reference(rule, parameter, scale)).collect(),
            large.then_some((Work::Bytes(bytes * total), &mut again as _)),
        )?;
    }
    Ok(())
}

fn reference(rule: Rule, parameter: &Parameter, scale: f64) -> [Expected; 4] {
    let mut out: [Vec<f64>; 4] = Default::default();
    for i in 0..parameter.value.host.len() {
        let at = |input: &Input| f64::from(input.host[i]);
        let (p, g) = (at(&parameter.value), at(&parameter.gradient) * scale);
        let (mut m, mut v) = (at(&parameter.first), at(&parameter.second));
        let (rate, change) = match rule {
            Rule::Momentum { rate, momentum } => {
                m = f64::from(momentum) * m + g;
                (f64::from(rate), m)
            }
            Rule::Adam { rate, beta1: b1, beta2: b2, epsilon, step } => {
                let (b1, b2) = (f64::from(b1), f64::from(b2));
                m = b1 * m + (1.0 - b1) * g;
                v = b2 * v + (1.0 - b2) * g * g;
                let deviation = (v / (1.0 - b2.powi(step))).sqrt() + f64::from(epsilon);
                (f64::from(rate), m / (1.0 - b1.powi(step)) / deviation)
            }
        };
        let p = p * (1.0 - rate * f64::from(DECAY)) - rate * change;
        for (out, value) in out.iter_mut().zip([p, m, v, p]) {
            out.push(value);
        }
    }
    out.map(Expected::All)
}
