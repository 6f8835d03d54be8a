//! The small language models that several experiments train and test. One of them, the base, is shared: it is trained once.

use crate::experiment::{Bound, Check, Lab, Sizes, Trained};
use crate::model::Opened;
use crate::run::{RunConfig, preset, sources, text_files};
use crate::statistics::{Sample, mean, paired};
use anyhow::{Context as _, Result, bail};
use regard_nn::Context;
use regard_nn::analysis::Tokens;
use regard_nn::analysis::dependencies::{Aligned, Parsed};
use regard_nn::data::batches::{Masking, PackedWindows};
use regard_nn::data::builtin::{Corpus, Pairs};
use regard_nn::data::text::TokenStream;
use regard_nn::models::form::{self, Form};
use regard_nn::models::{GptConfig, Inputs, Model, Recipe};
use regard_nn::position::Position;
use regard_nn::tensor::Ids;
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tokens::{Special, Tokenizer};
use std::collections::HashMap;
use std::path::Path;

/// How many times the trained length a learned table of positions has room for.
pub const ROOM: usize = 4;

/// The base model's configuration: a GPT over words with rotary positions, pre-norm and GELU.
///
/// It is trained on windows of a quarter of the positions that it has room for, so that longer texts can be tried. Positions
/// are rotary because a model learns from them in a fraction of the steps that a learned table needs.
pub fn base(lab: &Lab, seed: u64) -> Result<RunConfig> {
    // The rates that gave the base model the lowest loss on held-out texts.
    const SETTINGS: Sizes<&[&str]> = Sizes::<&[&str]>::quick(&[
        "model.n_layers=2",
        "model.n_heads=4",
        "model.d_model=32",
        "model.dropout=0.0",
        "tokens.size=500",
        "data.length=32",
        "data.texts=4000",
        "train.steps=500",
        "train.batch_size=16",
        "train.rate.highest=1e-2",
        "train.rate.lowest=5e-4",
        "train.rate.warmup=20",
    ])
    .smoke(&[
        "model.n_layers=2",
        "model.n_heads=2",
        "model.d_model=16",
        "model.dropout=0.0",
        "tokens.size=200",
        "data.length=16",
        "data.texts=80",
        "train.steps=6",
        "train.batch_size=4",
    ])
    .standard(&[
        "model.n_layers=3",
        "model.n_heads=4",
        "model.d_model=64",
        "model.dropout=0.0",
        "tokens.size=1000",
        "data.length=64",
        "data.texts=12000",
        "train.steps=1500",
        "train.batch_size=16",
        "train.rate.highest=5e-3",
        "train.rate.lowest=3e-4",
        "train.rate.warmup=50",
    ])
    .full(&["tokens.size=10000", "data.length=128", "data.texts=40000", "train.steps=2000"])
    .large(&[
        "model.n_layers=6",
        "model.n_heads=8",
        "model.d_model=512",
        "model.dropout=0.1",
        "tokens.size=20000",
        "data.length=256",
        "data.texts=200000",
        "train.steps=5000",
        "train.batch_size=64",
        "train.rate.highest=6e-4",
        "train.rate.lowest=6e-5",
        "train.rate.warmup=200",
    ]);
    let mut config = lab.preset("words-gpt", SETTINGS, seed)?;
    config.train.evaluate_every = (config.train.steps / 5).max(1);
    config.run.snapshots = vec![0];
    let length = config.data.length;
    let form = gpt(&mut config)?;
    (form.context, form.positions) = (ROOM * length, Position::Rotary);
    form.deviation = initial_deviation(form.d_model);
    Ok(config)
}

/// The deviation of initial weights that keeps the size of what passes through a layer. GPT-2's 0.02 is for vectors of 768;
/// narrow models that start from it hardly learn at first.
fn initial_deviation(width: usize) -> f32 {
    (width as f32).powf(-0.5)
}

/// The base model's configuration on real text if there is any: words as white space separates them, two epochs (ten at large size).
pub fn base_on_text(lab: &Lab, seed: u64) -> Result<RunConfig> {
    let mut config = base(lab, seed)?;
    if let Some(path) = lab.setup.data {
        config.data.path = lab.data();
        config.tokens.kind = crate::run::TokensKind::Whitespace;
        if lab.setup.size >= crate::experiment::Size::Full {
            let read = (config.train.batch_size * config.data.length) as u64;
            let epochs = lab.at(Sizes::quick(2).large(10));
            config.train.steps = (epochs * count_words(path)?).div_ceil(read).max(1);
            config.train.evaluate_every = (config.train.steps / 5).max(1);
        }
    }
    Ok(config)
}

/// The words of the files to learn from, as white space separates them, and the ends of their lines.
fn count_words(path: &Path) -> Result<u64> {
    let mut count = 0;
    for file in text_files::train_and_validation(path)?.0 {
        let mut lines = regard_nn::data::file::Lines::open(&file)?;
        while let Some(line) = lines.next()? {
            count += line.split_whitespace().count() as u64 + 1;
        }
    }
    Ok(count)
}

