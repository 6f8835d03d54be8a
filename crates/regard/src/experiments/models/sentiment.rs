//! The sentiment classifiers that differ only in how they attend, as several experiments train and test them.

use crate::experiment::{Bound, Check, Lab, Sizes, Trained, named};
use crate::model::Opened;
use crate::run::{RunConfig, sources};
use crate::statistics::Interval;
use anyhow::{Result, bail};
use regard_nn::analysis::{Tokens, pad};
use regard_nn::data::builtin::{self, Polarity};
use regard_nn::models::{Inputs, Pooling, Recipe, Sentiment, SentimentConfig};
use regard_nn::tokens::{Encoding, Special};
use regard_nn::{Context, Module};
use std::collections::HashSet;

/// How many seeds the three are trained with.
pub const SEEDS: Sizes<u64> = Sizes::quick(8);

named! {
    /// A model of the comparison.
    pub enum Variant {
        /// BiLSTM and max pool.
        Max = "max pool",
        /// BiLSTM and additive attention.
        Additive = "additive attention",
        /// BiLSTM, self-attention with four heads, max pool.
        Heads = "self-attention",
        /// BiLSTM and max pool, as wide as gives it the parameters (beside the word vectors) of the one with heads.
        Wide = "max pool, as many parameters",
        Wide2 = "max pool, 2× the parameters",
        Wide4 = "max pool, 4× the parameters",
    }
}

impl Variant {
    /// The three of the comparison.
    pub const THREE: [Variant; 3] = [Variant::Max, Variant::Additive, Variant::Heads];
    /// Those that are merely larger.
    pub const WIDE: [Variant; 3] = [Variant::Wide, Variant::Wide2, Variant::Wide4];

    fn preset(self) -> &'static str {
        match self {
            Variant::Additive => "sentiment-additive",
            Variant::Heads => "sentiment-heads",
            _ => "sentiment-max",
        }
    }

    /// How many times the parameters of the model with heads it has, if it was widened.
    fn times(self) -> Option<usize> {
        match self {
            Variant::Wide => Some(1),
            Variant::Wide2 => Some(2),
            Variant::Wide4 => Some(4),
            _ => None,
        }
    }
}

/// How a variant is trained: the same for all but the variant itself.
pub fn config(lab: &Lab, variant: Variant, seed: u64) -> Result<RunConfig> {
    // Small models learn faster at higher rates. At these the max pool did best on held-out texts.
    const SETTINGS: Sizes<&[&str]> = Sizes::<&[&str]>::quick(&[
        "model.d_embedding=24",
        "model.d_hidden=24",
        "train.steps=320",
        "train.batch_size=32",
        "train.rate.highest=8e-3",
        "train.rate.lowest=8e-4",
        "train.rate.decay=cosine",
    ])
    .smoke(&["model.d_embedding=8", "model.d_hidden=8", "train.steps=6", "train.batch_size=16"])
    .standard(&[
        "model.d_embedding=64",
        "model.d_hidden=64",
        "train.steps=1000",
        "train.batch_size=32",
        "train.rate.highest=4e-3",
        "train.rate.lowest=4e-4",
        "train.rate.decay=cosine",
    ])
    .full(&[]);
    let mut config = lab.preset(variant.preset(), SETTINGS, seed)?;
    config.train.patience = 0;
    config.data.texts = lab.at(Sizes::quick(4_000).smoke(60).standard(10_000).full(25_000));
    config.data.limit = lab.at(Sizes::quick(4_000).smoke(60).standard(10_000).full(0));
    config.train.evaluate_every = (config.train.steps / 6).max(1);
    config.data.path = lab.data();
    config.run.snapshots = vec![0];
    if let Recipe::Sentiment(model) = &mut config.model
        && let Some(times) = variant.times()
    {
        model.d_hidden = widened(model, times)?;
    }
    Ok(config)
}

/// Trains a variant, or takes it from an experiment that did.
pub fn trained(lab: &Lab, variant: Variant, seed: u64) -> Result<Trained> {
    lab.train(&config(lab, variant, seed)?)
}

