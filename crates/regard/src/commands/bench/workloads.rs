//! The workloads, by name.

use crate::compute::Placement;
use anyhow::Result;
use regard_nn::Context;
use regard_nn::generate::{Continue, GenerationSettings, generate};
use regard_nn::models::{
    BertConfig, GptConfig, Inputs, LlamaConfig, Model, Pooling, Sentiment, SentimentConfig, T5Config,
    Transformer, VitConfig,
};
use regard_nn::tensor::ops::{Attention, CrossEntropy, Projections, attend};
use regard_nn::tensor::optimiser::{Method, Optimiser};
use regard_nn::tensor::random::Key;
use regard_nn::tensor::{DataType, Device, Ids, Pass, Tensor};
use regard_nn::train::{self, Part, Recorder, Settings};

/// A workload: its name, what it is, and how to set it up.
pub struct Workload {
    pub name: &'static str,
    pub about: &'static str,
    /// Whether it is too large for CPUs, or there only to show that a device has all kernels.
    pub for_gpus: bool,
    pub build: fn(Placement) -> Result<Step>,
}

/// Runs the work once.
pub type Step = Box<dyn FnMut() -> Result<()>>;

/// What of an attention is timed.
#[derive(Clone, Copy, PartialEq)]
enum Passes {
    Forward,
    Backward,
    Both,
}

macro_rules! workloads {
    ($($name:literal $about:literal $for_gpus:literal $build:expr;)+) => {
        &[$(Workload { name: $name, about: $about, for_gpus: $for_gpus, build: $build },)+]
    };
}

pub const WORKLOADS: &[Workload] = workloads! {
    "attention-256" "attention forward, causal, 4×8×256×64" false
        |on| attention(on, [4, 256, 8, 64], true, Passes::Forward);
    "attention-1024" "attention forward, causal, 1×8×1024×64" false
        |on| attention(on, [1, 1024, 8, 64], true, Passes::Forward);
    "attention-train-1024" "attention forward and backward, causal, 1×8×1024×64" false
        |on| attention(on, [1, 1024, 8, 64], true, Passes::Both);
    "attention-train-4096" "attention forward and backward, full, 1×8×4096×64" false
        |on| attention(on, [1, 4096, 8, 64], false, Passes::Both);
    "gpt-char" "GPT training step, V 65, 4 layers, d 128, T 64, B 12" false
        |on| gpt(on, [65, 4, 4, 128], (64, 12), 0.0);
    "gpt-small" "GPT training step, V 65, 6 layers, d 384, T 256, B 8" false
        |on| gpt(on, [65, 6, 6, 384], (256, 8), 0.0);
    "gpt-words" "GPT training step, V 10,000, 4 layers, d 256, T 128, B 16" false
        |on| gpt(on, [10_000, 4, 4, 256], (128, 16), 0.0);
    "bilstm" "BiLSTM + max pool, training step, B 64, T 200" false
        |on| sentiment(on, Pooling::Max);
    "bilstm-additive" "BiLSTM + additive attention, training step" false
        |on| sentiment(on, Pooling::Additive);
    "bilstm-heads" "BiLSTM + 4-head self-attention, training step" false
        |on| sentiment(on, Pooling::Heads);
    "generate" "GPT-2's sizes, 32 tokens read and 32 generated, batch 1" false
        |on| generation(on, [50_257, 12, 12, 768], 1024, (32, 32));
    "gpt2" "GPT-2 124M training step, B 32, T 1024" true
        |on| gpt(on, [50_304, 12, 12, 768], (1024, 32), 0.0);
    "shakespeare" "GPT training step, V 65, 6 layers, d 384, T 256, B 64, dropout 0.2" true
        |on| gpt(on, [65, 6, 6, 384], (256, 64), 0.2);
    "generate-long" "GPT-2's sizes, 32 tokens read and 224 generated, batch 1" true
        |on| generation(on, [50_257, 12, 12, 768], 1024, (32, 224));
    "attention-gpt2" "attention forward, causal, 32×12×1024×64" true
        |on| attention(on, [32, 1024, 12, 64], true, Passes::Forward);
    "attention-gpt2-backward" "its backward pass" true
        |on| attention(on, [32, 1024, 12, 64], true, Passes::Backward);
    "attention-4096" "attention forward, causal, 4×16×4096×128" true
        |on| attention(on, [4, 4096, 16, 128], true, Passes::Forward);
    "attention-4096-backward" "its backward pass" true
        |on| attention(on, [4, 4096, 16, 128], true, Passes::Backward);
    "attention-16384" "attention forward, causal, 1×16×16384×128" true
        |on| attention(on, [1, 16_384, 16, 128], true, Passes::Forward);
    "attention-16384-backward" "its backward pass" true
        |on| attention(on, [1, 16_384, 16, 128], true, Passes::Backward);
    "attention-131072" "attention forward and backward, causal, 1×16×131072×128" true
        |on| attention(on, [1, 131_072, 16, 128], true, Passes::Both);
    "bert" "BERT training step on padded texts, 4 layers, d 256, B 32, T 128" true bert;
    "t5" "T5 training step on padded texts, 4 + 4 layers, d 256, B 32, T 128" true t5;
    "llama" "Llama training step, 4 layers, d 256, 4 of 8 key heads, B 32, T 128" true llama;
    "vit" "ViT training step, 4 layers, d 256, B 64, 32×32 in patches of 4" true vit;
    "bilstm-padded" "BiLSTM + additive attention, training step on padded texts" true padded_sentiment;
};

