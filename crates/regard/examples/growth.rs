//! How time and memory grow with the length of a text, and what looking costs: `records/growth.md`.
//!
//!     cargo run --release --example growth > records/growth.md
//!
//! Memory is the most that a process of its own held at one time beyond what it held before the pass, as Linux counts it
//! (`VmHWM`): inputs are not counted, outputs are. Times are medians. Nothing else should run meanwhile.

#![allow(clippy::print_stdout)] // the record is what this prints

use anyhow::{Context as _, Result};
use regard_nn::attention::{How, Pattern, Rules, Weigh, attend};
use regard_nn::models::{GptConfig, Inputs, Model, Transformer};
use regard_nn::tensor::ops::{CrossEntropy, Projections};
use regard_nn::tensor::optimiser::{Method, Optimiser};
use regard_nn::tensor::random::Key;
use regard_nn::tensor::{Ids, Pass, Tensor};
use regard_nn::{Context, Probe, train};
use std::process::Command;
use std::time::Instant;

const WIDTH: usize = 64;
/// Asks for the table of resident memory by step.
const STEPS: &str = "steps";

/// Attention of one form, over texts of some lengths.
struct Case {
    name: &'static str,
    pattern: Pattern,
    weigh: Weigh,
    heads: usize,
    backward: bool,
    lengths: &'static [usize],
}

fn cases() -> Vec<Case> {
    const LONG: &[usize] = &[32_768];
    const TRAINED: &[usize] = &[1024, 2048, 4096, 8192];
    const SPARSE: &[usize] = &[2048, 4096, 8192, 16_384];
    let case = |name, pattern, heads, lengths| Case {
        name,
        pattern,
        weigh: Weigh::Softmax,
        heads,
        backward: false,
        lengths,
    };
    let window = Pattern::Window { before: 128, after: 128 };
    let linear = |name, pattern| Case { weigh: Weigh::Linear, ..case(name, pattern, 2, SPARSE) };
    vec![
        case("full, 1 head", Pattern::Full, 1, LONG),
        case("causal, 1 head", Pattern::Causal, 1, LONG),
        Case { backward: true, ..case("full, 8 heads, forward and backward", Pattern::Full, 8, TRAINED) },
        case("full, 2 heads", Pattern::Full, 2, SPARSE),
        case("window of 128 to each side, 2 heads", window.clone(), 2, SPARSE),
        case("causal window of 128, 2 heads", window.causal(), 2, SPARSE),
        case("Longformer (window, a global token), 2 heads", Pattern::longformer(128, vec![0]), 2, SPARSE),
        case(
            "Big Bird (the same, 2 random blocks), 2 heads",
            Pattern::big_bird(128, vec![0], 2, 0),
            2,
            SPARSE,
        ),
        linear("linear, 2 heads", Pattern::Full),
        linear("linear, causal, 2 heads", Pattern::Causal),
    ]
}

impl Case {
    /// One pass, forward or also backward. Finding out who may attend to whom is part of it.
    fn pass(&self, [query, key, value]: &[Tensor; 3]) -> Result<()> {
        let length = query.shape()[1];
        let rules = Rules::new(self.pattern.clone(), length, length)?;
        let how = How { weigh: self.weigh.clone(), ..How::default() };
        let output =
            attend(&Context::inference(), Projections::Separate { query, key, value }, &how, &rules)?;
        if self.backward {
            let upstream = output.detach();
            output.gradients(&Pass::new().from_upstream(upstream))?;
        }
        Ok(())
    }

