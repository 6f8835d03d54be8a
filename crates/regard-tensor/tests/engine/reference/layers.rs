//! Linear layers, norms, softmax, losses, rotary positions and patches.

use super::{Array, matmul};

/// f(x·W + b); the weight is (inputs, outputs), or (outputs, inputs) if `out_in`.
pub fn linear(
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    out_in: bool,
    f: impl Fn(f64) -> f64,
) -> Array {
    let rows = x.shape[..x.shape.len() - 1].iter().product();
    let flat = Array::new(x.values.clone(), &[rows, x.width()]);
    let product = matmul(&flat, weight, false, out_in);
    let mut shape = x.shape.clone();
    *shape.last_mut().expect("an axis") = product.width();
    let biased = product.map_rows(|_, row| {
        row.iter().enumerate().map(|(j, z)| f(z + bias.map_or(0.0, |bias| bias.at(&[j])))).collect()
    });
    Array::new(biased.values, &shape)
}

/// Layer norm if `centred`, else RMS norm.
pub fn norm(x: &Array, weight: &Array, bias: Option<&Array>, epsilon: f64, centred: bool) -> Array {
    x.map_rows(|_, row| {
        let n = row.len() as f64;
        let mean = if centred { row.iter().sum::<f64>() / n } else { 0.0 };
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let normal = row.iter().map(|x| (x - mean) / (variance + epsilon).sqrt());
        normal
            .enumerate()
            .map(|(j, n)| n * weight.at(&[j]) + bias.map_or(0.0, |bias| bias.at(&[j])))
            .collect()
    })
}

/// ln Σ eˣ over the allowed elements; −∞ if there is none.
fn log_sum_exp(row: &[f64], allowed: &[bool]) -> f64 {
    let kept = || row.iter().zip(allowed).filter(|(_, allowed)| **allowed).map(|(&x, _)| x);
    let max = kept().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY { max } else { max + kept().map(|x| (x - max).exp()).sum::<f64>().ln() }
}

/// Log-softmax over the elements where `mask` (broadcast to x) is 1; −∞ elsewhere.
pub fn log_softmax(x: &Array, mask: &Array) -> Array {
    let full = super::broadcast(x, mask, |_, allowed| allowed);
    x.map_rows(|i, row| {
        let allowed: Vec<bool> =
            full.values[i * row.len()..][..row.len()].iter().map(|&m| m == 1.0).collect();
        let lse = log_sum_exp(row, &allowed);
        row.iter().zip(&allowed).map(|(x, &ok)| if ok { x - lse } else { f64::NEG_INFINITY }).collect()
    })
}

pub fn softmax(x: &Array, mask: &Array) -> Array {
    log_softmax(x, mask).map(f64::exp)
}

/// −Σ q·ln p for each row, with q the target smoothed over all classes; 0 where the target is ignored.
pub fn cross_entropy_rows(logits: &Array, targets: &[u32], ignored: Option<u32>, smoothing: f64) -> Vec<f64> {
    let classes = logits.width();
    let log_p = log_softmax(logits, &Array::new(vec![1.0], &[]));
    let loss = |row: usize, target: u32| -> f64 {
        (0..classes)
            .map(|class| {
                let hit = if class == target as usize { 1.0 - smoothing } else { 0.0 };
                -(hit + smoothing / classes as f64) * log_p.values[row * classes + class]
            })
            .sum()
    };
    let rows = targets.iter().enumerate();
    rows.map(|(row, &target)| if ignored == Some(target) { 0.0 } else { loss(row, target) }).collect()
}

/// −t·ln σ(x) − (1 − t)·ln(1 − σ(x)), with ln σ(x) = −ln(1 + e^−x).
pub fn binary_cross_entropy(x: f64, t: f64) -> f64 {
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    t * softplus(-x) + (1.0 - t) * softplus(x)
}

/// (batch, time, heads, width) with pairs (j, j + half), or (2j, 2j + 1) if `interleaved`, rotated by their angle.
pub fn rotary(x: &Array, cos: &Array, sin: &Array, positions: &[u32], interleaved: bool) -> Array {
    let half = cos.width();
    let (time, heads) = (x.shape[1], x.shape[2]);
    x.map_rows(|row, values| {
        let token = row / heads;
        assert!(token / time < x.shape[0]);
        let mut out = values.to_vec();
        for j in 0..half {
            let (first, second) = if interleaved { (2 * j, 2 * j + 1) } else { (j, j + half) };
            let at = [positions[token] as usize, j];
            out[first] = values[first] * cos.at(&at) - values[second] * sin.at(&at);
            out[second] = values[first] * sin.at(&at) + values[second] * cos.at(&at);
        }
        out
    })
}

/// (batch, channels, height, width) to (batch, patches, channels·size·size).
pub fn patches(x: &Array, size: usize) -> Array {
    let [batch, channels, height, width] = x.shape[..] else { panic!("images") };
    let (down, across) = (height / size, width / size);
    Array::from_fn(&[batch, down * across, channels * size * size], |index| {
        let (patch, value) = (index[1], index[2]);
        let (channel, inside) = (value / (size * size), value % (size * size));
        let row = patch / across * size + inside / size;
        let column = patch % across * size + inside % size;
        x.at(&[index[0], channel, row, column])
    })
}

/// Rows of a table.
pub fn embedding(table: &Array, ids: &[u32], shape: &[usize]) -> Array {
    let width = table.width();
    let values = ids.iter().flat_map(|&id| table.values[id as usize * width..][..width].to_vec()).collect();
    let mut shape = shape.to_vec();
    shape.push(width);
    Array::new(values, &shape)
}
