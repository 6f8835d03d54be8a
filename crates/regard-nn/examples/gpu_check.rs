//! Checks and times models on a CUDA device.
//!
//! ```text
//! gpu_check check            compares forward pass, loss and gradients of small models with the CPU
//! gpu_check time [seconds]   times training steps of two GPTs, in f32 and bf16
//! ```
//!
//! `REGARD_DEVICE` selects another device than the first CUDA device for the check.

#![allow(clippy::print_stdout)] // examples print their results

use regard_nn::models::{
    BertConfig, GptConfig, Inputs, LlamaConfig, Model, Pooling, Sentiment, SentimentConfig, T5Config,
    Transformer, VitConfig,
};
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::optimiser::{Method, Optimiser};
use regard_nn::tensor::random::Key;
use regard_nn::tensor::traffic::{self, Traffic};
use regard_nn::tensor::{DataType, Device, Ids, Tensor, cuda, cuda_devices};
use regard_nn::{Context, Module, Result, train};
use std::time::Instant;

/// The device to check.
fn device() -> Result<Device> {
    Ok(std::env::var("REGARD_DEVICE").map_or(Ok(Device::Cuda(0)), |name| name.parse())?)
}

/// A model with inputs and targets.
struct Case {
    name: &'static str,
    model: Box<dyn Model>,
    inputs: Inputs,
    targets: Ids,
}

fn ids(name: &str, shape: [usize; 2], limit: usize) -> Result<Ids> {
    let key = Key::new(11).site(name);
    let draw = |i: usize| key.below(i as u64, 0, limit) as u32;
    Ok(Ids::new(&(0..shape[0] * shape[1]).map(draw).collect::<Vec<_>>(), shape)?)
}

fn cases() -> Result<Vec<Case>> {
    let case = |name, model: Box<dyn Model>, inputs, targets| Case { name, model, inputs, targets };
    let (batch, time, words) = (3, 70, 90);
    let text = ids("text", [batch, time], words)?;
    let next = ids("next", [batch, time], words)?;
    let classes = Ids::new(&[0, 1, 1], [batch])?;
    let lengths = [70, 33, 51];
    let gpt = GptConfig {
        vocabulary: words,
        context: 128,
        n_layers: 2,
        n_heads: 4,
        d_model: 64,
        dropout: 0.1,
        ..GptConfig::default()
    };
    let bert = BertConfig {
        vocabulary: words,
        context: 128,
        n_layers: 2,
        n_heads: 4,
        d_model: 64,
        d_hidden: 128,
        dropout: 0.0,
        ..BertConfig::default()
    };
    let t5 = T5Config {
        vocabulary: words,
        n_layers: 2,
        n_decoder_layers: 2,
        n_heads: 4,
        d_model: 64,
        d_head: 16,
        d_hidden: 128,
        ..T5Config::default()
    };
    let llama = LlamaConfig {
        vocabulary: words,
        context: 128,
        n_layers: 2,
        n_heads: 4,
        n_kv_heads: 2,
        d_model: 64,
        d_head: None,
        d_hidden: 128,
        ..LlamaConfig::default()
    };
    let vit = VitConfig {
        image: [16, 16],
        patch: 4,
        channels: 1,
        classes: 5,
        n_layers: 2,
        n_heads: 4,
        d_model: 64,
        d_hidden: 128,
        ..VitConfig::default()
    };
    let sentiment =
        SentimentConfig { vocabulary: words, d_embedding: 32, d_hidden: 32, ..SentimentConfig::default() };
    let with = |pooling| SentimentConfig { pooling, ..sentiment.clone() };
    let pictures = Tensor::new(&Key::new(5).site("pictures").normal(batch * 256, 1.0), [batch, 1, 16, 16])?;
    let padded = Inputs::padded(&text, &lengths)?;
    let source = padded.clone();
    Ok(vec![
        case("GPT", Box::new(Transformer::new(gpt.form(), 1)?), Inputs::ids(&text), next.clone()),
        case("BERT", Box::new(Transformer::new(bert.form(), 1)?), padded.clone(), next.clone()),
        case("T5", Box::new(Transformer::new(t5.form(), 1)?), source.answered(&next, None), next.clone()),
        case("Llama", Box::new(Transformer::new(llama.form(), 1)?), Inputs::ids(&text), next),
        case("ViT", Box::new(Transformer::new(vit.form(), 1)?), Inputs::pictures(&pictures), classes.clone()),
        case("BiLSTM max", Box::new(Sentiment::new(with(Pooling::Max), 1)?), padded.clone(), classes.clone()),
        case(
            "BiLSTM additive",
            Box::new(Sentiment::new(with(Pooling::Additive), 1)?),
            padded.clone(),
            classes.clone(),
        ),
        case("BiLSTM heads", Box::new(Sentiment::new(with(Pooling::Heads), 1)?), padded, classes),
    ])
}

