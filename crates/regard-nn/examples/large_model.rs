//! Load time, speed and memory of a model in a folder, as one line of JSON: what `tools/sizes` records.
//!
//! ```sh
//! cargo run --release --example large_model -- FOLDER [--forward TOKENS] [--generate TOKENS] [--repeat TIMES]
//! ```
//!
//! Times are of the clock and of the processor (all threads together), the latter being the one to compare on a busy machine.
//! Memory is that of the process as Linux counts it: `resident` at the end, `peak` its largest value, both with the pages of
//! the mapped file that were read; `anonymous` is the memory at the end that is not the file's.

#![allow(clippy::print_stdout, reason = "examples print")]

use regard_nn::generate::{Continue, GenerationSettings, generate};
use regard_nn::models::Inputs;
use regard_nn::tensor::Ids;
use regard_nn::{Context, checkpoint};
use serde_json::json;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(folder) = arguments.first() else { return Err("a folder is needed".into()) };
    let (tokens, continued) = (option(&arguments, "--forward", 0)?, option(&arguments, "--generate", 0)?);
    let repeat = option(&arguments, "--repeat", 1)?.max(1);

    let started = Instant::now();
    let loaded = checkpoint::load(Path::new(folder))?;
    let load = started.elapsed().as_secs_f64();
    let after_loading = memory("VmRSS")?;
    let model = &*loaded.model;
    let vocabulary = loaded.config.get("vocab_size").and_then(serde_json::Value::as_u64).unwrap_or(1);
    let text = |count: usize| (0..count as u64).map(|i| (i * 7919 % vocabulary) as u32).collect::<Vec<_>>();

    let (mut forward, mut generation, mut forward_cpu, mut generation_cpu) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repeat {
        if tokens > 0 {
            let inputs = Inputs::ids(&Ids::new(&text(tokens), [1, tokens])?);
            let (started, before) = (Instant::now(), processor_time()?);
            let scores = model.forward(&Context::inference(), &inputs)?;
            assert!(scores.values().iter().all(|score| score.is_finite()), "scores must be numbers");
            forward.push(started.elapsed().as_secs_f64());
            forward_cpu.push(processor_time()? - before);
        }
        if continued > 0 {
            let settings = GenerationSettings { max_tokens: continued, ..GenerationSettings::default() };
            let (started, before) = (Instant::now(), processor_time()?);
            let texts = generate(
                &Continue::new(model)?,
                &Context::inference(),
                &[text(8)],
                &settings,
                &mut |_, _| true,
            )?;
            assert_eq!(texts[0].tokens.len(), continued);
            generation.push(started.elapsed().as_secs_f64() / continued as f64);
            generation_cpu.push((processor_time()? - before) / continued as f64);
        }
    }
    let report = json!({
        "load": load,
        "after_loading": after_loading,
        "forward": forward,
        "per_token": generation,
        "forward_cpu": forward_cpu,
        "per_token_cpu": generation_cpu,
        "resident": memory("VmRSS")?,
        "anonymous": memory("RssAnon")?,
        "peak": memory("VmHWM")?,
    });
    println!("{report}");
    Ok(())
}

fn option(arguments: &[String], name: &str, otherwise: usize) -> Result<usize, Box<dyn Error>> {
    match arguments.iter().position(|argument| argument == name) {
        None => Ok(otherwise),
        Some(at) => Ok(arguments.get(at + 1).ok_or_else(|| format!("{name} needs a number"))?.parse()?),
    }
}

/// The seconds that all threads of this process have computed.
fn processor_time() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/stat")?;
    // Fields 14 and 15, in hundredths of a second; the second one is a name in brackets, which may hold spaces.
    let rest = status.rsplit_once(')').ok_or("Linux counts no time")?.1;
    let ticks: Vec<f64> =
        rest.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

/// A line of this process's status, in bytes.
fn memory(name: &str) -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")).ok_or("Linux counts no memory")?;
    Ok(kilobytes.trim().parse::<u64>()? << 10)
}
