//! `regard bench`: how long the workloads of the speed table take here.

use anyhow::{Context as _, Result};
use clap::Args;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use regard_nn::generate::{Continue, GenerationSettings, generate};
use regard_nn::models::{GptConfig, Inputs, Model, Pooling, Sentiment, SentimentConfig, Transformer};
use regard_nn::tensor::ops::{Attention, CrossEntropy, Projections, attend};
use regard_nn::tensor::optimiser::{Method, Optimiser};
use regard_nn::tensor::random::Key;
use regard_nn::tensor::{Ids, Pass, Tensor, pool, set_threads, threads};
use regard_nn::{Context, train};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Measure attention, training steps and generation on this machine.
///
/// A training step is forward, loss, backward and optimiser. Times are medians over a few seconds.
/// `bench/compare` runs the same work in PyTorch beside it.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  regard bench\n  regard bench gpt-char bilstm\n  regard bench gpt-small --threads 1,2,4,8\n  regard bench attention-1024 --json"
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
}

/// One row of the table.
#[derive(Serialize)]
struct Measurement {
    work: &'static str,
    ms: f64,
    spread: f64,
    repeats: usize,
    peak_mb: f64,
    threads: usize,
    engine: &'static str,
}

/// A workload: its name, what it is, and how to set it up.
struct Workload {
    name: &'static str,
    about: &'static str,
    build: fn() -> Result<Step>,
}

/// Runs the work once.
type Step = Box<dyn FnMut() -> Result<()>>;

const WORKLOADS: &[Workload] = &[
    Workload {
        name: "attention-256",
        about: "attention forward, causal, 4×8×256×64",
        build: || attention([4, 256, 8, 64], true, false),
    },
    Workload {
        name: "attention-1024",
        about: "attention forward, causal, 1×8×1024×64",
        build: || attention([1, 1024, 8, 64], true, false),
    },
    Workload {
        name: "attention-train-1024",
        about: "attention forward and backward, causal, 1×8×1024×64",
        build: || attention([1, 1024, 8, 64], true, true),
    },
    Workload {
        name: "attention-train-4096",
        about: "attention forward and backward, full, 1×8×4096×64",
        build: || attention([1, 4096, 8, 64], false, true),
    },
    Workload {
        name: "gpt-char",
        about: "GPT training step, V 65, 4 layers, d 128, T 64, B 12",
        build: || gpt([65, 4, 4, 128], 64, 12),
    },
    Workload {
        name: "gpt-small",
        about: "GPT training step, V 65, 6 layers, d 384, T 256, B 8",
        build: || gpt([65, 6, 6, 384], 256, 8),
    },
    Workload {
        name: "gpt-words",
        about: "GPT training step, V 10,000, 4 layers, d 256, T 128, B 16",
        build: || gpt([10_000, 4, 4, 256], 128, 16),
    },
    Workload {
        name: "bilstm",
        about: "BiLSTM + max pool, training step, B 64, T 200",
        build: || sentiment(Pooling::Max),
    },
    Workload {
        name: "bilstm-additive",
        about: "BiLSTM + additive attention, training step",
        build: || sentiment(Pooling::Additive),
    },
    Workload {
        name: "bilstm-heads",
        about: "BiLSTM + 4-head self-attention, training step",
        build: || sentiment(Pooling::Heads),
    },
    Workload {
        name: "generate",
        about: "GPT-2's sizes, 32 tokens read and 32 generated, batch 1",
        build: || generation([50_257, 12, 12, 768], 1024, (32, 32)),
    },
];

