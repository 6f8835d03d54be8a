//! What is in a data set, counted: whatever the readers of this program read.
//!
//! A word is what stands between white space here; what a model takes for a word is for its tokenizer to say.

use crate::run::DataConfig;
use crate::run::sources::{self, TABLES, TREEBANKS};
use crate::terminal::{line, thousands};
use anyhow::{Context as _, Result, bail};
use regard_nn::Checksum;
use regard_nn::data::file::Lines;
use regard_nn::data::idx::Images;
use regard_nn::data::imdb::Imdb;
use regard_nn::data::parallel::Parallel;
use regard_nn::data::{Labelled, treebank};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Counts what is in a file or folder, whichever kind of data it is.
pub fn survey(path: &Path, config: &DataConfig) -> Result<()> {
    if !path.is_dir() {
        return survey_file(path, config);
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(path)
        .with_context(|| format!("cannot read {}", path.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| file.is_file())
        .collect();
    files.sort();
    let parts: Vec<String> = files.iter().filter_map(|file| part_of(file, "-images-idx3-ubyte")).collect();
    if !parts.is_empty() {
        for part in parts {
            images(&part, &sources::images(path, &part)?);
        }
        return Ok(());
    }
    if path.join("aclImdb").is_dir() || path.join("train/pos").is_dir() {
        return imdb(path);
    }
    let parts: Vec<String> =
        files.iter().filter_map(|file| part_of(file, &format!(".{}", config.source))).collect();
    if !parts.is_empty() {
        return parts.iter().try_for_each(|part| {
            let [source, target] = [&config.source, &config.target]
                .map(|language| sources::plain_or_gzipped(path, &format!("{part}.{language}")));
            pairs(part, &Parallel::open(source?, target?)?, config);
            Ok(())
        });
    }
    let known: Vec<&PathBuf> =
        files.iter().filter(|file| ends(file, &TABLES) || ends(file, &TREEBANKS)).collect();
    if !known.is_empty() {
        return known.iter().try_for_each(|file| survey_file(file, config));
    }
    if files.is_empty() {
        bail!("{} has no files", path.display());
    }
    files.iter().try_for_each(|file| survey_file(file, config))
}

fn survey_file(path: &Path, config: &DataConfig) -> Result<()> {
    let name = path.display().to_string();
    if sources::is_imdb(path)? {
        imdb(path)
    } else if ends(path, &TREEBANKS) {
        sentences(&name, &treebank::read(path)?);
        Ok(())
    } else if ends(path, &TABLES) {
        labelled(&name, &sources::labelled_table(path, config)?);
        Ok(())
    } else {
        text(&name, path)
    }
}

fn ends(path: &Path, kinds: &[&str]) -> bool {
    kinds.iter().any(|end| path.to_string_lossy().ends_with(end))
}

/// What stands before an end in the name of a file, plain or gzipped.
fn part_of(file: &Path, end: &str) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    Some(name.strip_suffix(".gz").unwrap_or(name).strip_suffix(end)?.to_owned())
}

/// Counts of texts and their words.
#[derive(Default)]
struct Words {
    /// How many texts have so many words.
    lengths: BTreeMap<u64, u64>,
    counts: HashMap<String, u64>,
    /// Checksums of the texts, for those that come again: a long file's texts would not fit memory.
    seen: HashSet<u64>,
    duplicates: u64,
}

impl Words {
    fn add<'t>(&mut self, text: &str, words: impl Iterator<Item = &'t str>) {
        let mut length = 0;
        for word in words {
            length += 1;
            match self.counts.get_mut(word) {
                Some(count) => *count += 1,
                None => drop(self.counts.insert(word.to_owned(), 1)),
            }
        }
        *self.lengths.entry(length).or_default() += 1;
        let mut sum = Checksum::default();
        sum.bytes(text.as_bytes());
        self.duplicates += u64::from(!self.seen.insert(sum.value()));
    }

    fn texts(&self) -> u64 {
        self.lengths.values().sum()
    }

    /// The length that a share of the texts do not exceed.
    fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.texts() as f64 * share) as u64;
        let mut passed = 0;
        let at = self.lengths.iter().find(|(_, count)| {
            passed += **count;
            passed > wanted
        });
        at.map_or(0, |(&length, _)| length)
    }

    /// A line about all of it, and one about each thing that can be counted. A text may be called something else.
    fn tell(&self, name: &str, one: &str, many: &str) {
        let words: u64 = self.counts.values().sum();
        line(format!(
            "{name}: {} {many}, {} words, {} distinct",
            thousands(self.texts()),
            thousands(words),
            thousands(self.counts.len() as u64)
        ));
        let mean = words as f64 / self.texts().max(1) as f64;
        tell(
            &format!("words a {one}"),
            &format!(
                "mean {mean:.1}, median {}, nine of ten at most {}",
                self.quantile(0.5),
                self.quantile(0.9)
            ),
        );
        tell("duplicates", &format!("{} {many} that an earlier one is equal to", thousands(self.duplicates)));
        let mut order: Vec<(&String, &u64)> = self.counts.iter().collect();
        order.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let most: Vec<String> =
            order.iter().take(12).map(|(word, _)| word.chars().take(30).collect()).collect();
        tell("most frequent", &most.join(" "));
    }
}

