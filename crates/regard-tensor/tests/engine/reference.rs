//! Slow f64 references of every operation, written directly from the formulas.

pub mod attention;
pub mod layers;
pub mod lstm;

use regard_tensor::Tensor;
use regard_tensor::ops::Function;

/// An n-dimensional array of `f64`, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    pub shape: Vec<usize>,
    pub values: Vec<f64>,
}

impl Array {
    pub fn new(values: Vec<f64>, shape: &[usize]) -> Self {
        assert_eq!(values.len(), shape.iter().product::<usize>());
        Self { shape: shape.to_vec(), values }
    }

    /// The exact values of a tensor: every f32 is an f64.
    pub fn of(tensor: &Tensor) -> Self {
        Self::new(tensor.values().iter().map(|&x| f64::from(x)).collect(), tensor.shape())
    }

    pub fn from_fn(shape: &[usize], mut f: impl FnMut(&[usize]) -> f64) -> Self {
        let mut index = vec![0; shape.len()];
        let mut values = Vec::new();
        for _ in 0..shape.iter().product() {
            values.push(f(&index));
            for (i, &length) in index.iter_mut().zip(shape).rev() {
                *i += 1;
                if *i < length {
                    break;
                }
                *i = 0;
            }
        }
        Self::new(values, shape)
    }

    pub fn at(&self, index: &[usize]) -> f64 {
        assert_eq!(index.len(), self.shape.len());
        let flat = index.iter().zip(&self.shape).fold(0, |flat, (&i, &length)| {
            assert!(i < length);
            flat * length + i
        });
        self.values[flat]
    }

    /// The value at an index of a larger shape that this array broadcasts to.
    pub fn broadcast_at(&self, index: &[usize]) -> f64 {
        let own: Vec<usize> = index[index.len() - self.shape.len()..]
            .iter()
            .zip(&self.shape)
            .map(|(&i, &length)| if length == 1 { 0 } else { i })
            .collect();
        self.at(&own)
    }

    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self::new(self.values.iter().map(|&x| f(x)).collect(), &self.shape)
    }

    /// The length of the last axis.
    pub fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Each row of the last axis through `f`.
    pub fn map_rows(&self, f: impl Fn(usize, &[f64]) -> Vec<f64>) -> Self {
        let rows = self.values.chunks(self.width().max(1)).enumerate();
        Self::new(rows.flat_map(|(i, row)| f(i, row)).collect(), &self.shape)
    }
}

/// f(a, b) for each pair, by NumPy's broadcasting.
pub fn broadcast(a: &Array, b: &Array, f: impl Fn(f64, f64) -> f64) -> Array {
    let rank = a.shape.len().max(b.shape.len());
    let length =
        |x: &Array, axis: usize| (axis + x.shape.len()).checked_sub(rank).map_or(1, |own| x.shape[own]);
    let shape: Vec<usize> = (0..rank)
        .map(|axis| match (length(a, axis), length(b, axis)) {
            (1, other) | (other, 1) => other,
            (a, b) => {
                assert_eq!(a, b);
                a
            }
        })
        .collect();
    Array::from_fn(&shape, |index| f(a.broadcast_at(index), b.broadcast_at(index)))
}

/// The shape without an axis, and an index with a position put back into it.
fn without(shape: &[usize], axis: usize) -> Vec<usize> {
    shape.iter().enumerate().filter(|&(i, _)| i != axis).map(|(_, &length)| length).collect()
}

fn with(index: &[usize], axis: usize, position: usize) -> Vec<usize> {
    let mut full = index.to_vec();
    full.insert(axis, position);
    full
}

pub fn sum(x: &Array, axis: usize) -> Array {
    Array::from_fn(&without(&x.shape, axis), |index| {
        (0..x.shape[axis]).map(|i| x.at(&with(index, axis, i))).sum()
    })
}

pub fn max(x: &Array, axis: usize) -> Array {
    Array::from_fn(&without(&x.shape, axis), |index| {
        (0..x.shape[axis]).map(|i| x.at(&with(index, axis, i))).fold(f64::NEG_INFINITY, f64::max)
    })
}

pub fn sum_all(x: &Array) -> Array {
    Array::new(vec![x.values.iter().sum()], &[])
}