/// The form of the GPT that a run is configured as, to change.
pub fn gpt(config: &mut RunConfig) -> Result<&mut GptConfig> {
    match &mut config.model {
        Recipe::Gpt(gpt) => Ok(gpt),
        _ => bail!("this is not a GPT"),
    }
}

/// The base model, trained.
pub fn trained_base(lab: &Lab, seed: u64) -> Result<Trained> {
    lab.train(&base(lab, seed)?)
}

/// A model's parameter by its name.
pub fn parameter(model: &dyn Model, name: &str) -> Option<Vec<f32>> {
    let all = model.parameters();
    all.iter().find(|(known, _)| known == name).map(|(_, parameter)| parameter.tensor().to_vec())
}

/// The mean loss on a text, read in windows of so many tokens.
pub fn loss_at(model: &dyn Model, text: &TokenStream, length: usize, batch: usize) -> Result<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    whole_windows(text, length, batch, |ids, targets| {
        let words = targets.values().len() as f64;
        let context = Context::inference();
        let loss = model.loss_of(&context, &Inputs::ids(ids), targets, CrossEntropy::default())?;
        sum += f64::from(loss.item()?) * words;
        count += words;
        Ok(())
    })?;
    Ok(sum / count)
}

/// The mean loss at each place of such windows.
pub fn losses_by_place(
    model: &dyn Model,
    text: &TokenStream,
    length: usize,
    batch: usize,
) -> Result<Vec<f64>> {
    let (mut sums, mut count) = (vec![0.0; length], 0.0);
    whole_windows(text, length, batch, |ids, targets| {
        let scores = model.forward(&Context::inference(), &Inputs::ids(ids))?;
        for window in scores.cross_entropy_rows(targets, CrossEntropy::default())?.to_vec().chunks(length) {
            sums.iter_mut().zip(window).for_each(|(sum, &loss)| *sum += f64::from(loss));
            count += 1.0;
        }
        Ok(())
    })?;
    Ok(sums.into_iter().map(|sum| sum / count).collect())
}

/// Reads a text in windows of so many tokens, several at a time. The last one is left out if it is shorter: it measures little
/// of this length.
fn whole_windows(
    text: &TokenStream,
    length: usize,
    batch: usize,
    mut read: impl FnMut(&Ids, &Ids) -> Result<()>,
) -> Result<()> {
    let mut any = false;
    for windows in PackedWindows::new(text.clone(), length, batch.max(1))?.iter() {
        let windows = windows?;
        if windows.ids.shape().last() == length {
            read(&windows.ids, &windows.targets)?;
            any = true;
        }
    }
    if !any {
        bail!("the text has {} tokens, which is no window of {length}", text.len());
    }
    Ok(())
}

/// Text that no model was trained on or chosen by, as much of it as the size of the experiment needs.
pub fn test_text(lab: &Lab, config: &RunConfig, tokenizer: &Tokenizer) -> Result<TokenStream> {
    let text = sources::test_stream(
        &config.data,
        tokenizer,
        lab.setting("test texts", Sizes::quick(300).smoke(20).standard(1_000).full(2_000)),
    )?;
    let most = lab.setting("test tokens", Sizes::quick(20_000).smoke(600).standard(60_000).full(usize::MAX));
    let mut ids = vec![0; text.len().min(most)];
    text.copy(0, &mut ids)?;
    Ok(TokenStream::new(&ids)?)
}

/// The mean loss of a trained model on that text, in windows as long as those it was trained on.
pub fn test_loss(lab: &Lab, config: &RunConfig, opened: &Opened) -> Result<f64> {
    let text = test_text(lab, config, opened.tokenizer()?)?;
    let length = config.data.length;
    loss_at(&*opened.model, &text, length, 2_048_usize.div_ceil(length))
}

/// The loss of the unigram distribution of that text: what a model reaches that knows only how frequent words are.
pub fn unigram_loss(lab: &Lab, config: &RunConfig, tokenizer: &Tokenizer) -> Result<f64> {
    entropy(&test_text(lab, config, tokenizer)?)
}

/// The entropy of the unigram distribution of a text, in nats.
pub fn entropy(text: &TokenStream) -> Result<f64> {
    let mut ids = vec![0; text.len()];
    text.copy(0, &mut ids)?;
    let mut counts: HashMap<u32, u32> = HashMap::new();
    for id in ids {
        *counts.entry(id).or_default() += 1;
    }
    let mut counts: Vec<f64> = counts.into_values().map(f64::from).collect();
    // Sums depend on their order, and a map has none.
    counts.sort_by(f64::total_cmp);
    let total: f64 = counts.iter().sum();
    Ok(counts.iter().map(|count| -count / total * (count / total).ln()).sum())
}

/// That a language model learned more than how frequent words are: its loss by seed, and that of the unigram distribution.
pub fn learned(model: impl std::fmt::Display, loss: &Sample, unigram: &Sample) -> Check {
    let what = format!("loss on test text − that of the unigram distribution: {model}");
    Check::new(what, paired(loss, unigram), Bound::Below(0.0))
}

