//! The bags of word vectors that several experiments train: the classifier of the first source, and its extensions.

use crate::experiment::{Lab, Sizes, Trained, named};
use crate::experiments::models::sentiment;
use crate::model::Opened;
use crate::run::{RunConfig, sources};
use anyhow::{Context as _, Result};
use regard_nn::analysis::Tokens;
use regard_nn::data::builtin::{Corpus, CorpusSettings};
use regard_nn::models::Recipe;
use regard_nn::position::Position;
use regard_nn::tensor::Tensor;
use regard_nn::tensor::random::Key;
use regard_nn::tokens::{Keep, Special, Tokenizer};
use serde::Serialize;

/// What a bag has beside its word vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Form {
    /// The number of heads that attend over the vectors; 0 for none.
    pub heads: usize,
    /// Whether their projections are trained.
    pub trained: bool,
    /// Whether the vectors say where a word stands.
    pub positions: bool,
    /// Whether there is a residual connection around attention.
    pub residual: bool,
    /// How many times the data of the others it learns from; 0 counts as 1.
    pub data: usize,
    /// The width of the vectors, if not the source's 16.
    pub width: Option<usize>,
    /// Whether the vectors begin as those of the user's file.
    pub vectors: bool,
    /// How the vectors begin otherwise.
    pub start: Start,
}

named! {
    /// The standard deviation of word vectors before training.
    #[derive(Default)]
    pub enum Start {
        /// That of small embeddings, ours.
        #[default]
        Small = "0.1",
        /// PyTorch's.
        PyTorch = "1",
    }
}

impl Start {
    /// As a number.
    pub fn deviation(self) -> f32 {
        match self {
            Start::Small => 0.1,
            Start::PyTorch => 1.0,
        }
    }

    /// In a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Start::Small => "initial deviation 0.1",
            Start::PyTorch => "initial deviation 1, PyTorch's",
        }
    }
}

impl Form {
    /// The mean of word vectors and a classifier: the source's.
    pub const PLAIN: Form = Form {
        heads: 0,
        trained: false,
        positions: false,
        residual: false,
        data: 1,
        width: None,
        vectors: false,
        start: Start::Small,
    };

    /// The source's with vectors that begin otherwise.
    pub fn starting(start: Start) -> Form {
        Form { start, ..Form::PLAIN }
    }
}

/// How a bag is trained: on 1,000 texts, as the source does.
pub fn config(lab: &Lab, form: Form, seed: u64) -> Result<RunConfig> {
    let mut config = lab.preset("bag", Sizes::quick(&[]), seed)?;
    // Attention memorises 1,000 texts sooner, and costs more: fewer steps, smaller batches, and the last words, which hold opinions.
    let attends = form.heads > 0;
    config.train.steps = if attends {
        lab.at(Sizes::quick(200).smoke(6).standard(400))
    } else {
        lab.at(Sizes::quick(300).smoke(6).standard(600))
    };
    let length = if attends { lab.at(Sizes::quick(64).smoke(32).standard(128).full(256)) } else { 256 };
    if attends {
        config.train.batch_size = lab.at(Sizes::quick(16).standard(32));
    }
    config.data.keep = Keep::Last;
    config.train.evaluate_every = (config.train.steps / 6).max(1);
    config.run.snapshots = vec![0];
    config.data.limit = lab.at(Sizes::quick(1_000).smoke(60)) * form.data.max(1);
    config.data.texts = config.data.limit;
    config.data.length = length;
    config.data.path = lab.data();
    if form.vectors {
        config.data.vectors = lab.setup.vectors.map(|path| path.display().to_string());
    }
    if let Recipe::Bag(model) = &mut config.model {
        model.n_heads = form.heads;
        model.trained = form.trained;
        model.residual = form.residual;
        model.context = length;
        model.deviation = form.start.deviation();
        model.positions = if form.positions { Position::Learned } else { Position::None };
        model.d_embedding = form.width.unwrap_or(model.d_embedding);
    }
    Ok(config)
}

/// Trains a bag, or takes it from an experiment that did.
pub fn trained(lab: &Lab, form: Form, seed: u64) -> Result<Trained> {
    lab.train(&config(lab, form, seed)?)
}

/// The texts that a plain bag is trained on.
pub fn training_texts(lab: &Lab, seed: u64) -> Result<Vec<String>> {
    let data = config(lab, Form::PLAIN, seed)?.data;
    let Some(path) = lab.setup.data else {
        let corpus = Corpus::new(CorpusSettings::default(), seed)?;
        return Ok(corpus.texts().take(data.texts).map(|text| text.text().to_owned()).collect());
    };
    let (train, _) =
        sources::labelled_file(path, &data)?.hold_out(data.held_out, Key::new(seed).site("data"))?;
    Ok(sources::thinned(train, data.limit).examples.into_iter().map(|example| example.text).collect())
}

/// The share of texts that a bag classifies correctly.
pub fn accuracy(opened: &Opened, config: &RunConfig, texts: &[(String, usize)]) -> Result<f64> {
    let encode = |(text, _): &(String, usize)| Ok(Tokens::new(sentiment::encode(opened, config, text)?.ids));
    let tokens: Vec<Tokens> = texts.iter().map(encode).collect::<Result<_>>()?;
    let margins = sentiment::margins(opened, &tokens)?;
    let right = margins.iter().zip(texts).filter(|(margin, (_, label))| (**margin > 0.0) == (*label == 1));
    Ok(right.count() as f64 / texts.len().max(1) as f64)
}

/// The table of word vectors of a model.
pub fn vectors(opened: &Opened) -> Result<&Tensor> {
    Ok(opened.model.token_embeddings().context("the model has no word vectors")?.tensor())
}

/// The first words of a text, as many as requested, with their ids; none if it has fewer.
pub fn first_words(
    tokenizer: &Tokenizer,
    text: &str,
    count: usize,
) -> Result<Option<(Vec<String>, Vec<u32>)>> {
    let encoding = tokenizer.encode(text, Special::Drop)?;
    if encoding.len() < count {
        return Ok(None);
    }
    let words = encoding.offsets[..count].iter().map(|span| text[span.clone()].to_owned()).collect();
    Ok(Some((words, encoding.ids[..count].to_vec())))
}

/// The rows of a table of vectors, (ids, width).
pub fn rows(table: &Tensor, ids: &[u32]) -> Result<Tensor> {
    let width = table.shape().last();
    let values = table.values();
    let row = |&id: &u32| values.get(id as usize * width..(id as usize + 1) * width);
    let rows: Option<Vec<&[f32]>> = ids.iter().map(row).collect();
    let rows = rows.context("a word has no vector")?.concat();
    Ok(Tensor::new(&rows, [ids.len(), width])?)
}