pub fn permute(x: &Array, axes: &[usize]) -> Array {
    let shape: Vec<usize> = axes.iter().map(|&axis| x.shape[axis]).collect();
    Array::from_fn(&shape, |index| {
        let mut old = vec![0; axes.len()];
        for (&axis, &i) in axes.iter().zip(index) {
            old[axis] = i;
        }
        x.at(&old)
    })
}

pub fn slice(x: &Array, axis: usize, start: usize, length: usize) -> Array {
    let mut shape = x.shape.clone();
    shape[axis] = length;
    Array::from_fn(&shape, |index| {
        let mut old = index.to_vec();
        old[axis] += start;
        x.at(&old)
    })
}

pub fn reshape(x: &Array, shape: &[usize]) -> Array {
    Array::new(x.values.clone(), shape)
}

pub fn concatenate(parts: &[Array], axis: usize) -> Array {
    let mut shape = parts[0].shape.clone();
    shape[axis] = parts.iter().map(|part| part.shape[axis]).sum();
    Array::from_fn(&shape, |index| {
        let mut old = index.to_vec();
        for part in parts {
            if old[axis] < part.shape[axis] {
                return part.at(&old);
            }
            old[axis] -= part.shape[axis];
        }
        unreachable!("the parts cover the axis")
    })
}

/// op(a)·op(b) over the last two axes; a side without outer axes serves the whole batch.
pub fn matmul(a: &Array, b: &Array, transpose_a: bool, transpose_b: bool) -> Array {
    let sides = |x: &Array, transposed: bool| {
        let [.., rows, columns] = x.shape[..] else { panic!("two axes") };
        if transposed { (columns, rows) } else { (rows, columns) }
    };
    let ((m, k), (_, n)) = (sides(a, transpose_a), sides(b, transpose_b));
    let longer = if a.shape.len() >= b.shape.len() { a } else { b };
    let outer = &longer.shape[..longer.shape.len() - 2];
    let matrix = |x: &Array, number: usize, rows: usize, columns: usize, transposed: bool| {
        let start = if x.shape.len() > 2 { number * rows * columns } else { 0 };
        let values = x.values[start..start + rows * columns].to_vec();
        let whole = |shape: &[usize]| Array::new(values, shape);
        if transposed { permute(&whole(&[columns, rows]), &[1, 0]) } else { whole(&[rows, columns]) }
    };
    let mut values = Vec::new();
    for number in 0..outer.iter().product() {
        let rows = matrix(a, number, m, k, transpose_a).values;
        let columns = permute(&matrix(b, number, k, n, transpose_b), &[1, 0]).values;
        for (i, j) in (0..m * n).map(|index| (index / n, index % n)) {
            let pairs = rows[i * k..(i + 1) * k].iter().zip(&columns[j * k..(j + 1) * k]);
            values.push(pairs.map(|(a, b)| a * b).sum());
        }
    }
    Array::new(values, &[outer, &[m, n]].concat())
}

/// The error function by a series of positive terms, e^(−x²)·Σ 2ⁿx^(2n+1)/(2n+1)!!; 1 to the last bit beyond 6.
pub fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut total) = (x, x);
    for n in 1..300 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        total += term;
    }
    2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp() * total
}

pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub fn function(function: Function) -> fn(f64) -> f64 {
    match function {
        Function::Exp => f64::exp,
        Function::Ln => f64::ln,
        Function::Sqrt => f64::sqrt,
        Function::Tanh => f64::tanh,
        Function::Sigmoid => sigmoid,
        Function::Relu => |x| x.max(0.0),
        Function::Gelu => |x| 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
        Function::GeluTanh => {
            |x| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
        }
        Function::Silu => |x| x * sigmoid(x),
        Function::EluPlusOne => |x| if x > 0.0 { x + 1.0 } else { x.exp() },
    }
}

#[test]
fn erf_gives_known_values() {
    // Abramowitz & Stegun, table 7.1.
    for (x, want) in [(0.0, 0.0), (0.5, 0.5204998778), (1.0, 0.8427007929), (2.0, 0.9953222650)] {
        assert!((erf(x) - want).abs() < 1e-10 && (erf(-x) + want).abs() < 1e-10);
    }
}
