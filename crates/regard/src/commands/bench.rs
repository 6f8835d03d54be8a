//! `regard bench`: how long the workloads of the speed table take here.

mod workloads;

use crate::compute::{Compute, Placement};
use anyhow::{Context as _, Result};
use clap::Args;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use regard_nn::tensor::traffic::{self, Traffic};
use regard_nn::tensor::{Device, cuda, pool, set_threads, threads};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use workloads::{WORKLOADS, Workload};

/// Measure attention, training steps and generation on this machine.
///
/// A training step is forward, loss, backward and optimiser. Times are medians over a few seconds.
/// `bench/compare` runs the same work in PyTorch beside it. On a GPU there are more workloads; the columns `reads` and
/// `fallbacks` are values read to the host in a step, and operations of a step that have no kernel there and ran on the CPU.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  regard bench\n  regard bench gpt-char bilstm\n  regard bench gpt-small --threads 1,2,4,8\n  regard bench attention-1024 --json\n  regard bench --device cuda --precision bf16"
)]
pub struct Bench {
    /// What to measure (default: everything)
    #[arg(value_parser = PossibleValuesParser::new(WORKLOADS.iter().map(|work| work.name)))]
    work: Vec<String>,
    /// Print one line of JSON a workload
    #[arg(long)]
    json: bool,
    /// How long to measure each workload, in seconds
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Measure with each of these numbers of threads, and show the speed-up over the first
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    threads: Vec<usize>,
    #[command(flatten)]
    compute: Compute,
}

/// One row of the table.
#[derive(Serialize)]
struct Measurement {
    work: &'static str,
    ms: f64,
    spread: f64,
    repeats: usize,
    /// The most memory held: of the process on the CPU, of the device on a GPU.
    peak_mb: f64,
    threads: usize,
    engine: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_device: Option<OnDevice>,
}

/// What only a GPU has to report.
#[derive(Serialize)]
struct OnDevice {
    device: String,
    precision: String,
    /// Values read to the host, a step.
    host_reads: f64,
    /// Operations of a step that ran on the CPU.
    fallbacks: BTreeMap<&'static str, f64>,
}

impl Bench {
    /// Runs the command.
    #[allow(clippy::print_stdout)] // the table is the result
    pub fn run(&self) -> Result<()> {
        let placement = self.compute.placement()?;
        let on_gpu = matches!(placement.device, Device::Cuda(_));
        self.note_few_cores();
        if !self.json {
            let scaling = if self.threads.is_empty() { "" } else { " threads  speed-up" };
            let more = if on_gpu { format!("{:>7} {:>9}  ", "reads", "fallbacks") } else { String::new() };
            println!("{:<24} {:>10} {:>9} {:>9}{scaling}  {more}what", "work", "ms", "± ms", "peak MB");
        }
        let counts = if self.threads.is_empty() { vec![threads()] } else { self.threads.clone() };
        let budget = Duration::from_secs_f64(self.seconds.clamp(0.01, 600.0));
        for work in self.chosen(on_gpu) {
            let mut first = None;
            for &count in &counts {
                set_threads(count);
                let measured = measure(work, placement, budget)?;
                if self.json {
                    println!("{}", serde_json::to_string(&measured)?);
                    continue;
                }
                let Measurement { ms, spread, peak_mb, ref on_device, .. } = measured;
                let speed_up = *first.get_or_insert(ms) / ms;
                let scaling = match self.threads.is_empty() {
                    true => String::new(),
                    false => format!(" {count:>7} {speed_up:>9.2}"),
                };
                let more = on_device.as_ref().map_or_else(String::new, OnDevice::columns);
                let (name, about) = (work.name, work.about);
                println!("{name:<24} {ms:>10.3} {spread:>9.3} {peak_mb:>9.0}{scaling}  {more}{about}");
            }
        }
        Ok(())
    }

    /// More threads than cores measure how well they take turns, which is seldom what was meant.
    #[allow(clippy::print_stderr)]
    fn note_few_cores(&self) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if let Some(most) = self.threads.iter().max().filter(|&&most| most > cores) {
            eprintln!("note: this process may use {cores} cores; {most} threads will take turns on them");
        }
    }

    /// The workloads that were named, or all that the device is measured with.
    fn chosen(&self, on_gpu: bool) -> impl Iterator<Item = &'static Workload> {
        WORKLOADS.iter().filter(move |work| match self.work.is_empty() {
            true => on_gpu || !work.for_gpus,
            false => self.work.iter().any(|name| name == work.name),
        })
    }
}

