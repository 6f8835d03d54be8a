//! Checks and times models on a CUDA device.
//!
//! ```text
//! gpu_check check            forward pass, loss and gradients of small models beside the CPU
//! gpu_check graph            twenty updates recorded and replayed, and twenty run as usual: the same bits
//! gpu_check time [seconds]   training steps of two GPTs and of three BiLSTMs, in f32 and bf16; `shakespeare`, `gpt-2`,
//!                            `bilstm`, `f32` and `bf16` select some of them, `eager` runs them without a recording
//! ```
//!
//! `REGARD_DEVICE` selects another device than the first CUDA device for the check.

#![allow(clippy::print_stdout)] // examples print their results

use regard_nn::data::batches::IGNORED;
use regard_nn::models::{
    BertConfig, GptConfig, Inputs, LlamaConfig, Model, Pooling, Sentiment, SentimentConfig, T5Config,
    Transformer, VitConfig,
};
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::optimiser::{Method, Optimiser};
use regard_nn::tensor::random::Key;
use regard_nn::tensor::traffic::{self, Traffic};
use regard_nn::tensor::{DataType, Device, Ids, Tensor, cuda, cuda_devices};
use regard_nn::train::{self, Part, Recorder, Settings};
use regard_nn::{Context, Result};
use std::time::Instant;

/// The device to check.
fn device() -> Result<Device> {
    Ok(std::env::var("REGARD_DEVICE").map_or(Ok(Device::Cuda(0)), |name| name.parse())?)
}

/// A model, and a batch for each seed.
struct Case {
    name: &'static str,
    model: Box<dyn Model>,
    batch: fn(u64) -> Result<(Inputs, Ids)>,
}

const TEXTS: [usize; 2] = [3, 70];
const WORDS: usize = 90;

fn numbers(name: &str, seed: u64, count: usize, limit: usize) -> Vec<u32> {
    let key = Key::new(11).site(name);
    (0..count).map(|i| key.below(seed, i as u64, limit) as u32).collect()
}

fn ids(name: &str, seed: u64) -> Result<Ids> {
    Ok(Ids::new(&numbers(name, seed, TEXTS[0] * TEXTS[1], WORDS), TEXTS)?)
}

/// Texts of which the first has no padding.
fn padded(seed: u64) -> Result<Inputs> {
    let mut lengths = vec![TEXTS[1]];
    let others = numbers("lengths", seed, TEXTS[0] - 1, TEXTS[1]);
    lengths.extend(others.iter().map(|&length| length as usize + 1));
    Inputs::padded(&ids("text", seed)?, &lengths)
}

/// Targets of which about one in `every` counts.
fn some(seed: u64, every: usize) -> Result<Ids> {
    let counts = numbers("counts", seed, TEXTS[0] * TEXTS[1], every);
    let targets = ids("next", seed)?;
    let targets = targets.values().iter().zip(counts);
    Ok(Ids::new(&targets.map(|(&id, zero)| if zero == 0 { id } else { IGNORED }).collect::<Vec<_>>(), TEXTS)?)
}

fn classes(seed: u64) -> Result<Ids> {
    Ok(Ids::new(&numbers("classes", seed, TEXTS[0], 2), [TEXTS[0]])?)
}

fn cases() -> Result<Vec<Case>> {
    let case = |name, model: Box<dyn Model>, batch| Case { name, model, batch };
    let words = WORDS;
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
    let transformer = |form| -> Result<Box<dyn Model>> { Ok(Box::new(Transformer::new(form, 1)?)) };
    let bilstm = |pooling| -> Result<Box<dyn Model>> { Ok(Box::new(Sentiment::new(with(pooling), 1)?)) };
    let windows = |seed| Ok((Inputs::ids(&ids("text", seed)?), ids("next", seed)?));
    let texts = |seed| Ok((padded(seed)?, classes(seed)?));
    Ok(vec![
        case("GPT", transformer(gpt.form())?, windows),
        case("GPT checkpointed", transformer(GptConfig { checkpointing: true, ..gpt }.form())?, windows),
        case("BERT", transformer(bert.form())?, |seed| Ok((padded(seed)?, ids("next", seed)?))),
        case("BERT masked", transformer(bert.form())?, |seed| Ok((padded(seed)?, some(seed, 6)?))),
        case("T5", transformer(t5.form())?, |seed| {
            Ok((padded(seed)?.answered(&ids("answer", seed)?, None), some(seed, 2)?))
        }),
        case("Llama", transformer(llama.form())?, windows),
        case("ViT", transformer(vit.form())?, |seed| {
            let pixels = Key::new(5).site("pictures").step(seed).normal(TEXTS[0] * 256, 1.0);
            Ok((Inputs::pictures(&Tensor::new(&pixels, [TEXTS[0], 1, 16, 16])?), classes(seed)?))
        }),
        case("BiLSTM max", bilstm(Pooling::Max)?, texts),
        case("BiLSTM additive", bilstm(Pooling::Additive)?, texts),
        case("BiLSTM heads", bilstm(Pooling::Heads)?, texts),
    ])
}

