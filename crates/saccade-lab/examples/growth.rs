//! How time and memory grow with the length of a text, and what looking costs: the tables of `records/growth.md`.
//!
//!     cargo run --release --example growth > records/growth.md
//!
//! Memory is the most that the process held at one time beyond what it held before, as Linux counts it (`VmHWM`); inputs and,
//! where it says so, the output are not counted. Times are medians. Nothing else should run meanwhile.

#![allow(clippy::print_stdout)] // the record is what this prints

use anyhow::Result;
use saccade::attention::{How, Pattern, Rules, Weigh, attend};
use saccade::models::{Gpt, GptConfig};
use saccade::tensor::ops::{Attention, Projections};
use saccade::tensor::optimiser::{Method, Optimiser};
use saccade::tensor::random::Key;
use saccade::tensor::{Ids, Pass, Tensor, ops, pool};
use saccade::{Context, Probe, train};
use std::time::Instant;

const WIDTH: usize = 64;

fn main() -> Result<()> {
    println!("# How time and memory grow\n");
    println!(
        "`cargo run --release --example growth`, {}. {}\n",
        machine(),
        "Megabytes are millions of bytes."
    );
    long_forward()?;
    training_pass()?;
    patterns()?;
    steps()?;
    idle_probe()
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("", |(_, name)| name);
    format!("{} threads, {name}", saccade::tensor::threads())
}

/// Megabytes from a line of the process's status.
fn status(field: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) * 1024.0 / 1e6
}

/// The megabytes that work takes at its peak beyond what is held before it.
fn extra<T>(work: impl FnOnce() -> Result<T>) -> Result<f64> {
    pool::trim();
    // Starts counting the peak anew; where the system refuses, the number is too large, not too small.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = status("VmRSS");
    drop(work()?);
    Ok(status("VmHWM") - before)
}

