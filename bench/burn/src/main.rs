//! Some workloads of `workloads.json` in Burn, as its users would write them and with the fastest options they would
//! find.
//!
//! ```text
//! regard-bench-burn                     all that are written
//! regard-bench-burn gpt-char bilstm     some of them
//! regard-bench-burn --seconds 1         time for each (default: 3)
//! regard-bench-burn --list              their names
//! regard-bench-burn --version           Burn's version, backend and options
//! ```
//!
//! Each result is one line of JSON: the median time of a step in milliseconds, the interquartile range of the times, how
//! many there were, and the peak of resident memory in MB. `bench/compare --burn` runs it beside the others.

mod attention;
mod bilstm;
mod gpt;
mod training;
mod work;

use serde::Serialize;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use work::{WRITTEN, Work};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the work once and returns its loss.
type Step = Box<dyn FnMut() -> f32>;

#[derive(Serialize)]
struct Measurement {
    work: &'static str,
    ms: f64,
    spread: f64,
    repeats: usize,
    peak_mb: f64,
    engine: &'static str,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(Asked::List) => WRITTEN.iter().for_each(|name| println!("{name}")),
        Ok(Asked::Version) => println!("Burn {} (Flex, x86-v4, mimalloc)", burn_version()),
        Ok(Asked::Measure { names, budget }) => {
            for name in names {
                match measure(name, budget).and_then(|measured| json(&measured)) {
                    Ok(line) => println!("{line}"),
                    Err(problem) => return fail(1, &problem),
                }
            }
        }
        Err(problem) => return fail(2, &problem),
    }
    ExitCode::SUCCESS
}

fn json(measured: &Measurement) -> Result<String, String> {
    serde_json::to_string(measured).map_err(|error| error.to_string())
}

fn fail(code: u8, problem: &str) -> ExitCode {
    eprintln!("error: {problem}");
    ExitCode::from(code)
}

enum Asked {
    List,
    Version,
    Measure { names: Vec<&'static str>, budget: Duration },
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Asked, String> {
    let (mut names, mut budget) = (Vec::new(), Duration::from_secs(3));
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--list" => return Ok(Asked::List),
            "--version" => return Ok(Asked::Version),
            "--seconds" => budget = seconds(&arguments.next().unwrap_or_default())?,
            name => names.push(*WRITTEN.iter().find(|known| **known == name).ok_or_else(|| {
                format!("unknown workload or option {name:?}; workloads are {}", WRITTEN.join(", "))
            })?),
        }
    }
    if names.is_empty() {
        names.extend(WRITTEN);
    }
    Ok(Asked::Measure { names, budget })
}

fn seconds(text: &str) -> Result<Duration, String> {
    let problem = || format!("--seconds needs a number above 0, not {text:?}");
    let value: f64 = text.parse().map_err(|_| problem())?;
    Duration::try_from_secs_f64(value).ok().filter(|budget| !budget.is_zero()).ok_or_else(problem)
}

/// The version that the lock file names.
fn burn_version() -> &'static str {
    let mut lines = include_str!("../Cargo.lock").lines().skip_while(|line| *line != r#"name = "burn""#);
    lines.nth(1).and_then(|line| line.split('"').nth(1)).unwrap_or("?")
}

/// Runs a workload for a while and takes the median, like `regard bench`.
fn measure(name: &'static str, budget: Duration) -> Result<Measurement, String> {
    reset_peak();
    let work = Work::find(name).ok_or_else(|| format!("workloads.json has no {name}"))?;
    let mut step = work.step();
    for _ in 0..3 {
        step();
    }
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < 3 || (start.elapsed() < budget && times.len() < 100_000) {
        let begin = Instant::now();
        let loss = step();
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        if !loss.is_finite() {
            return Err(format!("the loss of {name} is {loss}"));
        }
    }
    times.sort_by(f64::total_cmp);
    let quantile = |q: f64| times[((times.len() - 1) as f64 * q).round() as usize];
    Ok(Measurement {
        work: name,
        ms: quantile(0.5),
        spread: quantile(0.75) - quantile(0.25),
        repeats: times.len(),
        peak_mb: peak_mb(),
        engine: "burn",
    })
}

/// Starts counting the process's peak memory anew, where the system allows it.
fn reset_peak() {
    // Failure only means that the peak includes earlier workloads.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory the process has held, in MB; 0 where the system does not say.
fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0 / 1e6
}