/// The results of one pass of a model.
struct Outcome {
    hidden: Vec<f32>,
    loss: f32,
    gradients: Vec<(String, Vec<f32>)>,
    traffic: Traffic,
}

fn outcome(case: &Case, device: Device, precision: DataType) -> Result<Outcome> {
    let mut model = case.model.duplicate();
    model.to(device)?;
    let context = Context::training(Key::new(3), 0).with_precision(precision);
    let before = traffic::snapshot();
    let hidden = model.hidden(&context, &case.inputs)?;
    let loss = model.loss(&context, &hidden, &case.targets, CrossEntropy::default())?;
    let gradients = loss.backward()?;
    let traffic = traffic::snapshot().since(&before);
    let mut all = Vec::new();
    for (name, parameter) in model.parameters() {
        if let Some(gradient) = gradients.get(parameter.tensor()) {
            all.push((name, gradient.to_vec()));
        }
    }
    Ok(Outcome { hidden: hidden.to_vec(), loss: loss.item()?, gradients: all, traffic })
}

/// ‖got − expected‖ / ‖expected‖.
fn distance(got: &[f32], expected: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let apart = norm(&mut got.iter().zip(expected).map(|(&a, &b)| f64::from(a) - f64::from(b)));
    let size = norm(&mut expected.iter().map(|&x| f64::from(x)));
    if got.len() == expected.len() { apart / size.max(1e-6) } else { f64::INFINITY }
}

/// Prints a line for each model and type; returns how many failed.
fn check() -> Result<usize> {
    let mut failures = 0;
    for case in cases()? {
        let expected = outcome(&case, Device::Cpu, DataType::F32)?;
        for (precision, tolerance) in [(DataType::F32, 1e-4), (DataType::Bf16, 0.06)] {
            let got = match outcome(&case, device()?, precision) {
                Ok(got) => got,
                Err(error) => {
                    println!("FAIL  {:<16} {precision:?}: {error}", case.name);
                    failures += 1;
                    continue;
                }
            };
            let hidden = distance(&got.hidden, &expected.hidden);
            let loss = f64::from((got.loss - expected.loss).abs() / expected.loss.abs());
            let pairs = got.gradients.iter().zip(&expected.gradients);
            let worst = pairs.map(|((name, got), (_, expected))| (distance(got, expected), name));
            let (gradient, name) =
                worst.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, &got.gradients[0].0));
            let complete = got.gradients.len() == expected.gradients.len();
            let right = complete && [hidden, loss, gradient].iter().all(|&error| error <= tolerance);
            failures += usize::from(!right);
            println!(
                "{}  {:<16} {precision:?}  hidden {hidden:.1e}  loss {loss:.1e}  gradients {gradient:.1e} ({name})  reads {} \
                 uploads {}  fallbacks {:?}",
                if right { "ok  " } else { "FAIL" },
                case.name,
                got.traffic.host_reads,
                got.traffic.uploads,
                got.traffic.fallbacks,
            );
        }
    }
    Ok(failures)
}

