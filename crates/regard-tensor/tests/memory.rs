//! Memory use of attention and training. These tests have their own binary because the pool counts per process.

use regard_tensor::ops::{Attention, Layout, Projections, attend};
use regard_tensor::optimiser::{Method, Optimiser, Update};
use regard_tensor::random::Key;
use regard_tensor::{Pass, Result, Tensor, pool, set_threads};

const MB: usize = 1 << 20;

fn random(name: &str, shape: [usize; 4]) -> Result<Tensor> {
    Tensor::new(&Key::new(1).site(name).normal(shape.iter().product(), 1.0), shape)
}

/// The peak memory use while `work` runs, beyond the memory in use before.
fn extra<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, usize)> {
    pool::trim();
    let before = pool::usage().used;
    let value = work()?;
    Ok((value, pool::usage().peak - before))
}

/// Forward and backward with 8 heads of 64; returns the memory beyond inputs.
fn train(time: usize) -> Result<usize> {
    let shape = [1, time, 8, 64];
    let (query, key, value) =
        (random("q", shape)?.tracked(), random("k", shape)?.tracked(), random("v", shape)?.tracked());
    let upstream = random("upstream", shape)?;
    let rules = Attention::scaled(0.125).causal();
    let (_, extra) = extra(|| {
        let attended = attend(Projections::Separate { query: &query, key: &key, value: &value }, &rules)?;
        attended.output.gradients(&Pass::new().from_upstream(upstream))
    })?;
    Ok(extra)
}

#[test]
fn memory_is_linear_in_length_and_flat_in_training() -> Result<()> {
    // The weights of one head at 32,768 tokens would take 4 GiB.
    let shape = [1, 32_768, 1, 64];
    let (query, key, value) = (random("q", shape)?, random("k", shape)?, random("v", shape)?);
    let output_bytes = query.count() * 4;
    let rules = Attention::scaled(0.125).causal();
    let (_, extra) =
        extra(|| attend(Projections::Separate { query: &query, key: &key, value: &value }, &rules))?;
    assert!(extra - output_bytes < 100 * MB, "{} MB beyond inputs and output", (extra - output_bytes) / MB);
    drop((query, key, value));

    // On one thread, since how many heads are at work at the same moment is left to chance.
    set_threads(1);
    let (short, long) = (train(512)?, train(2048)?);
    set_threads(usize::MAX);
    let growth = long as f64 / short as f64;
    assert!(growth < 4.5, "four times the length took {growth:.2} times the memory");
    // On any number of threads: output, three gradients, and for each head at work copies of its keys and values and their
    // gradients.
    let (array, most) = (2048 * 8 * 64 * 4, train(2048)?);
    assert!(most < 9 * array, "{:.2} arrays beyond inputs", most as f64 / array as f64);

    // A small network: after a few steps nothing new is allocated.
    let x = Tensor::new(&Key::new(2).normal(64 * 32, 1.0), [64, 32])?;
    let mut weight = Tensor::new(&Key::new(3).normal(32 * 32, 0.1), [32, 32])?.tracked();
    let mut optimiser = Optimiser::new(Method::adamw(), 0.01);
    let mut held = Vec::new();
    pool::trim();
    for _ in 0..30 {
        let y = x.linear(&weight, None, Layout::InOut, None)?.gelu()?;
        let gradients = (&y * &y)?.mean_all()?.backward()?;
        let gradient = gradients.find(&weight);
        optimiser.step(&mut [Update { gradient, parameter: &mut weight, decays: true }], 1e-3, 1.0)?;
        drop(gradients);
        let usage = pool::usage();
        held.push(usage.used + usage.waiting);
    }
    assert!(held[5..].iter().all(|&bytes| bytes == held[5]), "{held:?}");
    Ok(())
}
