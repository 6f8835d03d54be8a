//! Why scores are divided by √d.
//!
//! Queries and keys are random with variance 1: a dot product of width d is a sum of d terms, so its standard deviation is
//! √d. The softmax of such widely spread scores gives nearly all weight to one key and has almost no gradient, so nothing
//! can be learned. Divided by √d, scores have standard deviation 1 at any width. For each width the example prints the
//! standard deviation of the scores, the mean of each query's largest weight among 64 keys, and the norm of the gradient of
//! a query's scores (the median over queries), with and without the division.

#![allow(clippy::print_stdout)] // examples print their results

use regard_nn::attention::{Scale, scaled_dot_product};
use regard_nn::tensor::Tensor;
use regard_nn::tensor::random::Key;

const KEYS: usize = 64;
const QUERIES: usize = 256;

fn main() -> regard_nn::Result<()> {
    println!("             deviation of scores      largest weight           gradient of a query's scores");
    println!("    width      plain     over √d      plain     over √d      plain     over √d");
    for width in [1, 4, 16, 64, 256, 1024] {
        let draw = |name: &str, rows: usize, width: usize| {
            Tensor::new(&Key::new(1).site(name).normal(rows * width, 1.0), [rows, width])
        };
        let (query, key) = (draw("query", QUERIES, width)?, draw("key", KEYS, width)?);
        let value = draw("value", KEYS, 8)?;
        let mut columns = Vec::new();
        for scale in [Scale::None, Scale::InverseRoot] {
            let (_, weights) = scaled_dot_product(&query, &key, &value, None, scale)?;
            // The same from the scores on, to differentiate with respect to them.
            let scores = query.matmul_transposed(&key, false, true)?.scale(scale.factor(width))?.tracked();
            let output = scores.softmax()?.matmul(&value)?;
            let gradient = output.sum_all()?.backward()?.get(&scores).expect("it depends on the scores");
            let largest = weights.max(1)?.0.mean_all()?.item()?;
            columns.push([deviation(&scores), largest, median_length(&gradient)]);
        }
        let pair = |i: usize| format!("{:11.3}{:11.3}", columns[0][i], columns[1][i]);
        println!("{width:9}{}", [0, 1, 2].map(pair).concat());
    }
    println!(
        "\nUnscaled scores grow as √d. Their softmax puts nearly all weight on one key and has almost no gradient."
    );
    Ok(())
}

/// The median norm of the rows.
fn median_length(rows: &Tensor) -> f32 {
    let length = |row: &[f32]| row.iter().map(|value| value * value).sum::<f32>().sqrt();
    let mut lengths: Vec<f32> = rows.values().chunks(KEYS).map(length).collect();
    lengths.sort_by(f32::total_cmp);
    lengths[lengths.len() / 2]
}

fn deviation(x: &Tensor) -> f32 {
    let mean = x.values().iter().sum::<f32>() / x.count() as f32;
    (x.values().iter().map(|value| (value - mean).powi(2)).sum::<f32>() / x.count() as f32).sqrt()
}
