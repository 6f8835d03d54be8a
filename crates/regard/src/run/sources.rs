//! Data sources: files as they are published, or the built-in corpus.

use super::config::DataConfig;
use super::memory;
use super::text_files::{lines, test_text, train_and_validation};
use crate::bad_usage;
use anyhow::{Context as _, Result, bail};
use regard_nn::data::batches::{Hiding, Tagging};
use regard_nn::data::builtin::{self, Corpus, Pairs, Split};
use regard_nn::data::idx::Images;
use regard_nn::data::imdb::{Duplicates, Imdb};
use regard_nn::data::parallel::Parallel;
use regard_nn::data::text::TokenStream;
use regard_nn::data::{Example, Labelled, table, treebank};
use regard_nn::tensor::random::Key;
use regard_nn::tokens::{Special, Tokenizer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Words with their class.
pub type Tagged = Vec<(String, u32)>;

/// Sentences in which some words are masked, others in each epoch, to be classified as content or function words.
pub fn tagging(tokenizer: &Tokenizer, sentences: &[Tagged], length: usize, key: Key) -> Result<Tagging> {
    let Some(mask) = tokenizer.special().mask else { bail!("the tokenizer has no mask") };
    let (mut texts, mut classes) = (Vec::new(), Vec::new());
    let mut known = BTreeMap::new();
    for sentence in sentences {
        let sentence = &sentence[..sentence.len().min(length)];
        let ids = sentence.iter().map(|(word, _)| word_id(tokenizer, word, &mut known));
        let ids = ids.collect::<Result<Vec<u32>>>()?;
        texts.push(ids);
        classes.push(sentence.iter().map(|(_, class)| *class).collect());
    }
    let tagging = Tagging::new(texts, classes, tokenizer.special().pad.unwrap_or(0))?;
    Ok(tagging.hiding(Hiding::new(mask, key)))
}

/// The length that texts are cut to for a model that reads `most` tokens.
pub fn length(config: &DataConfig, most: usize) -> usize {
    if config.length == 0 { most } else { config.length.min(most) }
}

/// The files in a run's folder that keep the ids of a text too long for memory.
pub const TRAIN_IDS: &str = "train.ids";
/// The same of what is held out, where that is a file of its own.
pub const HELD_OUT_IDS: &str = "held-out.ids";

/// The number of built-in texts that a model is tested on.
pub const TEST_TEXTS: usize = 2_000;

/// Built-in texts that no model was trained on.
pub fn builtin_test() -> Result<Vec<builtin::Text>> {
    builtin_test_like(&DataConfig::default())
}

/// The same, like those that a model was trained on.
fn builtin_test_like(config: &DataConfig) -> Result<Vec<builtin::Text>> {
    let corpus = Corpus::new(config.builtin(), 0)?.split(Split::Test);
    Ok(corpus.texts().take(TEST_TEXTS).collect())
}

/// Texts to test on: the lines of a file, or built-in ones.
pub fn test_texts(config: &DataConfig) -> Result<Vec<String>> {
    match &config.path {
        Some(path) => lines(&[PathBuf::from(path)]),
        None => Ok(builtin_test_like(config)?.iter().map(|text| text.text().to_owned()).collect()),
    }
}

/// A running text to measure a language model on: the test file of a folder, or else its validation file, or else the held-out
/// share of a file; or so many built-in texts that no model was trained on, each followed by what ends a text.
pub fn test_stream(config: &DataConfig, tokenizer: &Tokenizer, texts: usize) -> Result<TokenStream> {
    let Some(path) = &config.path else {
        let corpus = Corpus::new(config.builtin(), 0)?.split(Split::Test);
        let texts: Vec<String> =
            corpus.texts().take(texts).map(|text| format!("{}\n", text.text())).collect();
        let ids = tokenizer.encode_all(&texts, Special::Drop, None)?;
        let end = tokenizer.special().eos;
        let ids: Vec<u32> = ids.into_iter().flat_map(|ids| ids.into_iter().chain(end)).collect();
        return Ok(TokenStream::new(&ids)?);
    };
    let path = Path::new(path);
    let (train, held) = train_and_validation(path)?;
    match test_text(path, &train)?.or(held) {
        Some(held) => Ok(TokenStream::read(&[held], tokenizer)?),
        None => Ok(TokenStream::read(&train, tokenizer)?.hold_out(config.held_out)?.1),
    }
}

/// Labelled texts to test on: IMDb's test part, a table, or built-in ones.
pub fn test_labelled(config: &DataConfig) -> Result<Labelled> {
    match config.path.as_deref().map(Path::new) {
        Some(path) if is_imdb(path)? => Ok(Imdb::open(path)?.test),
        Some(path) => labelled_table(&test_file(path, &TABLES)?, config),
        None => Ok(builtin_labelled(&builtin_test_like(config)?)),
    }
}

/// Images to test on.
pub fn test_images(config: &DataConfig) -> Result<Images> {
    match &config.path {
        Some(path) => images(Path::new(path), "t10k"),
        None => Ok(builtin::digits(0, "test", TEST_TEXTS)),
    }
}

/// Sentences with the classes of their words to test on.
pub fn test_tagged(config: &DataConfig) -> Result<Vec<Tagged>> {
    match &config.path {
        Some(path) => tagged_file(&test_file(Path::new(path), &TREEBANKS)?),
        None => Ok(tagged(&builtin_test_like(config)?)),
    }
}

/// Pairs to test on.
pub fn test_pairs(config: &DataConfig, part: &str) -> Result<Vec<(String, String)>> {
    match &config.path {
        Some(path) => parallel(Path::new(path), part, config),
        None => {
            let pairs = Pairs::new(0).split(Split::Test);
            Ok(pairs.pairs().take(TEST_TEXTS / 2).map(|pair| (pair.source, pair.target)).collect())
        }
    }
}

/// Built-in texts with their labels.
pub fn builtin_labelled(texts: &[builtin::Text]) -> Labelled {
    let example = |text: &builtin::Text| Example {
        text: text.text().to_owned(),
        second: None,
        label: text.label.class(),
    };
    Labelled {
        classes: vec!["negative".to_owned(), "positive".to_owned()],
        examples: texts.iter().map(example).collect(),
    }
}

/// Whether a path is IMDb's archive or its folder; a folder may also hold tables.
pub(crate) fn is_imdb(path: &Path) -> Result<bool> {
    if path.is_dir() {
        return Ok(part(path, "train", &TABLES)?.is_none());
    }
    let name = path.to_string_lossy();
    Ok([".tar.gz", ".tar", ".tgz"].iter().any(|end| name.ends_with(end)))
}

/// The id of a word: its first piece, or the unknown word. Ids of words that came before are known.
pub fn word_id<'w>(tokenizer: &Tokenizer, word: &'w str, known: &mut BTreeMap<&'w str, u32>) -> Result<u32> {
    if let Some(&id) = known.get(word) {
        return Ok(id);
    }
    let first = tokenizer.encode(word, Special::Drop)?.ids.first().copied();
    let id = first.or(tokenizer.special().unknown).unwrap_or(0);
    known.insert(word, id);
    Ok(id)
}