fn tell(what: &str, found: &str) {
    line(format!("  {what:<17} {found}"));
}

/// Names with their counts, not more than a screen has room for.
fn counted<'n>(names: impl Iterator<Item = (&'n str, u64)>) -> String {
    let all: Vec<String> = names
        .map(|(name, count)| format!("{}: {}", name.chars().take(30).collect::<String>(), thousands(count)))
        .collect();
    match all.len() {
        0..=20 => all.join(", "),
        more => format!("{}, and {} more", all[..20].join(", "), more - 20),
    }
}

fn text(name: &str, path: &Path) -> Result<()> {
    let (mut words, mut lines, mut characters, mut empty) = (Words::default(), Lines::open(path)?, 0, 0);
    while let Some(line) = lines.next()? {
        characters += line.chars().count() as u64 + 1;
        match line.trim().is_empty() {
            true => empty += 1,
            false => words.add(line, line.split_whitespace()),
        }
    }
    if words.texts() == 0 {
        bail!("{name}: there is no text in it");
    }
    words.tell(name, "line", "lines");
    tell("characters", &format!("{}; {} lines are empty", thousands(characters), thousands(empty)));
    Ok(())
}

fn labelled(name: &str, labelled: &Labelled) {
    let mut words = Words::default();
    for example in &labelled.examples {
        words.add(&example.text, example.text.split_whitespace());
    }
    words.tell(name, "text", "texts");
    let counts = labelled.class_counts();
    tell(
        "classes",
        &counted(labelled.classes.iter().map(String::as_str).zip(counts.iter().map(|&count| count as u64))),
    );
}

fn imdb(path: &Path) -> Result<()> {
    let imdb = Imdb::open(path)?;
    labelled("train", &imdb.train);
    labelled("test", &imdb.test);
    line(sources::duplicates_told(imdb.duplicates));
    Ok(())
}

fn sentences(name: &str, sentences: &[treebank::Sentence]) {
    let (mut words, mut parts) = (Words::default(), vec![0_u64; treebank::PARTS_OF_SPEECH.len()]);
    for sentence in sentences {
        words.add(&sentence.text, sentence.words.iter().map(|word| word.form.as_str()));
        sentence.words.iter().for_each(|word| parts[word.part_of_speech] += 1);
    }
    words.tell(name, "sentence", "sentences");
    let mut order: Vec<(&str, u64)> = treebank::PARTS_OF_SPEECH.into_iter().zip(parts).collect();
    order.sort_by_key(|&(name, count)| (std::cmp::Reverse(count), name));
    tell("parts of speech", &counted(order.into_iter().filter(|(_, count)| *count > 0)));
}

fn pairs(part: &str, parallel: &Parallel, config: &DataConfig) {
    let mut sides = [Words::default(), Words::default()];
    let mut both = HashSet::new();
    for pair in &parallel.pairs {
        for (words, text) in sides.iter_mut().zip([&pair.source, &pair.target]) {
            words.add(text, text.split_whitespace());
        }
        both.insert((&pair.source, &pair.target));
    }
    let count = parallel.pairs.len();
    line(format!(
        "{part}: {} pairs, {} of them equal to an earlier one; {} lines without both sides were left out",
        thousands(count as u64),
        thousands((count - both.len()) as u64),
        thousands(parallel.empty as u64)
    ));
    for (words, language) in sides.iter().zip([&config.source, &config.target]) {
        words.tell(&format!("{part}.{language}"), "line", "lines");
    }
}

fn images(part: &str, images: &Images) {
    let (mut classes, mut seen) = (BTreeMap::<u8, u64>::new(), HashSet::new());
    let mut duplicates = 0;
    for (index, &label) in images.labels.iter().enumerate() {
        *classes.entry(label).or_default() += 1;
        duplicates += u64::from(!seen.insert(images.image(index)));
    }
    line(format!("{part}: {} images of {}×{}", thousands(images.len() as u64), images.rows, images.columns));
    let names: Vec<String> = classes.keys().map(ToString::to_string).collect();
    tell("classes", &counted(names.iter().map(String::as_str).zip(classes.values().copied())));
    let sum: f64 = images.pixels.iter().map(|&pixel| f64::from(pixel)).sum();
    tell("brightness", &format!("mean {:.3} of 1", sum / images.pixels.len().max(1) as f64 / 255.0));
    tell("duplicates", &format!("{} images that an earlier one is equal to", thousands(duplicates)));
}
