//! The products of a training step of `gpt-small` and `gpt-char`, in every orientation.

use crate::best;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use regard_tensor::Tensor;

/// Rows, columns and length of the sums, and which sides are transposed.
const PRODUCTS: &[(&str, [usize; 3], [bool; 2])] = &[
    ("forward, d 384 to 1536", [2048, 1536, 384], [false, false]),
    ("forward, d 1536 to 384", [2048, 384, 1536], [false, false]),
    ("gradient of x, d 384", [2048, 384, 1536], [false, true]),
    ("gradient of x, d 1536", [2048, 1536, 384], [false, true]),
    ("gradient of a weight", [384, 1536, 2048], [true, false]),
    ("forward, d 128 to 512", [768, 512, 128], [false, false]),
    ("gradient of x, d 128", [768, 128, 512], [false, true]),
    ("gradient of a small weight", [128, 512, 768], [true, false]),
    ("one row, d 768 to 3072", [1, 3072, 768], [false, false]),
];

pub fn table(count: usize) {
    println!("| product | m × n × k | | regard GFLOP/s | gemm | faer |");
    println!("|---|---|---|---:|---:|---:|");
    for &(name, shape @ [m, n, k], turned) in PRODUCTS {
        let flops = 2.0 * (m * n * k) as f64 / 1e9;
        let rates = [ours(shape, turned), gemm(shape, turned, count), faer(shape, turned, count)];
        let letter = |turned| if turned { 't' } else { 'n' };
        print!("| {name} | {m} × {n} × {k} | {}{} |", letter(turned[0]), letter(turned[1]));
        println!("{} |", rates.map(|seconds| format!(" {:.0}", flops / seconds)).join(" |"));
    }
    println!();
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i % 17) as f32 * 0.1 - 0.8).collect()
}

const TURN: f64 = 0.15;

fn ours([m, n, k]: [usize; 3], [left, right]: [bool; 2]) -> f64 {
    let matrix = |rows: usize, columns: usize, turned: bool| {
        let shape = if turned { [columns, rows] } else { [rows, columns] };
        Tensor::new(&numbers(rows * columns), shape).expect("a matrix")
    };
    let (a, b) = (matrix(m, k, left), matrix(k, n, right));
    best(TURN, || drop(a.matmul_transposed(&b, left, right).expect("a product")))
}

/// Distances between neighbours in a row and between rows.
fn strides(rows: usize, columns: usize, turned: bool) -> (isize, isize) {
    if turned { (rows as isize, 1) } else { (1, columns as isize) }
}

fn gemm([m, n, k]: [usize; 3], [left, right]: [bool; 2], count: usize) -> f64 {
    let (a, b, mut c) = (numbers(m * k), numbers(k * n), vec![0.0_f32; m * n]);
    let ((a_column, a_row), (b_column, b_row)) = (strides(m, k, left), strides(k, n, right));
    let parallelism = if count > 1 { gemm::Parallelism::Rayon(count) } else { gemm::Parallelism::None };
    best(TURN, || {
        // SAFETY: the vectors have the sizes that shapes and strides describe.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                c.as_mut_ptr(),
                1,
                n as isize,
                false,
                a.as_ptr(),
                a_column,
                a_row,
                b.as_ptr(),
                b_column,
                b_row,
                0.0,
                1.0,
                false,
                false,
                false,
                parallelism,
            );
        }
    })
}

fn faer([m, n, k]: [usize; 3], [left, right]: [bool; 2], count: usize) -> f64 {
    fn matrix(values: &[f32], rows: usize, columns: usize, turned: bool) -> MatRef<'_, f32> {
        if turned {
            MatRef::from_row_major_slice(values, columns, rows).transpose()
        } else {
            MatRef::from_row_major_slice(values, rows, columns)
        }
    }
    let (a, b, mut c) = (numbers(m * k), numbers(k * n), vec![0.0_f32; m * n]);
    let par = if count > 1 { Par::rayon(count) } else { Par::Seq };
    best(TURN, || {
        let out = MatMut::from_row_major_slice_mut(&mut c, m, n);
        matmul(out, Accum::Replace, matrix(&a, m, k, left), matrix(&b, k, n, right), 1.0, par);
    })
}