fn random(name: &str, shape: [usize; 4]) -> Result<Tensor> {
    Ok(Tensor::new(&Key::new(1).site(name).normal(shape.iter().product(), 1.0), shape)?)
}

fn random_ids(name: &str, shape: [usize; 2], limit: usize) -> Result<Ids> {
    let key = Key::new(1).site(name);
    let ids: Vec<u32> = (0..shape[0] * shape[1]).map(|i| key.below(0, i as u64, limit) as u32).collect();
    Ok(Ids::new(&ids, shape)?)
}

/// Shapes are (batch, time, heads, width).
fn attention(on: Placement, shape: [usize; 4], causal: bool, passes: Passes) -> Result<Step> {
    let place = |name| -> Result<Tensor> {
        Ok(random(name, shape)?.to(on.device)?.to_type(DataType::from(on.precision))?)
    };
    let (mut query, mut key, mut value) = (place("query")?, place("key")?, place("value")?);
    let upstream = place("upstream")?;
    if passes != Passes::Forward {
        (query, key, value) = (query.tracked(), key.tracked(), value.tracked());
    }
    let mut rules = Attention::scaled(1.0 / (shape[3] as f32).sqrt());
    rules.allowed.causal = causal;
    let forward = move || -> Result<Tensor> {
        Ok(attend(Projections::Separate { query: &query, key: &key, value: &value }, &rules)?.output)
    };
    if passes == Passes::Backward {
        let output = forward()?;
        return Ok(Box::new(move || {
            output.gradients(&Pass::new().keep_graph().from_upstream(upstream.clone()))?;
            Ok(())
        }));
    }
    Ok(Box::new(move || {
        let output = forward()?;
        if passes == Passes::Both {
            output.gradients(&Pass::new().from_upstream(upstream.clone()))?;
        }
        Ok(())
    }))
}

/// Updates of a model on one fixed batch. On a GPU as the training loop makes them, recorded and with clipped gradients.
fn training(
    on: Placement,
    mut model: Box<dyn Model>,
    method: Method,
    decay: f32,
    (inputs, targets): (Inputs, Ids),
) -> Result<Step> {
    on.place_to_train(&mut *model)?;
    let mut optimiser = Optimiser::new(method, decay);
    if on.device == Device::Cpu {
        return Ok(Box::new(move || {
            let context = Context::differentiated();
            let loss = model.loss_of(&context, &inputs, &targets, CrossEntropy::default())?;
            train::update(&mut *model, &loss, &mut optimiser, 1e-3, None)?;
            Ok(())
        }));
    }
    let parts = [Part { inputs, targets, share: 1.0, first_example: 0 }];
    let (mut recorder, mut step) = (Recorder::new(), 0);
    Ok(Box::new(move || {
        let key = Key::new(1).site("train").step(step);
        let settings = Settings { key, rate: 1e-3, clip: 1.0, precision: on.precision.into() };
        if recorder.update(&mut *model, &mut optimiser, &parts, settings)?.is_none() {
            train::update_now(&mut *model, &mut optimiser, &parts, settings)?;
        }
        step += 1;
        Ok(())
    }))
}

/// AdamW as GPTs are trained.
fn adamw() -> Method {
    Method::Adam { betas: (0.9, 0.95), epsilon: 1e-8, decoupled: true }
}

fn gpt(
    on: Placement,
    [vocabulary, n_layers, n_heads, d_model]: [usize; 4],
    (time, batch): (usize, usize),
    dropout: f32,
) -> Result<Step> {
    let config =
        GptConfig { vocabulary, context: time, n_layers, n_heads, d_model, dropout, ..GptConfig::default() };
    let model = Box::new(Transformer::new(config.form(), 1)?);
    let inputs = Inputs::ids(&random_ids("ids", [batch, time], vocabulary)?);
    let targets = random_ids("targets", [batch, time], vocabulary)?;
    training(on, model, adamw(), 0.1, (inputs, targets))
}