/// The median time in milliseconds.
fn time<T>(repeats: usize, mut work: impl FnMut() -> Result<T>) -> Result<f64> {
    drop(work()?);
    let mut times = Vec::new();
    for _ in 0..repeats {
        let begun = Instant::now();
        drop(work()?);
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Query, key and value (1, time, heads, width).
fn projections(length: usize, heads: usize) -> Result<[Tensor; 3]> {
    let draw = |name: &str| {
        Tensor::new(&Key::new(1).site(name).normal(length * heads * WIDTH, 1.0), [1, length, heads, WIDTH])
    };
    Ok([draw("query")?, draw("key")?, draw("value")?])
}

/// The exponent with which the last value has grown since the first, the length having grown so many times.
fn exponent(values: &[f64], times: usize) -> f64 {
    match values {
        [first, .., last] => (last / first).ln() / (times as f64).ln(),
        _ => f64::NAN,
    }
}

fn long_forward() -> Result<()> {
    println!("## Attention forward over 32,768 tokens, one head of 64\n");
    println!(
        "Beyond inputs and output; asked for: under 100 MB. Written out, the weights alone would take 4,295 MB.\n"
    );
    println!("| | MB | seconds |\n|---|---|---|");
    let [query, key, value] = projections(32_768, 1)?;
    let output = (32_768 * WIDTH * 4) as f64 / 1e6;
    for causal in [false, true] {
        let mut rules = Attention::scaled(1.0 / (WIDTH as f32).sqrt());
        rules.allowed.causal = causal;
        let pass = || {
            Ok(ops::attend(Projections::Separate { query: &query, key: &key, value: &value }, &rules)?.output)
        };
        let megabytes = extra(pass)? - output;
        let seconds = time(1, pass)? / 1e3;
        println!("| {} | {megabytes:.1} | {seconds:.2} |", if causal { "causal" } else { "full" });
    }
    println!();
    Ok(())
}

fn training_pass() -> Result<()> {
    println!("## Attention forward and backward, 8 heads of 64, full\n");
    println!("Beyond inputs; the output, the upstream gradient and the three gradients are counted.\n");
    println!("| tokens | MB | ms |\n|---|---|---|");
    let (mut memories, mut times) = (Vec::new(), Vec::new());
    for length in [1024, 2048, 4096, 8192] {
        let [query, key, value] = projections(length, 8)?.map(|part| part.tracked());
        let rules = Attention::scaled(1.0 / (WIDTH as f32).sqrt());
        let pass = || {
            let attended =
                ops::attend(Projections::Separate { query: &query, key: &key, value: &value }, &rules)?;
            let upstream = attended.output.detach();
            Ok(attended.output.gradients(&Pass::new().from_upstream(upstream))?)
        };
        memories.push(extra(pass)?);
        times.push(time(1, pass)?);
        println!("| {length} | {:.1} | {:.0} |", memories[memories.len() - 1], times[times.len() - 1]);
    }
    println!("| **exponent** | **{:.2}** | {:.2} |\n", exponent(&memories, 8), exponent(&times, 8));
    Ok(())
}

fn patterns() -> Result<()> {
    const LENGTHS: [usize; 4] = [2048, 4096, 8192, 16_384];
    println!("## Sparse patterns, forward, 2 heads of 64\n");
    println!("Finding out who may attend to whom is part of the time. Memory is beyond the inputs.\n");
    print!("| pattern |");
    LENGTHS.iter().for_each(|length| print!(" {length}: ms | MB |"));
    println!(" exponent of time | of memory |\n|---|{}", "---|".repeat(2 * LENGTHS.len() + 2));
    let window = Pattern::Window { before: 128, after: 128 };
    let forms = [
        ("full", Pattern::Full, Weigh::Softmax),
        ("window of 128 to each side", window.clone(), Weigh::Softmax),
        ("causal window of 128", window.causal(), Weigh::Softmax),
        ("Longformer: window of 128, one global token", Pattern::longformer(128, vec![0]), Weigh::Softmax),
        ("Big Bird: the same and 2 random blocks", Pattern::big_bird(128, vec![0], 2, 0), Weigh::Softmax),
        ("linear attention", Pattern::Full, Weigh::Linear),
        ("linear attention, causal", Pattern::Causal, Weigh::Linear),
    ];
    for (name, pattern, weigh) in forms {
        let (mut memories, mut times) = (Vec::new(), Vec::new());
        for length in LENGTHS {
            let [query, key, value] = projections(length, 2)?;
            let how = How { weigh: weigh.clone(), ..How::default() };
            let pass = || {
                let rules = Rules::new(pattern.clone(), length, length)?;
                let projections = Projections::Separate { query: &query, key: &key, value: &value };
                Ok(attend(&Context::inference(), projections, &how, &rules)?)
            };
            memories.push(extra(pass)?);
            times.push(time(5, pass)?);
        }
        print!("| {name} |");
        times.iter().zip(&memories).for_each(|(time, memory)| print!(" {time:.1} | {memory:.1} |"));
        println!(" {:.2} | {:.2} |", exponent(&times, 8), exponent(&memories, 8));
    }
    println!();
    Ok(())
}

fn ids(name: &str, shape: [usize; 2], limit: usize) -> Result<Ids> {
    let key = Key::new(1).site(name);
    let ids: Vec<u32> = (0..shape[0] * shape[1]).map(|i| key.below(0, i as u64, limit) as u32).collect();
    Ok(Ids::new(&ids, shape)?)
}

fn small_gpt() -> Result<Gpt> {
    let config = GptConfig {
        vocabulary: 1000,
        context: 128,
        n_layers: 4,
        n_heads: 4,
        d_model: 128,
        dropout: 0.1,
        ..GptConfig::default()
    };
    Ok(Gpt::new(config, 1)?)
}

fn steps() -> Result<()> {
    println!("## Training: resident memory by step\n");
    println!(
        "A GPT of 4 layers, d 128, 1,000 words, T 128, B 16, dropout 0.1, AdamW. Asked for: flat after the fifth step.\n"
    );
    println!("| step | MB |\n|---|---|");
    let mut model = small_gpt()?;
    let method = Method::Adam { betas: (0.9, 0.95), epsilon: 1e-8, decoupled: true };
    let mut optimiser = Optimiser::new(method, 0.1);
    for step in 1..=400_u64 {
        let name = step.to_string();
        let (read, next) = (ids(&name, [16, 128], 1000)?, ids(&format!("{name}, next"), [16, 128], 1000)?);
        let context = Context::training(Key::new(2).site(&name), 0);
        let loss = model.loss(&context, &read, &next)?;
        train::update(&mut model, &loss, &mut optimiser, 1e-3, Some(1.0))?;
        drop(loss);
        if [1, 2, 5, 10, 50, 100, 200, 400].contains(&step) {
            println!("| {step} | {:.1} |", status("VmRSS"));
        }
    }
    println!();
    Ok(())
}

fn idle_probe() -> Result<()> {
    println!("## A probe that nobody uses, and one that records all weights\n");
    println!("Forward passes of the same GPT, in turns; medians of 300.\n");
    println!("| | ms | against none |\n|---|---|---|");
    let (model, read) = (small_gpt()?, ids("read", [16, 128], 1000)?);
    let mut times = [const { Vec::new() }; 3];
    for round in 0..310 {
        for (which, times) in times.iter_mut().enumerate() {
            let probe = if which == 2 { Probe::new().record("layers.*.self.weights") } else { Probe::new() };
            let context = Context::inference();
            let context = if which == 0 { context } else { context.with_probe(&probe) };
            let begun = Instant::now();
            drop(model.forward(&context, &read, None)?);
            // The first rounds fill caches.
            if round >= 10 {
                times.push(begun.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    let medians = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    for (name, median) in ["no probe", "idle probe", "all weights recorded"].iter().zip(medians) {
        println!("| {name} | {median:.3} | {:.3} |", median / medians[0]);
    }
    Ok(())
}
