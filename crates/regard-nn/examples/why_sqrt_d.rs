//! Why scores are divided by √d.
//!
//! Queries and keys are random with variance 1: a dot product of width d is a sum of d terms, so its standard deviation is
//! √d. The softmax of such widely spread scores gives nearly all weight to one key, and the gradient of a typical query's scores
//! vanishes. Divided by √d, scores have standard deviation 1 at any width. For each width the example prints, with and without
//! the division, the standard deviation of the scores and the mean of each query's largest weight among 64 keys; then, of the
//! gradient of the queries, the norm of the median query and of the mean query, and the share of queries below 0.01.
//!
//! Mean and median tell different stories: the gradient of a query is that of its scores times the keys, which are √d long. Unscaled, most
//! queries get next to nothing, while the few whose softmax is undecided get ever more.

#![allow(clippy::print_stdout)] // examples print their results

use regard_nn::attention::{Scale, scaled_dot_product};
use regard_nn::tensor::Tensor;
use regard_nn::tensor::random::Key;

const KEYS: usize = 64;
const QUERIES: usize = 256;
/// A query whose gradient is shorter than this learns next to nothing.
const VANISHED: f32 = 0.01;

fn main() -> regard_nn::Result<()> {
    let titles = ["deviation of scores", "largest weight", "median gradient", "mean gradient", "below 0.01"];
    println!("         {}", titles.map(|title| format!("{title:>22}")).concat());
    println!("    width{}", ["      plain     over √d"; 5].concat());
    for width in [1, 4, 16, 64, 256, 1024] {
        let draw = |name: &str, rows: usize, width: usize| {
            Tensor::new(&Key::new(1).site(name).normal(rows * width, 1.0), [rows, width])
        };
        let (query, key) = (draw("query", QUERIES, width)?.tracked(), draw("key", KEYS, width)?);
        let value = draw("value", KEYS, 8)?;
        let mut columns = Vec::new();
        for scale in [Scale::None, Scale::InverseRoot] {
            let (output, weights) = scaled_dot_product(&query, &key, &value, None, scale)?;
            let scores = query.detach().matmul_transposed(&key, false, true)?.scale(scale.factor(width))?;
            let gradient = output.sum_all()?.backward()?.get(&query).expect("it depends on the queries");
            let lengths = lengths(&gradient, width);
            let mean = lengths.iter().sum::<f32>() / lengths.len() as f32;
            let below = lengths.iter().filter(|length| **length < VANISHED).count() as f32;
            let largest = weights.max(1)?.0.mean_all()?.item()?;
            columns.push([deviation(&scores), largest, lengths[QUERIES / 2], mean, below / QUERIES as f32]);
        }
        let pair = |i: usize| format!("{:11.3}{:11.3}", columns[0][i], columns[1][i]);
        println!("{width:9}{}", [0, 1, 2, 3, 4].map(pair).concat());
    }
    println!(
        "\nUnscaled scores grow as √d, and their softmax puts nearly all weight on one key. The median query's gradient vanishes; the mean \
         does not, because the few queries that are undecided get more."
    );
    Ok(())
}

/// The lengths of the rows, the shortest first.
fn lengths(rows: &Tensor, width: usize) -> Vec<f32> {
    let length = |row: &[f32]| row.iter().map(|value| value * value).sum::<f32>().sqrt();
    let mut lengths: Vec<f32> = rows.values().chunks(width).map(length).collect();
    lengths.sort_by(f32::total_cmp);
    lengths
}

fn deviation(x: &Tensor) -> f32 {
    let mean = x.values().iter().sum::<f32>() / x.count() as f32;
    (x.values().iter().map(|value| (value - mean).powi(2)).sum::<f32>() / x.count() as f32).sqrt()
}