/// A text cut to so many tokens, if it is not empty.
pub fn tokens_of(tokenizer: &Tokenizer, text: &str, most: usize) -> Result<Option<Tokens>> {
    let mut encoding = tokenizer.encode(text, Special::Drop)?;
    encoding.truncate(most, regard_nn::tokens::Keep::First)?;
    Ok((!encoding.is_empty()).then(|| Tokens::from_encoding(&encoding)))
}

/// Built-in sentences that no model was trained on, with their trees, as a model with this tokenizer reads them.
pub fn parsed_sentences(tokenizer: &Tokenizer, count: usize, most: usize) -> Result<Vec<(Tokens, Aligned)>> {
    let texts = sources::builtin_test()?;
    let mut sentences = Vec::with_capacity(count);
    for parsed in texts.iter().flat_map(Parsed::from_text) {
        let encoding = tokenizer.encode(&parsed.text, Special::Drop)?;
        if (4..=most).contains(&encoding.ids.len()) {
            sentences.push(parsed.align(&encoding));
        }
        if sentences.len() == count {
            break;
        }
    }
    Ok(sentences)
}

/// A BERT of the base model's form, but that every word attends to every other: it learns to predict masked words of the same texts,
/// until it has predicted as many as the base model.
pub fn masked_words(lab: &Lab, seed: u64) -> Result<RunConfig> {
    let mut config = like_base(lab, "masked-words", seed)?;
    let mut form = base_form(lab, seed)?;
    form.encoder = form.decoder.take();
    "bert".clone_into(&mut form.family);
    config.model = Recipe::Transformer(Box::new(form));
    let length = config.data.length;
    let texts = Corpus::new(config.data.builtin(), seed)?;
    let tokens = texts.texts().take(SAMPLE).map(|text| text.words().count().min(length));
    config.train.batch_size = as_many_tokens(&config, tokens);
    config.train.steps = (config.train.steps as f64 / f64::from(Masking::SHARE)).round() as u64;
    config.train.evaluate_every = (config.train.steps / 5).max(1);
    Ok(config)
}

/// So many texts are sampled for the mean length.
const SAMPLE: usize = 500;

/// How many texts of these lengths have as many tokens as the windows of a step of the base model.
fn as_many_tokens(config: &RunConfig, lengths: impl Iterator<Item = usize>) -> usize {
    let lengths: Vec<f64> = lengths.map(|length| length as f64).collect();
    let windows = (config.train.batch_size * config.data.length) as f64;
    (windows / mean(&lengths).mean).round().max(1.0) as usize
}

/// A T5 of the base model's form, with half of its layers in an encoder and half in a decoder that attends to it. It learns to put
/// sentences into the passive, and predicts as many words of passives a step as the base model predicts words.
pub fn passive(lab: &Lab, seed: u64) -> Result<RunConfig> {
    let mut config = like_base(lab, "translate", seed)?;
    let mut form = base_form(lab, seed)?;
    let mut stack = form.decoder.take().context("a GPT has a decoder")?;
    stack.n_layers = stack.n_layers.div_ceil(2);
    form.encoder = Some(stack.clone());
    for layer in &mut stack.layers {
        // Positions say nothing across two texts.
        layer.cross = Some(form::Attention { fused: false, positions: None, ..layer.attention.clone() });
    }
    form.decoder = Some(stack);
    if let form::Input::Tokens(tokens) = &mut form.input {
        tokens.start = Some(0);
    }
    "t5".clone_into(&mut form.family);
    config.model = Recipe::Transformer(Box::new(form));
    let pairs = Pairs::new(seed);
    config.train.batch_size =
        as_many_tokens(&config, pairs.pairs().take(SAMPLE).map(|pair| tokens_in(&pair.target)));
    Ok(config)
}

/// About how many tokens of a step of the base model's windows are those of passives, if it reads each sentence before its passive.
pub fn share_of_passives(seed: u64) -> f64 {
    let pairs = Pairs::new(seed);
    let shares = pairs.pairs().take(SAMPLE).map(|pair| {
        let (source, target) = (tokens_in(&pair.source) as f64, tokens_in(&pair.target) as f64);
        target / (source + target + 2.0)
    });
    mean(&shares.collect::<Vec<_>>()).mean
}

/// The words and punctuation marks of a text.
fn tokens_in(text: &str) -> usize {
    text.split_whitespace().count() + text.matches(|c: char| c.is_ascii_punctuation()).count()
}

fn base_form(lab: &Lab, seed: u64) -> Result<Form> {
    Ok(gpt(&mut base(lab, seed)?)?.form())
}

/// A preset's data with the base model's words, texts, steps and rates.
fn like_base(lab: &Lab, name: &str, seed: u64) -> Result<RunConfig> {
    let base = base(lab, seed)?;
    let mut config = preset(name, &[])?;
    (config.tokens, config.data, config.train) = (base.tokens, base.data, base.train);
    config.run.save_every = 0;
    Ok(config)
}