/// What hides the words of a run's training sentences.
pub fn training_hiding(mask: u32, seed: u64) -> Hiding {
    Hiding::new(mask, Key::new(seed).site("data").site("mask"))
}

/// Sentences with the classes of their words, to learn from and to measure on while learning, and where they are from.
pub fn tagged_parts(config: &DataConfig, seed: u64) -> Result<(Vec<Tagged>, Vec<Tagged>, String)> {
    let (train, held, about) = match config.path.as_deref().map(Path::new) {
        Some(path) => {
            let mut sentences = tagged_file(&training_file(path, &TREEBANKS)?)?;
            let held = sentences.split_off(split_point(sentences.len(), config.held_out)?);
            (sentences, held, path.display().to_string())
        }
        None => {
            let settings = config.builtin();
            memory::ensure_texts_fit(
                config.texts,
                settings.fewest_sentences.saturating_mul(memory::BYTES_OF_A_SENTENCE),
            )?;
            let corpus = Corpus::new(settings, seed)?;
            let texts = |split: Split, count: usize| -> Vec<builtin::Text> {
                corpus.split(split).texts().take(count).collect()
            };
            let (train, held) =
                (texts(Split::Train, config.texts), texts(Split::Validation, config.texts.div_ceil(10)));
            (tagged(&train), tagged(&held), "the built-in corpus".to_owned())
        }
    };
    Ok((limited(train, config.limit), held, about))
}

