//! One head of attention, with numbers you can check by hand.
//!
//! Three words, each a vector of two numbers. Three matrices make a query, a key and a value of each. The example prints the
//! scores (how well each query matches each key), the weights (the softmax of each row of scores, which sums to 1), and the
//! output (each row's weighted mean of the values). Then the same with a causal mask. The report of the program `regard`
//! explains every step with these numbers.

#![allow(clippy::print_stdout)] // examples print their results

use regard_nn::attention::{Scale, scaled_dot_product};
use regard_nn::tensor::{Mask, Tensor};

const WORDS: [&str; 3] = ["time", "flies", "fast"];
/// The words' vectors, one row each.
const X: [f32; 6] = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0];
/// Doubles both numbers.
const W_QUERY: [f32; 4] = [2.0, 0.0, 0.0, 2.0];
/// Swaps the two numbers.
const W_KEY: [f32; 4] = [0.0, 1.0, 1.0, 0.0];
/// Changes the sign of the second number.
const W_VALUE: [f32; 4] = [1.0, 0.0, 0.0, -1.0];

fn main() -> regard_nn::Result<()> {
    let x = Tensor::new(&X, [3, 2])?;
    let query = x.matmul(&Tensor::new(&W_QUERY, [2, 2])?)?; // Q = x·W_Q
    let key = x.matmul(&Tensor::new(&W_KEY, [2, 2])?)?; // K = x·W_K
    let value = x.matmul(&Tensor::new(&W_VALUE, [2, 2])?)?; // V = x·W_V
    for (name, table) in [("queries, x·W_Q", &query), ("keys, x·W_K", &key), ("values, x·W_V", &value)] {
        show(name, table, &["first", "second"]);
    }

    let scores = query.matmul_transposed(&key, false, true)?; // Q·Kᵀ
    show("scores, Q·Kᵀ", &scores, &WORDS);
    show("over √2", &scores.scale(Scale::InverseRoot.factor(2))?, &WORDS);

    // "time" scores (0, 2, 2)/√2: e⁰ = 1 and e^√2 = 4.11, so its weights are 1/9.23 = 0.11 and 4.11/9.23 = 0.45.
    let (output, weights) = scaled_dot_product(&query, &key, &value, None, Scale::InverseRoot)?;
    show("weights: softmax of each row", &weights, &WORDS);
    show("output: weights·V", &output, &["first", "second"]);

    // A language model must not attend to later words: they get no weight, and the others share it.
    let earlier = Mask::from_fn([3, 3], |at| at[1] <= at[0]);
    let (output, weights) = scaled_dot_product(&query, &key, &value, Some(&earlier), Scale::InverseRoot)?;
    show("causal weights", &weights, &WORDS);
    show("output", &output, &["first", "second"]);
    Ok(())
}

/// Prints a table with a word before each row.
fn show(title: &str, table: &Tensor, columns: &[&str]) {
    let header: Vec<String> = columns.iter().map(|name| format!("{name:>8}")).collect();
    println!("\n{title}\n{:8}{}", "", header.concat());
    for (word, row) in WORDS.iter().zip(table.values().chunks(columns.len())) {
        let numbers: Vec<String> = row.iter().map(|value| format!("{value:8.2}")).collect();
        println!("{word:8}{}", numbers.concat());
    }
}
