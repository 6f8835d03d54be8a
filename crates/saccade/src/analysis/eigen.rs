//! Eigenvalues and eigenvectors of a symmetric matrix by Jacobi's rotations (1846).
//!
//! Slow for thousands of rows, exact to rounding for any, and short enough to read.

/// Eigenvalues from the largest, each with its vector of length 1, whose largest component is positive.
///
/// Reads an `n` × `n` symmetric matrix, row by row.
pub fn symmetric(mut a: Vec<f64>, n: usize) -> Vec<(f64, Vec<f64>)> {
    let mut vectors: Vec<f64> = (0..n * n).map(|i| f64::from(u8::from(i / n == i % n))).collect();
    let scale = a.iter().map(|value| value * value).sum::<f64>().sqrt();
    for _ in 0..64 {
        let mut off: f64 = 0.0;
        for p in 0..n {
            for q in p + 1..n {
                off = off.max(a[p * n + q].abs());
                rotate(&mut a, &mut vectors, n, p, q);
            }
        }
        if off <= 1e-15 * scale {
            break;
        }
    }
    let mut pairs: Vec<(f64, Vec<f64>)> = (0..n).map(|i| (a[i * n + i], vector(&vectors, n, i))).collect();
    pairs.sort_by(|x, y| y.0.total_cmp(&x.0));
    pairs
}

/// Turns the plane of two axes so that their entry becomes 0.
fn rotate(a: &mut [f64], vectors: &mut [f64], n: usize, p: usize, q: usize) {
    let entry = a[p * n + q];
    if entry == 0.0 {
        return;
    }
    let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * entry);
    let tangent = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let cos = 1.0 / (tangent * tangent + 1.0).sqrt();
    let sin = tangent * cos;
    for k in 0..n {
        let (x, y) = (a[k * n + p], a[k * n + q]);
        a[k * n + p] = cos * x - sin * y;
        a[k * n + q] = sin * x + cos * y;
    }
    for k in 0..n {
        let (x, y) = (a[p * n + k], a[q * n + k]);
        a[p * n + k] = cos * x - sin * y;
        a[q * n + k] = sin * x + cos * y;
        // Vectors stand in rows, so that both halves of the work run along memory.
        let (x, y) = (vectors[p * n + k], vectors[q * n + k]);
        vectors[p * n + k] = cos * x - sin * y;
        vectors[q * n + k] = sin * x + cos * y;
    }
}

fn vector(vectors: &[f64], n: usize, i: usize) -> Vec<f64> {
    let row = &vectors[i * n..(i + 1) * n];
    let largest = row.iter().copied().fold(0.0_f64, |best, x| if x.abs() > best.abs() { x } else { best });
    row.iter().map(|x| x * largest.signum()).collect()
}
