//! Eigenvalues and eigenvectors of a symmetric matrix.
//!
//! Householder reflections (1958) make it tridiagonal, T = Q·A·Qᵀ; then QR steps with Wilkinson's shifts make it diagonal
//! (Golub & Van Loan, 2013, section 8.3). All inner loops run along rows.

/// Eigenvalues in descending order, each with its unit eigenvector, whose largest component is positive.
///
/// The matrix is `n` × `n`, symmetric and row-major.
pub fn symmetric(mut matrix: Vec<f64>, n: usize) -> Vec<(f64, Vec<f64>)> {
    let mut vectors: Vec<Vec<f64>> =
        (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    for column in 0..n.saturating_sub(2) {
        reflect(&mut matrix, &mut vectors, n, column);
    }
    let diagonal = (0..n).map(|i| matrix[i * n + i]).collect();
    let beside = (1..n).map(|i| matrix[i * n + i - 1]).collect();
    let mut tridiagonal = Tridiagonal { diagonal, beside, vectors };
    tridiagonal.solve();
    let Tridiagonal { diagonal, vectors, .. } = tridiagonal;
    let mut pairs: Vec<(f64, Vec<f64>)> = diagonal.into_iter().zip(vectors.into_iter().map(turned)).collect();
    pairs.sort_by(|x, y| y.0.total_cmp(&x.0));
    pairs
}

/// Householder reflection that zeroes a column more than one entry below the diagonal.
fn reflect(a: &mut [f64], vectors: &mut [Vec<f64>], n: usize, column: usize) {
    let first = column + 1;
    let mut v: Vec<f64> = (first..n).map(|row| a[row * n + column]).collect();
    let length = dot(&v, &v).sqrt();
    if v[1..].iter().all(|&x| x == 0.0) {
        return;
    }
    // The sign avoids cancellation.
    v[0] += length.copysign(v[0]);
    let norm = dot(&v, &v).sqrt();
    for x in &mut v {
        *x /= norm;
    }
    // A − 2(v·wᵀ + w·vᵀ) with w = A·v − (vᵀ·A·v)·v, on the rows and columns from `first`.
    let product: Vec<f64> = (first..n).map(|row| dot(&a[row * n + first..(row + 1) * n], &v)).collect();
    let inner = dot(&product, &v);
    let w: Vec<f64> = product.iter().zip(&v).map(|(p, v)| p - inner * v).collect();
    for (i, row) in (first..n).enumerate() {
        let cells = a[row * n + first..(row + 1) * n].iter_mut();
        cells.zip(&v).zip(&w).for_each(|((cell, vj), wj)| *cell -= 2.0 * (v[i] * wj + w[i] * vj));
    }
    let beside = -length.copysign(a[first * n + column]);
    for row in first..n {
        let value = if row == first { beside } else { 0.0 };
        a[row * n + column] = value;
        a[column * n + row] = value;
    }
    let mut mixed = vec![0.0; n];
    for (row, x) in vectors[first..].iter().zip(&v) {
        mixed.iter_mut().zip(row).for_each(|(sum, y)| *sum += x * y);
    }
    for (row, x) in vectors[first..].iter_mut().zip(&v) {
        row.iter_mut().zip(&mixed).for_each(|(y, sum)| *y -= 2.0 * x * sum);
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// A symmetric tridiagonal matrix, and the basis it is written in.
struct Tridiagonal {
    diagonal: Vec<f64>,
    beside: Vec<f64>,
    vectors: Vec<Vec<f64>>,
}

impl Tridiagonal {
    /// Diagonalises the matrix. A few sweeps per eigenvalue suffice; the limit guards against NaN.
    fn solve(&mut self) {
        let size = self.diagonal.iter().chain(&self.beside).map(|x| x.abs()).fold(0.0, f64::max);
        let mut last = self.diagonal.len().saturating_sub(1);
        for _ in 0..64 * (last + 1) {
            while last > 0 && self.negligible(last - 1, size) {
                last -= 1;
            }
            if last == 0 {
                return;
            }
            let first = (0..last).rev().take_while(|&i| !self.negligible(i, size)).last().unwrap_or(last - 1);
            self.sweep(first, last);
        }
    }

    fn negligible(&self, i: usize, size: f64) -> bool {
        let near = self.diagonal[i].abs() + self.diagonal[i + 1].abs();
        self.beside[i].abs() <= f64::EPSILON * (near + f64::EPSILON * size)
    }

    /// One step of the shifted QR method on a part of the matrix.
    fn sweep(&mut self, first: usize, last: usize) {
        let (low, corner) = (self.diagonal[last], self.beside[last - 1]);
        let half = (self.diagonal[last - 1] - low) / 2.0;
        let shift = low - corner * corner / (half + half.hypot(corner).copysign(half));
        let (mut x, mut z) = (self.diagonal[first] - shift, self.beside[first]);
        for k in first..last {
            let r = x.hypot(z);
            let (cos, sin) = if r == 0.0 { (1.0, 0.0) } else { (x / r, z / r) };
            if k > first {
                self.beside[k - 1] = r;
            }
            let (a, b, d) = (self.diagonal[k], self.beside[k], self.diagonal[k + 1]);
            self.diagonal[k] = cos * cos * a + 2.0 * cos * sin * b + sin * sin * d;
            self.diagonal[k + 1] = sin * sin * a - 2.0 * cos * sin * b + cos * cos * d;
            self.beside[k] = cos * sin * (d - a) + (cos * cos - sin * sin) * b;
            if k + 1 < last {
                x = self.beside[k];
                z = sin * self.beside[k + 1];
                self.beside[k + 1] *= cos;
            }
            let (upper, lower) = self.vectors.split_at_mut(k + 1);
            for (x, y) in upper[k].iter_mut().zip(&mut lower[0]) {
                (*x, *y) = (cos * *x + sin * *y, cos * *y - sin * *x);
            }
        }
    }
}

/// The vector or its opposite, so that its largest component is positive.
fn turned(mut vector: Vec<f64>) -> Vec<f64> {
    let largest = vector.iter().copied().fold(0.0_f64, |best, x| if x.abs() > best.abs() { x } else { best });
    for x in &mut vector {
        *x *= largest.signum();
    }
    vector
}