    /// The median time in milliseconds and the memory in megabytes, in this process.
    fn measure(&self, length: usize) -> Result<(f64, f64)> {
        let shape = [1, length, self.heads, WIDTH];
        let draw = |name| Tensor::new(&Key::new(1).site(name).normal(shape.iter().product(), 1.0), shape);
        let mut parts = [draw("query")?, draw("key")?, draw("value")?];
        if self.backward {
            parts = parts.map(|part| part.tracked());
        }
        let before = status("VmRSS");
        self.pass(&parts)?;
        let megabytes = status("VmHWM") - before;
        let mut times = Vec::new();
        for _ in 0..if length > 10_000 { 3 } else { 9 } {
            let begun = Instant::now();
            self.pass(&parts)?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok((times[times.len() / 2], megabytes))
    }

    /// The same in a process of its own: nothing is left there of other cases.
    fn measure_apart(&self, length: usize) -> Result<(f64, f64)> {
        let printed = this_program(&[self.name, &length.to_string()])?;
        let (milliseconds, megabytes) = printed.trim().split_once(' ').context("no measurement came back")?;
        Ok((milliseconds.parse()?, megabytes.parse()?))
    }
}

/// What this program prints when it is called with some arguments.
fn this_program(arguments: &[&str]) -> Result<String> {
    let done = Command::new(std::env::current_exe()?).args(arguments).output()?;
    anyhow::ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Ok(String::from_utf8(done.stdout)?)
}

fn main() -> Result<()> {
    match &std::env::args().skip(1).collect::<Vec<_>>()[..] {
        [] => record(),
        [steps] if steps == STEPS => training_steps(),
        [name, length] => {
            let case = cases().into_iter().find(|case| case.name == name).context("there is no such case")?;
            let (milliseconds, megabytes) = case.measure(length.parse()?)?;
            println!("{milliseconds} {megabytes}");
            Ok(())
        }
        _ => anyhow::bail!("this program takes no arguments"),
    }
}

fn record() -> Result<()> {
    println!("# How time and memory grow\n");
    println!("`cargo run --release --example growth`, {}. Megabytes are millions of bytes.\n", machine());
    println!("## Attention over heads of 64\n");
    println!(
        "Memory is beyond the inputs; the output counts, and backwards the three gradients. Finding out who may attend"
    );
    println!(
        "to whom is part of the time. Exponents compare the longest text with the shortest. Aim: under 100 MB beyond"
    );
    println!(
        "inputs and output at 32,768 tokens (whose output is 8.4 MB; the weights, written out, would take 4,295 MB), and"
    );
    println!("memory that grows linearly.\n");
    println!("| attention | tokens | ms | MB |\n|---|---|---|---|");
    for case in cases() {
        let mut found = Vec::new();
        for &length in case.lengths {
            let (milliseconds, megabytes) = case.measure_apart(length)?;
            println!("| {} | {length} | {milliseconds:.1} | {megabytes:.1} |", case.name);
            found.push((milliseconds, megabytes));
        }
        if let [first, .., last] = found[..] {
            let grown = (case.lengths[case.lengths.len() - 1] / case.lengths[0]) as f64;
            let exponent = |first: f64, last: f64| (last / first).ln() / grown.ln();
            let (time, memory) = (exponent(first.0, last.0), exponent(first.1, last.1));
            println!("| | exponent | **{time:.2}** | **{memory:.2}** |");
        }
    }
    println!("\n{}", this_program(&[STEPS])?);
    idle_probe()
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    format!(
        "{} threads, {}",
        regard_nn::tensor::threads(),
        name.map_or("unknown processor", |(_, name)| name)
    )
}

/// Megabytes from a line of the process's status.
fn status(field: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) * 1024.0 / 1e6
}

fn ids(name: &str, shape: [usize; 2], limit: usize) -> Result<Ids> {
    let key = Key::new(1).site(name);
    let ids: Vec<u32> = (0..shape[0] * shape[1]).map(|i| key.below(0, i as u64, limit) as u32).collect();
    Ok(Ids::new(&ids, shape)?)
}

fn small_gpt() -> Result<Transformer> {
    let sizes = GptConfig { vocabulary: 1000, context: 128, n_layers: 4, ..GptConfig::default() };
    Ok(Transformer::new(GptConfig { n_heads: 4, d_model: 128, dropout: 0.1, ..sizes }.form(), 1)?)
}

fn training_steps() -> Result<()> {
    println!("## Training: resident memory by step\n");
    println!(
        "A GPT of 4 layers, d 128, 1,000 words, T 128, B 16, dropout 0.1, AdamW, clipped. Aim: flat after the fifth step.\n"
    );
    println!("| step | MB |\n|---|---|");
    let mut model = small_gpt()?;
    let mut optimiser =
        Optimiser::new(Method::Adam { betas: (0.9, 0.95), epsilon: 1e-8, decoupled: true }, 0.1);
    for step in 1..=400_u64 {
        let name = step.to_string();
        let (read, next) = (ids(&name, [16, 128], 1000)?, ids(&format!("{name}, next"), [16, 128], 1000)?);
        let context = Context::training(Key::new(2).site(&name), 0);
        let loss = model.loss_of(&context, &Inputs::ids(&read), &next, CrossEntropy::default())?;
        train::update(&mut model, &loss, &mut optimiser, 1e-3, Some(1.0))?;
        drop(loss);
        if [1, 2, 5, 10, 50, 100, 200, 400].contains(&step) {
            println!("| {step} | {:.1} |", status("VmRSS"));
        }
    }
    Ok(())
}

fn idle_probe() -> Result<()> {
    println!("## A probe that nobody uses, and one that records all weights\n");
    println!("Forward passes of the same GPT, in turns; medians of 300.\n");
    println!("| | ms | against none |\n|---|---|---|");
    let (model, read) = (small_gpt()?, Inputs::ids(&ids("read", [16, 128], 1000)?));
    let mut times = [const { Vec::new() }; 3];
    for round in 0..310 {
        for (which, times) in times.iter_mut().enumerate() {
            let probe = if which == 2 { Probe::new().record("layers.*.self.weights") } else { Probe::new() };
            let context = Context::inference();
            let context = if which == 0 { context } else { context.with_probe(&probe) };
            let begun = Instant::now();
            drop(model.forward(&context, &read)?);
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