/// How the names of treebanks end.
pub const TREEBANKS: [&str; 2] = [".conllu", ".conllu.gz"];
/// How the names of tables end.
pub const TABLES: [&str; 4] = [".tsv", ".tsv.gz", ".csv", ".csv.gz"];

/// The file to learn from: the path itself, or in a folder the one with `train` in its name.
pub fn training_file(path: &Path, kinds: &[&str]) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let found = part(path, "train", kinds)?;
    found.with_context(|| format!("{} has no {} file with train in its name", path.display(), kinds[0]))
}

/// The file to test on: the path itself, or in a folder the one with `test` in its name, or else `dev`.
pub fn test_file(path: &Path, kinds: &[&str]) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let found =
        part(path, "test", kinds)?.map_or_else(|| part(path, "dev", kinds), |found| Ok(Some(found)))?;
    found.with_context(|| format!("{} has no {} file with test or dev in its name", path.display(), kinds[0]))
}

/// The first file of a folder with a word in its name and such an end.
fn part(folder: &Path, word: &str, kinds: &[&str]) -> Result<Option<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let fits = |file: &PathBuf| {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.contains(word) && kinds.iter().any(|end| name.ends_with(end))
    };
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).filter(fits).min())
}

/// Whoever trains and tests on one path needs more than a table: it would be tested on what it taught.
pub fn ensure_test_part(path: &Path) -> Result<()> {
    if path.is_file() && !is_imdb(path)? {
        bad_usage!(
            "{} has no part that is not learned from; give a folder with a table named train and one named test or dev",
            path.display()
        );
    }
    Ok(())
}

/// The sentences of built-in texts, with the classes of their words.
pub fn tagged(texts: &[builtin::Text]) -> Vec<Tagged> {
    let sentences = texts.iter().flat_map(|text| &text.sentences);
    let words = sentences.map(|sentence| {
        let kept = sentence.words.iter().filter(|word| word.part_of_speech.tag() != "PUNCT");
        kept.map(|word| (word.text.clone(), u32::from(word.part_of_speech.is_content()))).collect()
    });
    words.filter(|sentence: &Tagged| !sentence.is_empty()).collect()
}

fn tagged_file(path: &Path) -> Result<Vec<Tagged>> {
    const CONTENT: [&str; 6] = ["ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB"];
    let sentences = treebank::read(path)?.into_iter().map(|sentence| {
        let words = sentence
            .words
            .into_iter()
            .map(|word| (word.form, treebank::PARTS_OF_SPEECH[word.part_of_speech]));
        let kept = words.filter(|(_, tag)| !["PUNCT", "SYM", "X"].contains(tag));
        kept.map(|(form, tag)| (form, u32::from(CONTENT.contains(&tag)))).collect()
    });
    Ok(sentences.filter(|sentence: &Tagged| !sentence.is_empty()).collect())
}

/// Labelled texts of a file: IMDb's archive or folder, or a table.
pub fn labelled_file(path: &Path, config: &DataConfig) -> Result<Labelled> {
    Ok(labelled_file_and_duplicates(path, config)?.0)
}

/// The same, with a line about texts that are there more than once, if it has some.
pub(super) fn labelled_file_and_duplicates(
    path: &Path,
    config: &DataConfig,
) -> Result<(Labelled, Option<String>)> {
    if !is_imdb(path)? {
        return Ok((labelled_table(&training_file(path, &TABLES)?, config)?, None));
    }
    let Imdb { train, duplicates, .. } = Imdb::open(path)?;
    let duplicates = (duplicates != Duplicates::default()).then(|| describe_duplicates(duplicates));
    Ok((train, duplicates))
}

