//! What a pass over a tiny model costs in the library, for `bench/python_overhead.py` to be compared with.

#![allow(clippy::print_stdout)] // an example is there to print

use regard_nn::models::{GptConfig, Inputs, Model, Transformer};
use regard_nn::tensor::Ids;
use regard_nn::{Context, Probe, Result};
use std::time::Instant;

const ROUNDS: usize = 15;
const CALLS: u32 = 400;

fn main() -> Result<()> {
    let sizes =
        GptConfig { vocabulary: 11, context: 8, n_layers: 1, n_heads: 2, d_model: 8, ..GptConfig::default() };
    let gpt = Transformer::new(sizes.form(), 0)?;
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for _ in 0..CALLS {
            let probe = Probe::new().record("layers.0.self.weights");
            let inputs = Inputs::ids(&Ids::new(&[3, 1, 4, 1], [1, 4])?);
            gpt.hidden(&Context::inference().with_probe(&probe), &inputs)?;
        }
        rounds.push(started.elapsed().as_secs_f64() / f64::from(CALLS) * 1e6);
    }
    rounds.sort_by(f64::total_cmp);
    println!("{:.1} µs a pass", rounds[ROUNDS / 2]);
    Ok(())
}
