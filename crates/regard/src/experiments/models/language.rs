//! The small language models that several experiments train and test. One of them, the base, is shared: it is trained once.

use crate::experiment::{Lab, Sizes, Trained};
use crate::model::Opened;
use crate::run::{RunConfig, preset, sources, text_files};
use crate::statistics::mean;
use anyhow::{Result, bail};
use regard_nn::Context;
use regard_nn::analysis::Tokens;
use regard_nn::analysis::dependencies::{Aligned, Parsed};
use regard_nn::data::batches::{Masking, PackedWindows};
use regard_nn::data::builtin::{Corpus, Pairs};
use regard_nn::data::text::TokenStream;
use regard_nn::models::{GptConfig, Inputs, Model, Recipe};
use regard_nn::position::Position;
use regard_nn::tensor::Ids;
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tokens::{Special, Tokenizer};
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
    .full(&["tokens.size=10000", "data.length=128", "data.texts=40000", "train.steps=2000"]);
    let mut config = lab.preset("words-gpt", SETTINGS, seed)?;
    config.train.evaluate_every = (config.train.steps / 5).max(1);
    config.run.snapshots = vec![0];
    let length = config.data.length;
    let form = gpt(&mut config)?;
    (form.context, form.positions) = (ROOM * length, Position::Rotary);
    form.deviation = initial_deviation(form.d_model);
    Ok(config)
}

/// What was changed about the base model after results had been seen.
pub const GPT_CHANGED: &str = "The base model got more steps, a higher rate, rotary positions and larger initial weights after first \
    runs, in which it had hardly learned; all were chosen by its loss on held-out text.";

/// The deviation of initial weights that keeps the size of what passes through a layer. GPT-2's 0.02 is for vectors of 768;
/// narrow models that start from it hardly learn at first.
fn initial_deviation(width: usize) -> f32 {
    (width as f32).powf(-0.5)
}

/// The base model's configuration on real text if there is any: words as white space separates them, two epochs.
pub fn base_on_text(lab: &Lab, seed: u64) -> Result<RunConfig> {
    let mut config = base(lab, seed)?;
    if let Some(path) = lab.setup.data {
        config.data.path = lab.data();
        config.tokens.kind = crate::run::TokensKind::Whitespace;
        if lab.setup.size == crate::experiment::Size::Full {
            let read = (config.train.batch_size * config.data.length) as u64;
            config.train.steps = (2 * count_words(path)?).div_ceil(read).max(1);
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
        lab.at(Sizes::quick(300).smoke(20).standard(1_000).full(2_000)),
    )?;
    let mut ids =
        vec![0; text.len().min(lab.at(Sizes::quick(20_000).smoke(600).standard(60_000).full(usize::MAX)))];
    text.copy(0, &mut ids)?;
    Ok(TokenStream::new(&ids)?)
}

/// The mean loss of a trained model on that text, in windows as long as those it was trained on.
pub fn test_loss(lab: &Lab, config: &RunConfig, opened: &Opened) -> Result<f64> {
    let text = test_text(lab, config, opened.tokenizer()?)?;
    let length = config.data.length;
    loss_at(&*opened.model, &text, length, 2_048_usize.div_ceil(length))
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

/// A BERT of the base model's size, which learns to predict masked words of the same texts.
pub fn masked_words(lab: &Lab, seed: u64) -> Result<RunConfig> {
    let mut config = like_base(lab, "masked-words", seed)?;
    let form = base_form(lab)?;
    let Recipe::Bert(bert) = &mut config.model else { bail!("this is not a BERT") };
    (bert.n_layers, bert.n_heads, bert.d_model) = (form.n_layers, form.n_heads, form.d_model);
    (bert.d_hidden, bert.context, bert.dropout) = (4 * form.d_model, config.data.length, 0.0);
    bert.deviation = initial_deviation(bert.d_model);
    // Post-norm needs a slower start: of the rates tried, this one did best on held-out texts.
    config.train.rate.highest *= 0.4;
    config.train.rate.lowest *= 0.4;
    config.train.rate.warmup *= 3;
    config.train.weight_decay = 0.01;
    let length = config.data.length;
    let texts = Corpus::new(config.data.builtin(), seed)?;
    let tokens = texts.texts().take(SAMPLE).map(|text| text.words().count().min(length));
    config.train.batch_size = as_many_tokens(&config, tokens);
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

/// The same, for so many more steps that it predicts as many words as the base model does.
pub fn masked_words_longer(lab: &Lab, seed: u64) -> Result<RunConfig> {
    let mut config = masked_words(lab, seed)?;
    config.train.steps = (config.train.steps as f64 / f64::from(Masking::SHARE)).round() as u64;
    config.train.evaluate_every = (config.train.steps / 5).max(1);
    Ok(config)
}

/// A T5 with as many layers as the base model, half of them in the decoder, which learns to put sentences into the passive.
pub fn passive(lab: &Lab, seed: u64) -> Result<RunConfig> {
    let mut config = like_base(lab, "translate", seed)?;
    let form = base_form(lab)?;
    let Recipe::T5(t5) = &mut config.model else { bail!("this is not a T5") };
    t5.n_layers = form.n_layers.div_ceil(2);
    t5.n_decoder_layers = form.n_layers.div_ceil(2);
    (t5.n_heads, t5.d_model, t5.d_head) = (form.n_heads, form.d_model, form.d_model / form.n_heads.max(1));
    (t5.d_hidden, t5.dropout, t5.smoothing) = (4 * form.d_model, 0.0, 0.0);
    let tokens = |text: &str| {
        text.split_whitespace().count() + text.matches(|c: char| c.is_ascii_punctuation()).count()
    };
    let pairs = Pairs::new(seed);
    let lengths = pairs.pairs().take(SAMPLE).map(|pair| tokens(&pair.source) + tokens(&pair.target));
    config.train.batch_size = as_many_tokens(&config, lengths);
    Ok(config)
}

fn base_form(lab: &Lab) -> Result<GptConfig> {
    Ok(gpt(&mut base(lab, 0)?)?.clone())
}

/// A preset's model with the base model's words, texts, steps and rates.
fn like_base(lab: &Lab, name: &str, seed: u64) -> Result<RunConfig> {
    let base = base(lab, seed)?;
    let mut config = preset(name, &[])?;
    (config.tokens, config.data, config.train) = (base.tokens, base.data, base.train);
    config.run.save_every = 0;
    Ok(config)
}