/// The loss over the targets that count.
const COUNTED: CrossEntropy = CrossEntropy { ignored: Some(IGNORED), smoothing: 0.0 };

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
    let (inputs, targets) = (case.batch)(0)?;
    let before = traffic::snapshot();
    let hidden = model.hidden(&context, &inputs)?;
    let loss = model.loss(&context, &hidden, &targets, COUNTED)?;
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

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|x| x * x).sum::<f64>().sqrt()
}

fn size(values: &[f32]) -> f64 {
    norm(values.iter().map(|&x| f64::from(x)))
}

/// ‖got − expected‖ / ‖expected‖, or over `scale` if that is larger.
fn distance(got: &[f32], expected: &[f32], scale: f64) -> f64 {
    let apart = norm(got.iter().zip(expected).map(|(&a, &b)| f64::from(a) - f64::from(b)));
    if got.len() == expected.len() { apart / size(expected).max(scale) } else { f64::INFINITY }
}

/// The size of what the gradient of a bias is the sum of.
///
/// The weight of the same layer has the gradient xᵀ·g where the bias has Σ g. With x about 1, the root of Σ g² is its norm
/// over the root of the number of inputs.
///
/// Some of these sums are zero but for rounding, since adding one number to all scores of a softmax changes nothing: the bias
/// of a key, that of an additive score and, as long as its tanh is almost linear, that of its hidden layer. They are compared
/// with all gradients together.
fn size_of_summed(name: &str, gradients: &[(String, Vec<f32>)]) -> f64 {
    if ["key.bias", "additive.score.bias", "additive.hidden.bias"].iter().any(|end| name.ends_with(end)) {
        return norm(gradients.iter().flat_map(|(_, values)| values).map(|&x| f64::from(x)));
    }
    let find = |name: &str| gradients.iter().find(|(known, _)| known == name).map(|(_, values)| values);
    let weight = name.strip_suffix("bias").and_then(|layer| find(&format!("{layer}weight")));
    match (weight, find(name)) {
        (Some(weight), Some(bias)) => size(weight) / (weight.len() as f64 / bias.len() as f64).sqrt(),
        _ => 0.0,
    }
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
            let hidden = distance(&got.hidden, &expected.hidden, 0.0);
            let loss = f64::from((got.loss - expected.loss).abs() / expected.loss.abs());
            let pairs = got.gradients.iter().zip(&expected.gradients);
            let worst = pairs.map(|((name, got), (_, values))| {
                (distance(got, values, size_of_summed(name, &expected.gradients)), name)
            });
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

/// Losses and parameters after twenty updates with batches, rates and dropout that change, and how many kernels were
/// recorded.
fn trained(
    case: &Case,
    precision: DataType,
    mut recorder: Recorder,
) -> Result<(Vec<Vec<f32>>, Option<usize>)> {
    let mut model = case.model.duplicate();
    model.to(device()?)?;
    let mut optimiser = Optimiser::new(Method::adamw(), 0.1);
    let mut losses = Vec::new();
    for step in 0..20_u64 {
        let (inputs, targets) = (case.batch)(step)?;
        let parts = [Part { inputs, targets, share: 1.0, first_example: 0 }];
        let rate = 1e-3 * (1.0 + step as f32);
        let how = Settings { key: Key::new(5).step(step), rate, clip: 1.0, precision };
        let outcome = match recorder.update(&mut *model, &mut optimiser, &parts, how)? {
            Some(outcome) => outcome,
            None => train::update_now(&mut *model, &mut optimiser, &parts, how)?,
        };
        losses.push(outcome.loss.to_vec());
        losses.push(outcome.norm.to_vec());
    }
    losses.extend(model.parameters().iter().map(|(_, parameter)| parameter.tensor().to_vec()));
    Ok((losses, recorder.nodes()))
}

/// Prints a line for each model and type; returns how many differ.
fn check_graph() -> Result<usize> {
    let mut failures = 0;
    for case in cases()? {
        for precision in [DataType::F32, DataType::Bf16] {
            let (usual, _) = trained(&case, precision, Recorder::off())?;
            let (replayed, nodes) = trained(&case, precision, Recorder::new())?;
            let same = |(a, b): (&Vec<f32>, &Vec<f32>)| {
                a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits()))
            };
            let different = usual.iter().zip(&replayed).filter(|&pair| !same(pair)).count();
            let finite = usual.iter().flatten().all(|x| x.is_finite());
            let right = different == 0 && finite && nodes.is_some() && usual.len() == replayed.len();
            failures += usize::from(!right);
            println!(
                "{}  {:<18} {precision:?}  20 updates, {} kernels recorded, {different} of {} results differ",
                if right { "ok  " } else { "FAIL" },
                case.name,
                nodes.unwrap_or(0),
                usual.len(),
            );
        }
    }
    Ok(failures)
}