/// Describes the duplicates of a data set.
pub fn describe_duplicates(duplicates: Duplicates) -> String {
    let Duplicates { train, test, across } = duplicates;
    format!("duplicates as published: {train} within train, {test} within test, {across} texts in both")
}

pub(crate) fn labelled_table(path: &Path, config: &DataConfig) -> Result<Labelled> {
    let columns =
        table::Columns { text: config.text_column.clone(), second: None, label: config.label_column.clone() };
    Ok(table::read(path, table::Format::of(path), &columns)?)
}

/// Pairs of lines of `PART.SOURCE` and `PART.TARGET`, plain or gzipped.
pub fn parallel(folder: &Path, part: &str, config: &DataConfig) -> Result<Vec<(String, String)>> {
    let file = |language: &str| plain_or_gzipped(folder, &format!("{part}.{language}"));
    let parallel = Parallel::open(file(&config.source)?, file(&config.target)?)?;
    Ok(parallel.pairs.into_iter().map(|pair| (pair.source, pair.target)).collect())
}

/// The part of parallel text to measure on while learning, by its name: the first of those that are usual.
pub(super) fn held_out_part(folder: &Path, config: &DataConfig) -> Result<&'static str> {
    const USUAL: [&str; 3] = ["val", "valid", "dev"];
    let there = |part: &&str| plain_or_gzipped(folder, &format!("{part}.{}", config.source)).is_ok();
    USUAL.into_iter().find(there).with_context(|| {
        let names: Vec<String> = USUAL.map(|part| format!("{part}.{}", config.source)).to_vec();
        format!("{} has nothing to measure on while learning: none of {}", folder.display(), names.join(", "))
    })
}

/// The images of a folder in the format of MNIST: `train` or `t10k`.
pub fn images(folder: &Path, part: &str) -> Result<Images> {
    let file = |kind: &str| plain_or_gzipped(folder, &format!("{part}-{kind}"));
    Ok(Images::open(file("images-idx3-ubyte")?, file("labels-idx1-ubyte")?)?)
}

/// A file of a folder by its name, or that name with `.gz`.
pub(crate) fn plain_or_gzipped(folder: &Path, name: &str) -> Result<PathBuf> {
    let names = [name.to_owned(), format!("{name}.gz")];
    let found = names.iter().map(|name| folder.join(name)).find(|path| path.is_file());
    found.with_context(|| format!("{} has neither {} nor {}", folder.display(), names[0], names[1]))
}

/// How many of some examples are left if a share of them, the last ones, is held out.
pub fn split_point(count: usize, share: f64) -> Result<usize> {
    let point = (count as f64 * (1.0 - share)) as usize;
    if point == 0 || point >= count {
        bail!("{count} examples are too few to hold out a share of {share}");
    }
    Ok(point)
}

/// At most so many of `count` things (0: all), in order: one of every stretch, since files often have one class after the other,
/// and which one is drawn, since others have them by turns.
pub fn spread(count: usize, limit: usize) -> Vec<usize> {
    if limit == 0 || count <= limit {
        return (0..count).collect();
    }
    let key = Key::new(0).site("spread");
    let stretch = |i: usize| i * count / limit..(i + 1) * count / limit;
    (0..limit).map(stretch).enumerate().map(|(i, at)| at.start + key.below(i as u64, 0, at.len())).collect()
}

/// At most so many labelled examples (all if 0), spread over them.
pub fn thinned(all: Labelled, limit: usize) -> Labelled {
    let mut chosen = spread(all.examples.len(), limit).into_iter().peekable();
    let kept = all.examples.into_iter().enumerate().filter(|(i, _)| chosen.next_if_eq(i).is_some());
    Labelled { examples: kept.map(|(_, example)| example).collect(), classes: all.classes }
}

/// At most so many images (all if 0), spread over them.
pub fn some_images(all: Images, limit: usize) -> Images {
    match limit == 0 || all.len() <= limit {
        true => all,
        false => all.some(&spread(all.len(), limit)),
    }
}

pub(super) fn limited<T>(mut all: Vec<T>, limit: usize) -> Vec<T> {
    if limit > 0 {
        all.truncate(limit);
    }
    all
}