/// Reads a prompt and continues it by the most likely tokens, with random weights.
fn generation(
    on: Placement,
    [vocabulary, n_layers, n_heads, d_model]: [usize; 4],
    context: usize,
    (prompt, length): (usize, usize),
) -> Result<Step> {
    let config = GptConfig { vocabulary, context, n_layers, n_heads, d_model, ..GptConfig::default() };
    let model = on.place(Box::new(Transformer::new(config.form(), 1)?))?;
    let prompt = random_ids("prompt", [1, prompt], vocabulary)?.values().to_vec();
    let settings = GenerationSettings { max_tokens: length, ..GenerationSettings::default() };
    Ok(Box::new(move || {
        let found = generate(
            &Continue::new(&*model)?,
            &Context::inference(),
            std::slice::from_ref(&prompt),
            &settings,
            &mut |_, _| true,
        )?;
        anyhow::ensure!(found[0].tokens.len() == length, "generation ended early");
        Ok(())
    }))
}

const REVIEWS: [usize; 2] = [64, 200];

fn sentiment(on: Placement, pooling: Pooling) -> Result<Step> {
    let config = SentimentConfig { pooling, ..SentimentConfig::default() };
    let model = Box::new(Sentiment::new(config.clone(), 1)?);
    let inputs = Inputs::ids(&random_ids("ids", REVIEWS, config.vocabulary)?);
    let targets = random_ids("labels", [1, REVIEWS[0]], 2)?.reshape([REVIEWS[0]])?;
    training(on, model, Method::adam(), 0.0, (inputs, targets))
}

/// Lengths between a half of the longest and the longest.
fn lengths([batch, time]: [usize; 2]) -> Vec<usize> {
    let key = Key::new(1).site("lengths");
    (0..batch).map(|row| if row == 0 { time } else { time - key.below(0, row as u64, time / 2) }).collect()
}

fn padded_sentiment(on: Placement) -> Result<Step> {
    let config = SentimentConfig { pooling: Pooling::Additive, ..SentimentConfig::default() };
    let model = Box::new(Sentiment::new(config.clone(), 1)?);
    let inputs = Inputs::padded(&random_ids("ids", REVIEWS, config.vocabulary)?, &lengths(REVIEWS))?;
    let targets = random_ids("labels", [1, REVIEWS[0]], 2)?.reshape([REVIEWS[0]])?;
    training(on, model, Method::adam(), 0.0, (inputs, targets))
}

const WORDS: usize = 8192;
const TEXTS: [usize; 2] = [32, 128];

fn bert(on: Placement) -> Result<Step> {
    let config = BertConfig {
        vocabulary: WORDS,
        context: TEXTS[1],
        n_layers: 4,
        n_heads: 4,
        d_model: 256,
        d_hidden: 1024,
        ..BertConfig::default()
    };
    let model = Box::new(Transformer::new(config.form(), 1)?);
    let inputs = Inputs::padded(&random_ids("ids", TEXTS, WORDS)?, &lengths(TEXTS))?;
    training(on, model, adamw(), 0.01, (inputs, random_ids("targets", TEXTS, WORDS)?))
}

fn t5(on: Placement) -> Result<Step> {
    let config = T5Config {
        vocabulary: WORDS,
        n_layers: 4,
        n_decoder_layers: 4,
        n_heads: 4,
        d_model: 256,
        d_head: 64,
        d_hidden: 1024,
        ..T5Config::default()
    };
    let model = Box::new(Transformer::new(config.form(), 1)?);
    let source = Inputs::padded(&random_ids("ids", TEXTS, WORDS)?, &lengths(TEXTS))?;
    let inputs = source.answered(&random_ids("answer", TEXTS, WORDS)?, None);
    training(on, model, adamw(), 0.01, (inputs, random_ids("targets", TEXTS, WORDS)?))
}

fn llama(on: Placement) -> Result<Step> {
    let config = LlamaConfig {
        vocabulary: WORDS,
        context: TEXTS[1],
        n_layers: 4,
        n_heads: 8,
        n_kv_heads: 4,
        d_model: 256,
        d_head: None,
        d_hidden: 768,
        ..LlamaConfig::default()
    };
    let model = Box::new(Transformer::new(config.form(), 1)?);
    let inputs = Inputs::ids(&random_ids("ids", TEXTS, WORDS)?);
    training(on, model, adamw(), 0.01, (inputs, random_ids("targets", TEXTS, WORDS)?))
}

fn vit(on: Placement) -> Result<Step> {
    let config = VitConfig {
        image: [32, 32],
        patch: 4,
        channels: 3,
        classes: 10,
        n_layers: 4,
        n_heads: 4,
        d_model: 256,
        d_hidden: 1024,
        ..VitConfig::default()
    };
    let model = Box::new(Transformer::new(config.form(), 1)?);
    let inputs = Inputs::pictures(&random("pictures", [64, 3, 32, 32])?);
    let targets = random_ids("classes", [1, 64], 10)?.reshape([64])?;
    training(on, model, adamw(), 0.01, (inputs, targets))
}