/// A training run to time.
struct Run {
    name: &'static str,
    model: Box<dyn Model>,
    vocabulary: usize,
    batch: usize,
    time: usize,
    /// What it predicts: a token for each token, or a class for each text.
    classes: Option<usize>,
}

fn runs() -> Result<Vec<(&'static str, Run)>> {
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
    let gpt = |name, config: GptConfig, batch, time| -> Result<Run> {
        let (vocabulary, model) = (config.vocabulary, Box::new(Transformer::new(config.form(), 1)?));
        Ok(Run { name, model, vocabulary, batch, time, classes: None })
    };
    let bilstm = |name, pooling| -> Result<Run> {
        let config = SentimentConfig { pooling, ..SentimentConfig::default() };
        let (vocabulary, model) = (config.vocabulary, Box::new(Sentiment::new(config, 1)?));
        Ok(Run { name, model, vocabulary, batch: 64, time: 200, classes: Some(2) })
    };
    Ok(vec![
        ("shakespeare", gpt("Shakespeare", shakespeare, 64, 256)?),
        ("gpt-2", gpt("GPT-2 124M", gpt2, 32, 1024)?),
        ("bilstm", bilstm("BiLSTM max", Pooling::Max)?),
        ("bilstm", bilstm("BiLSTM additive", Pooling::Additive)?),
        ("bilstm", bilstm("BiLSTM heads", Pooling::Heads)?),
    ])
}

fn time(seconds: f64, arguments: &[String]) -> Result<()> {
    let named = |name: &str| arguments.iter().any(|argument| argument == name);
    let chosen = |names: &[&str], name: &str| named(name) || !names.iter().any(|name| named(name));
    for precision in [DataType::Bf16, DataType::F32] {
        for (name, run) in runs()? {
            let type_name = format!("{precision:?}").to_lowercase();
            let wanted = chosen(&["shakespeare", "gpt-2", "bilstm"], name);
            if !wanted || !chosen(&["f32", "bf16"], &type_name) {
                continue;
            }
            let recorder = if named("eager") { Recorder::off() } else { Recorder::new() };
            let name = run.name;
            if let Err(error) = time_one(run, precision, seconds, recorder) {
                println!("{name} {type_name}: {error}");
            }
        }
    }
    Ok(())
}

fn time_one(run: Run, precision: DataType, seconds: f64, mut recorder: Recorder) -> Result<()> {
    let Run { name, mut model, vocabulary, batch, time, classes } = run;
    model.to(Device::Cuda(0))?;
    let mut optimiser = Optimiser::new(Method::adamw(), 0.1);
    let device = cuda::Device::open(0).map_err(regard_nn::tensor::Error::from)?;
    let wait = || device.synchronise().map_err(regard_nn::tensor::Error::from);
    let text = Ids::new(&numbers("text", 0, batch * (time + 1), vocabulary), [batch, time + 1])?;
    let cut = |shift: usize| {
        let rows = text.values().chunks(time + 1).flat_map(|row| row[shift..shift + time].to_vec());
        Ids::new(&rows.collect::<Vec<_>>(), [batch, time])
    };
    let (mut step, mut first) = (0, 0.0);
    let (mut timed, mut started, mut before) = (0_u32, Instant::now(), traffic::snapshot());
    let last = loop {
        let targets = match classes {
            None => cut(1)?,
            Some(classes) => Ids::new(&numbers("classes", 0, batch, classes), [batch])?,
        };
        let parts = [Part { inputs: Inputs::ids(&cut(0)?), targets, share: 1.0, first_example: 0 }];
        let how = Settings { key: Key::new(2).step(step), rate: 3e-4, clip: 1.0, precision };
        let outcome = match recorder.update(&mut *model, &mut optimiser, &parts, how)? {
            Some(outcome) => outcome,
            None => train::update_now(&mut *model, &mut optimiser, &parts, how)?,
        };
        let loss = outcome.loss;
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
    let (count, what) = if classes.is_some() { (batch, "texts") } else { (batch * time, "tokens") };
    println!(
        "{name:<15} {precision:?}  {:.2} ms/step  {:.0} {what}/s  {} MiB at most  loss {first:.3} to {last:.3} in {timed} steps",
        each * 1e3,
        count as f64 / each,
        usage.peak >> 20,
    );
    if let Some(nodes) = recorder.nodes() {
        println!("                {nodes} kernels and copies recorded");
    }
    let per_step = |count: u64| count as f64 / f64::from(timed);
    println!(
        "                a step: {:.2} reads, {:.2} uploads, fallbacks {:?}, {} driver allocations in all",
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
    if named("graph") {
        let different = check_graph()?;
        println!("{different} failed");
        failures += different;
    }
    if named("time") {
        time(seconds, &arguments)?;
    }
    std::process::exit(i32::from(failures > 0));
}