impl Bench {
    /// Runs the command.
    #[allow(clippy::print_stdout)] // the table is the result
    pub fn run(&self) -> Result<()> {
        self.note_few_cores();
        if !self.json {
            let threads = if self.threads.is_empty() { "" } else { " threads  speed-up" };
            println!("{:<22} {:>10} {:>9} {:>9}{threads}  what", "work", "ms", "± ms", "peak MB");
        }
        let counts = if self.threads.is_empty() { vec![threads()] } else { self.threads.clone() };
        for work in self.chosen() {
            let mut first = None;
            for &count in &counts {
                set_threads(count);
                let measured = measure(work, Duration::from_secs_f64(self.seconds.clamp(0.01, 600.0)))?;
                let speed_up = *first.get_or_insert(measured.ms) / measured.ms;
                if self.json {
                    println!("{}", serde_json::to_string(&measured)?);
                    continue;
                }
                let threads = if self.threads.is_empty() {
                    String::new()
                } else {
                    format!(" {count:>7} {speed_up:>9.2}")
                };
                println!(
                    "{:<22} {:>10.3} {:>9.3} {:>9.0}{threads}  {}",
                    work.name, measured.ms, measured.spread, measured.peak_mb, work.about
                );
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

    fn chosen(&self) -> impl Iterator<Item = &'static Workload> {
        WORKLOADS.iter().filter(|work| self.work.is_empty() || self.work.iter().any(|name| name == work.name))
    }
}

/// Runs a workload for a while and takes the median.
fn measure(work: &Workload, budget: Duration) -> Result<Measurement> {
    pool::trim();
    reset_peak();
    let mut step = (work.build)().with_context(|| format!("setting up {}", work.name))?;
    // The first runs fill caches, the memory pool and the branch predictor.
    for _ in 0..3 {
        step()?;
    }
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < 3 || (start.elapsed() < budget && times.len() < 100_000) {
        let begin = Instant::now();
        step()?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let quantile = |q: f64| times[((times.len() - 1) as f64 * q).round() as usize];
    Ok(Measurement {
        work: work.name,
        ms: quantile(0.5),
        spread: quantile(0.75) - quantile(0.25),
        repeats: times.len(),
        peak_mb: peak_mb(),
        threads: threads(),
        engine: "regard",
    })
}

/// Starts counting the process's peak memory anew, where the system allows it.
fn reset_peak() {
    // Failure only means that the peak includes earlier workloads.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
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

fn random(name: &str, shape: [usize; 4]) -> Result<Tensor> {
    Ok(Tensor::new(&Key::new(1).site(name).normal(shape.iter().product(), 1.0), shape)?)
}

fn random_ids(name: &str, shape: [usize; 2], limit: usize) -> Result<Ids> {
    let key = Key::new(1).site(name);
    let ids: Vec<u32> = (0..shape[0] * shape[1]).map(|i| key.below(0, i as u64, limit) as u32).collect();
    Ok(Ids::new(&ids, shape)?)
}

/// Shapes are (batch, time, heads, width).
fn attention(shape: [usize; 4], causal: bool, train: bool) -> Result<Step> {
    let [query, key, value, upstream] = ["query", "key", "value", "upstream"].map(|name| random(name, shape));
    let (mut query, mut key, mut value, upstream) = (query?, key?, value?, upstream?);
    if train {
        (query, key, value) = (query.tracked(), key.tracked(), value.tracked());
    }
    let mut rules = Attention::scaled(1.0 / (shape[3] as f32).sqrt());
    rules.allowed.causal = causal;
    Ok(Box::new(move || {
        let attended = attend(Projections::Separate { query: &query, key: &key, value: &value }, &rules)?;
        if train {
            attended.output.gradients(&Pass::new().from_upstream(upstream.clone()))?;
        }
        Ok(())
    }))
}

fn gpt([vocabulary, n_layers, n_heads, d_model]: [usize; 4], time: usize, batch: usize) -> Result<Step> {
    let config = GptConfig { vocabulary, context: time, n_layers, n_heads, d_model, ..GptConfig::default() };
    let mut model = Transformer::new(config.form(), 1)?;
    let method = Method::Adam { betas: (0.9, 0.95), epsilon: 1e-8, decoupled: true };
    let mut optimiser = Optimiser::new(method, 0.1);
    let inputs = Inputs::ids(&random_ids("ids", [batch, time], vocabulary)?);
    let targets = random_ids("targets", [batch, time], vocabulary)?;
    Ok(Box::new(move || {
        let loss = loss(&model, &inputs, &targets)?;
        train::update(&mut model, &loss, &mut optimiser, 1e-3, None)?;
        Ok(())
    }))
}

/// The loss that training uses.
fn loss(model: &dyn Model, inputs: &Inputs, targets: &Ids) -> Result<Tensor> {
    let context = Context::differentiated();
    Ok(model.loss_of(&context, inputs, targets, CrossEntropy::default())?)
}

/// Reads a prompt and continues it by the most likely tokens, with random weights.
fn generation(
    [vocabulary, n_layers, n_heads, d_model]: [usize; 4],
    context: usize,
    (prompt, length): (usize, usize),
) -> Result<Step> {
    let config = GptConfig { vocabulary, context, n_layers, n_heads, d_model, ..GptConfig::default() };
    let model = Transformer::new(config.form(), 1)?;
    let prompt = random_ids("prompt", [1, prompt], vocabulary)?.values().to_vec();
    let settings = GenerationSettings { max_tokens: length, ..GenerationSettings::default() };
    Ok(Box::new(move || {
        let found = generate(
            &Continue::new(&model)?,
            &Context::inference(),
            std::slice::from_ref(&prompt),
            &settings,
            &mut |_, _| true,
        )?;
        anyhow::ensure!(found[0].tokens.len() == length, "generation ended early");
        Ok(())
    }))
}

fn sentiment(pooling: Pooling) -> Result<Step> {
    let (batch, time) = (64, 200);
    let config = SentimentConfig { pooling, ..SentimentConfig::default() };
    let mut model = Sentiment::new(config.clone(), 1)?;
    let mut optimiser = Optimiser::new(Method::adam(), 0.0);
    let inputs = Inputs::ids(&random_ids("ids", [batch, time], config.vocabulary)?);
    let targets = random_ids("labels", [1, batch], 2)?;
    Ok(Box::new(move || {
        let loss = loss(&model, &inputs, &targets)?;
        train::update(&mut model, &loss, &mut optimiser, 1e-3, None)?;
        Ok(())
    }))
}