/// A training run to time.
struct Run {
    name: &'static str,
    config: GptConfig,
    batch: usize,
    time: usize,
    precision: DataType,
}

fn time(seconds: f64) {
    let shakespeare = GptConfig {
        vocabulary: 65,
        context: 256,
        n_layers: 6,
        n_heads: 6,
        d_model: 384,
        dropout: 0.2,
        ..GptConfig::default()
    };
    let gpt2 = GptConfig { vocabulary: 50_304, ..GptConfig::default() };
    for precision in [DataType::Bf16, DataType::F32] {
        let small = Run { name: "Shakespeare", config: shakespeare.clone(), batch: 64, time: 256, precision };
        let large = Run { name: "GPT-2 124M", config: gpt2.clone(), batch: 32, time: 1024, precision };
        for run in [small, large] {
            if let Err(error) = time_one(&run, seconds) {
                println!("{} {precision:?}: {error}", run.name);
            }
        }
    }
}

fn time_one(run: &Run, seconds: f64) -> Result<()> {
    let Run { batch, time, precision, .. } = *run;
    let mut model = Transformer::new(run.config.form(), 1)?;
    model.to(Device::Cuda(0))?;
    let mut optimiser = Optimiser::new(Method::adamw(), 0.1);
    let device = cuda::Device::open(0).map_err(regard_nn::tensor::Error::from)?;
    let wait = || device.synchronise().map_err(regard_nn::tensor::Error::from);
    let text = ids("text", [batch, time + 1], run.config.vocabulary)?;
    let cut = |shift: usize| {
        let rows = text.values().chunks(time + 1).flat_map(|row| row[shift..shift + time].to_vec());
        Ids::new(&rows.collect::<Vec<_>>(), [batch, time])
    };
    let (mut step, mut first) = (0, 0.0);
    let (mut timed, mut started, mut before) = (0_u32, Instant::now(), traffic::snapshot());
    let last = loop {
        let (inputs, targets) = (Inputs::ids(&cut(0)?), cut(1)?);
        let context = Context::training(Key::new(2).step(step), 0).with_precision(precision);
        let loss = model.loss_of(&context, &inputs, &targets, CrossEntropy::default())?;
        train::update(&mut model, &loss, &mut optimiser, 3e-4, Some(1.0))?;
        step += 1;
        // The first steps compile kernels and fill the pools.
        if step == 5 {
            first = loss.item()?;
            wait()?;
            (started, before) = (Instant::now(), traffic::snapshot());
        } else if step > 5 {
            timed += 1;
            if timed.is_multiple_of(10) {
                wait()?;
                if started.elapsed().as_secs_f64() > seconds {
                    break loss.item()?;
                }
            }
        }
    };
    let each = started.elapsed().as_secs_f64() / f64::from(timed);
    let counted = traffic::snapshot().since(&before);
    let usage = device.usage();
    println!(
        "{:<12} {precision:?}  {:.2} ms/step  {:.0} tokens/s  {} MiB at most  loss {first:.3} to {last:.3} in {timed} steps",
        run.name,
        each * 1e3,
        (batch * time) as f64 / each,
        usage.peak >> 20,
    );
    let per_step = |count: u64| count as f64 / f64::from(timed);
    println!(
        "             a step: {:.2} reads, {:.2} uploads, fallbacks {:?}, {} driver allocations in all",
        per_step(counted.host_reads),
        per_step(counted.uploads),
        counted.fallbacks,
        usage.driver_calls,
    );
    Ok(())
}

fn main() -> Result<()> {
    if let Device::Cuda(_) = device()? {
        for device in cuda_devices()? {
            println!("{}: {}, {} GiB", device.ordinal, device.name, device.memory >> 30);
        }
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = |name: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == name);
    let seconds = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(10.0);
    let mut failures = 0;
    if named("check") {
        failures = check()?;
        println!("{failures} failed");
    }
    if named("time") {
        time(seconds);
    }
    std::process::exit(i32::from(failures > 0));
}
