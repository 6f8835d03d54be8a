//! Why scores are divided by √d.
//!
//! Queries and keys of random numbers with variance 1: a dot product of width d is a sum of d terms, so its standard
//! deviation is √d. A softmax of such wide scores gives nearly all weight to one key, and then it hardly has a gradient:
//! nothing can be learned any more. Divided by √d, scores have deviation 1 at any width. What is printed, for each width:
//! the deviation of the scores, the mean of each query's largest weight among 64 keys, and the length of the gradient that
//! reaches the scores of a query (the median over queries), with and without the division.

#![allow(clippy::print_stdout)] // an example is there to print

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
            // The same once more from the scores on, so that the gradient can be taken at them.
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
        "\nPlain scores grow as √d. Their softmax ends up with nearly all weight on one key, and no gradient."
    );
    Ok(())
}

/// The length of the row in the middle, by length.
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
