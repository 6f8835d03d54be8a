//! Data to learn from: files as they are published, or what comes with the program.

use crate::arrays::{Reals, to_numpy};
use crate::work::work;
use anyhow::{Result, bail, ensure};
use pyo3::prelude::*;
use regard::corpus::{BUILT_IN, Corpus};
use regard::fetch::data::named;
use regard::run::{DataConfig, sources};
use regard_nn::data::Labelled;
use regard_nn::data::builtin::{self, CorpusSettings, Pairs, Split};
use regard_nn::tensor::Tensor;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most built-in texts at once.
const MOST_BUILT_IN: usize = 1_000_000;

/// Texts, the names of their classes, and the class of each if it is known.
type Texts = (Vec<String>, Vec<String>, Vec<usize>);

fn part(name: &str) -> Result<Split> {
    match name {
        "train" => Ok(Split::Train),
        "validation" => Ok(Split::Validation),
        "test" => Ok(Split::Test),
        other => bail!("part is \"train\", \"validation\" or \"test\", not {other:?}"),
    }
}

/// So many built-in things, unless Ctrl-C comes first.
fn taken<T>(all: impl Iterator<Item = T>, limit: usize, stop: &AtomicBool) -> Result<Vec<T>> {
    ensure!(
        (1..=MOST_BUILT_IN).contains(&limit),
        "limit is the number of built-in texts, 1 to {MOST_BUILT_IN}, not {limit}"
    );
    let taken: Vec<T> = all.take(limit).take_while(|_| !stop.load(Ordering::Relaxed)).collect();
    ensure!(taken.len() == limit, "stopped");
    Ok(taken)
}

fn builtin_texts(split: Split, seed: u64, limit: usize, stop: &AtomicBool) -> Result<Vec<builtin::Text>> {
    let corpus = builtin::Corpus::new(CorpusSettings::default(), seed)?.split(split);
    taken(corpus.texts(), limit, stop)
}

/// At most so many (0: all).
fn limited<T>(mut all: Vec<T>, limit: usize) -> Vec<T> {
    if limit > 0 {
        all.truncate(limit);
    }
    all
}

/// The texts of a corpus with their classes: of the program, of IMDb, of a table, or the lines of a file.
#[pyfunction]
pub fn read_texts(
    py: Python<'_>,
    name: &str,
    of: &str,
    limit: usize,
    seed: u64,
    columns: (String, String),
) -> PyResult<Texts> {
    work(py, |stop| {
        let split = part(of)?;
        if name == BUILT_IN {
            return Ok(texts_of(sources::builtin_labelled(&builtin_texts(split, seed, limit, stop)?)));
        }
        let path = named(name)?;
        let file = Path::new(&path);
        let plain = path.trim_end_matches(".gz");
        let is_table = [".tar", ".tgz", ".tsv", ".csv"].iter().any(|end| plain.ends_with(end));
        if !is_table && (!file.is_dir() || file.join("test.txt").is_file()) {
            let corpus = Corpus::open(name)?;
            let texts = corpus.texts(limit)?.collect::<regard_nn::Result<Vec<_>>>()?;
            return Ok((texts, Vec::new(), Vec::new()));
        }
        let (text_column, label_column) = columns;
        let config =
            DataConfig { path: Some(path.clone()), text_column, label_column, ..DataConfig::default() };
        let labelled = match split {
            Split::Test => sources::test_labelled(&config)?,
            _ => sources::labelled_file(file, &config)?,
        };
        Ok(texts_of(sources::thinned(labelled, limit)))
    })
}

fn texts_of(labelled: Labelled) -> Texts {
    let labels = labelled.examples.iter().map(|example| example.label).collect();
    let texts = labelled.examples.into_iter().map(|example| example.text).collect();
    (texts, labelled.classes, labels)
}

/// Sentences as words, each with its class: 1 for content words, 0 for function words.
#[pyfunction]
pub fn read_tagged(
    py: Python<'_>,
    name: &str,
    of: &str,
    limit: usize,
    seed: u64,
) -> PyResult<Vec<Vec<(String, u32)>>> {
    work(py, |stop| {
        let split = part(of)?;
        if name == BUILT_IN {
            return Ok(limited(sources::tagged(&builtin_texts(split, seed, limit, stop)?), limit));
        }
        let config = DataConfig { path: Some(named(name)?), ..DataConfig::default() };
        let sentences = match split {
            Split::Test => sources::test_tagged(&config)?,
            _ => sources::tagged_parts(&config, seed)?.0,
        };
        Ok(limited(sentences, limit))
    })
}

/// Pairs of source and target.
#[pyfunction]
pub fn read_pairs(
    py: Python<'_>,
    name: &str,
    of: &str,
    limit: usize,
    seed: u64,
) -> PyResult<Vec<(String, String)>> {
    work(py, |stop| {
        let split = part(of)?;
        if name == BUILT_IN {
            let pairs = Pairs::new(seed).split(split);
            return taken(pairs.pairs().map(|pair| (pair.source, pair.target)), limit, stop);
        }
        let config = DataConfig { path: Some(named(name)?), ..DataConfig::default() };
        let part = if split == Split::Validation { "val" } else { split.name() };
        Ok(limited(sources::test_pairs(&config, part)?, limit))
    })
}

/// Pictures (count, 1, height, width) with values from 0 to 1, and their classes.
#[pyfunction]
pub fn read_pictures<'py>(
    py: Python<'py>,
    name: &str,
    of: &str,
    limit: usize,
    seed: u64,
) -> PyResult<(Reals<'py>, Vec<u8>)> {
    let (pixels, labels) = work(py, |_| {
        let split = part(of)?;
        let images = if name == BUILT_IN {
            ensure!((1..=MOST_BUILT_IN).contains(&limit), "limit is 1 to {MOST_BUILT_IN}, not {limit}");
            builtin::digits(seed, split.name(), limit)
        } else {
            let path = named(name)?;
            let part = if split == Split::Test { "t10k" } else { "train" };
            sources::some_images(sources::images(Path::new(&path), part)?, limit)
        };
        let values: Vec<f32> = images.pixels.iter().map(|&pixel| f32::from(pixel) / 255.0).collect();
        let shape = [images.labels.len(), 1, images.rows, images.columns];
        Ok((Tensor::new(&values, shape)?, images.labels))
    })?;
    Ok((to_numpy(py, pixels)?, labels))
}