impl OnDevice {
    fn columns(&self) -> String {
        let names: Vec<&str> = self.fallbacks.keys().copied().collect();
        // A sum of nothing is −0.
        let total = self.fallbacks.values().fold(0.0, |sum, count| sum + count);
        let names = if names.is_empty() { String::new() } else { format!("({}) ", names.join(", ")) };
        format!("{:>7.1} {total:>9.1}  {names}", self.host_reads)
    }
}

/// Waits for a device and counts its memory; does nothing for the CPU.
struct Clock(Option<Arc<cuda::Device>>);

impl Clock {
    fn new(placement: Placement) -> Result<Self> {
        Ok(Self(match placement.device {
            Device::Cuda(ordinal) => Some(cuda::Device::open(ordinal)?),
            _ => None,
        }))
    }

    /// Kernels are queued: their time is known once the device is idle.
    fn wait(&self) -> Result<()> {
        Ok(self.0.as_ref().map_or(Ok(()), |device| device.synchronise())?)
    }

    fn reset_peak(&self) -> Result<()> {
        match &self.0 {
            Some(device) => {
                device.trim()?;
                device.reset_peak();
            }
            None => {
                pool::trim();
                // Failure only means that the peak includes earlier workloads.
                let _ = std::fs::write("/proc/self/clear_refs", "5");
            }
        }
        Ok(())
    }

    fn peak_mb(&self) -> f64 {
        self.0.as_ref().map_or_else(peak_mb, |device| device.usage().peak as f64 / 1e6)
    }
}

/// Steps that run before anything is timed: they fill caches and pools; the third is recorded on a GPU.
const WARM_UP: usize = 5;
/// Steps of a GPU are timed in groups of about this length: waiting after each would be part of the time.
const GROUP: Duration = Duration::from_millis(100);

/// Runs a workload for a while and takes the median.
fn measure(work: &Workload, placement: Placement, budget: Duration) -> Result<Measurement> {
    let clock = Clock::new(placement)?;
    clock.reset_peak()?;
    let mut step = (work.build)(placement).with_context(|| format!("setting up {}", work.name))?;
    let warm_up = if clock.0.is_some() { WARM_UP } else { 3 };
    for _ in 0..warm_up {
        step()?;
    }
    clock.wait()?;
    let group = match clock.0.is_some() {
        true => {
            let begin = Instant::now();
            step()?;
            clock.wait()?;
            (GROUP.as_secs_f64() / begin.elapsed().as_secs_f64()).clamp(1.0, 1000.0) as usize
        }
        false => 1,
    };
    let (start, before) = (Instant::now(), traffic::snapshot());
    let mut times = Vec::new();
    while times.len() < 3 || (start.elapsed() < budget && times.len() < 100_000) {
        let begin = Instant::now();
        for _ in 0..group {
            step()?;
        }
        clock.wait()?;
        times.push(begin.elapsed().as_secs_f64() * 1e3 / group as f64);
    }
    let counted = traffic::snapshot().since(&before);
    times.sort_by(f64::total_cmp);
    let quantile = |q: f64| times[((times.len() - 1) as f64 * q).round() as usize];
    Ok(Measurement {
        work: work.name,
        ms: quantile(0.5),
        spread: quantile(0.75) - quantile(0.25),
        repeats: times.len() * group,
        peak_mb: clock.peak_mb(),
        threads: threads(),
        engine: "regard",
        on_device: clock.0.is_some().then(|| on_device(placement, &counted, (times.len() * group) as f64)),
    })
}

fn on_device(placement: Placement, counted: &Traffic, steps: f64) -> OnDevice {
    let fallbacks = counted.fallbacks.iter().map(|(&name, &count)| (name, count as f64 / steps)).collect();
    OnDevice {
        device: placement.identity(),
        precision: placement.precision.to_string(),
        host_reads: counted.host_reads as f64 / steps,
        fallbacks,
    }
}

/// The most memory the process has held, in MB; 0 where it is not known.
fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes =
        line.and_then(|rest| rest.split_whitespace().next()).and_then(|text| text.parse::<f64>().ok());
    // What the system calls kB is 1024 bytes; an MB here is a million, as in the peers' programs.
    kilobytes.unwrap_or(0.0) * 1024.0 / 1e6
}