/// The number of parameters beside the word vectors.
pub fn beside_vectors(config: &SentimentConfig) -> Result<usize> {
    let model = Sentiment::new(SentimentConfig { vocabulary: 1, ..config.clone() }, 0)?;
    Ok(model.parameter_count() - config.d_embedding)
}

/// The width at which a plain BiLSTM has at least so many times the parameters of the one with heads.
fn widened(config: &SentimentConfig, times: usize) -> Result<usize> {
    let heads = SentimentConfig { pooling: Pooling::Heads, ..config.clone() };
    let wanted = beside_vectors(&heads)? * times;
    for d_hidden in config.d_hidden.. {
        let wide = SentimentConfig { pooling: Pooling::Max, d_hidden, ..config.clone() };
        if beside_vectors(&wide)? >= wanted {
            return Ok(d_hidden);
        }
    }
    bail!("no width has {wanted} parameters")
}

/// Texts that no model was trained on, with their labels (1: positive).
pub fn test_texts(lab: &Lab) -> Result<Vec<(String, usize)>> {
    let config = config(lab, Variant::Max, lab.first_seed())?;
    let most = lab.setting("test texts", Sizes::quick(800).smoke(40).standard(2_000).full(usize::MAX));
    if let Some(path) = lab.setup.data {
        sources::ensure_test_part(path)?;
    }
    let labelled = sources::test_labelled(&config.data)?;
    if labelled.classes.len() != 2 {
        bail!("the comparison is of two classes, but the data has {}", labelled.classes.len());
    }
    let examples = sources::thinned(labelled, most).examples;
    Ok(examples.into_iter().map(|example| (example.text, example.label)).collect())
}

/// A text as a model reads it, cut to the length that it was trained with.
pub fn encode(opened: &Opened, config: &RunConfig, text: &str) -> Result<Encoding> {
    let mut encoding = opened.tokenizer()?.encode(text, Special::Keep)?;
    if config.data.length > 0 {
        encoding.truncate(config.data.length, config.data.keep)?;
    }
    Ok(encoding)
}

/// The margin of each text: the logit of "positive" minus that of "negative".
pub fn margins(opened: &Opened, texts: &[Tokens]) -> Result<Vec<f32>> {
    // Texts of like length together waste no time on padding.
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|&i| texts[i].len());
    let mut margins = vec![0.0; texts.len()];
    for batch in order.chunks(64) {
        let read: Vec<Tokens> = batch.iter().map(|&i| texts[i].clone()).collect();
        let (ids, lengths) = pad(&read)?;
        let logits = opened.model.forward(&Context::inference(), &Inputs::padded(&ids, &lengths)?)?;
        for (&i, row) in batch.iter().zip(logits.values().chunks(2)) {
            margins[i] = row[1] - row[0];
        }
    }
    Ok(margins)
}

/// That a model classifies texts better than chance.
pub fn learned(model: Variant, accuracy: Interval) -> Check {
    Check::new(format!("accuracy on test texts: {model}"), accuracy, Bound::Above(0.5))
}

/// Sentiment words: those that praise or blame by themselves.
pub fn lexicon() -> HashSet<String> {
    let words = [Polarity::Negative, Polarity::Positive].into_iter().flat_map(builtin::sentiment_words);
    words.map(|word| word.to_lowercase()).collect()
}

/// Words that carry grammar rather than content. Negations are left out: they matter here.
pub const STOP_WORDS: [&str; 48] = [
    "a", "an", "the", "and", "or", "of", "in", "on", "at", "to", "for", "with", "from", "by", "as", "is",
    "are", "was", "were", "be", "been", "being", "am", "it", "its", "this", "that", "these", "those", "he",
    "she", "they", "we", "i", "you", "his", "her", "their", "my", "your", "has", "have", "had", "do", "does",
    "did", "there", "which",
];

/// Words that reverse a sentiment.
pub fn is_negator(word: &str) -> bool {
    const NEGATORS: [&str; 12] = [
        "not", "no", "never", "nothing", "nobody", "none", "neither", "nor", "hardly", "without", "cannot",
        "lacks",
    ];
    NEGATORS.contains(&word) || word.ends_with("n't") || word.ends_with("n’t")
}
