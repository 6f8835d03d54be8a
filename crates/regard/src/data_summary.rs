//! Summaries of data sets for `regard data stats`: sizes, lengths, classes, duplicates.
//!
//! Words are split at white space here; the tokens of a model are its tokenizer's.

use crate::run::DataConfig;
use crate::run::sources::{self, TABLES, TREEBANKS};
use crate::terminal::{line, thousands};
use anyhow::{Context as _, Result, bail};
use regard_nn::Checksum;
use regard_nn::data::file::Lines;
use regard_nn::data::idx::Images;
use regard_nn::data::imdb::Imdb;
use regard_nn::data::memory::MemoryBudget;
use regard_nn::data::parallel::Parallel;
use regard_nn::data::{Labelled, treebank};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Prints a summary of a file or folder, for every kind of data that the program reads.
pub fn print_summary(path: &Path, config: &DataConfig) -> Result<()> {
    if !path.is_dir() {
        return print_file_summary(path, config);
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
            images(&part, path, &sources::images(path, &part)?)?;
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
            let source = source?;
            pairs(part, &source, &Parallel::open(&source, target?)?, config)
        });
    }
    let known: Vec<&PathBuf> =
        files.iter().filter(|file| ends(file, &TABLES) || ends(file, &TREEBANKS)).collect();
    if !known.is_empty() {
        return known.iter().try_for_each(|file| print_file_summary(file, config));
    }
    if files.is_empty() {
        bail!("{} has no files", path.display());
    }
    files.iter().try_for_each(|file| print_file_summary(file, config))
}

fn print_file_summary(path: &Path, config: &DataConfig) -> Result<()> {
    let name = path.display().to_string();
    if sources::is_imdb(path)? {
        imdb(path)
    } else if ends(path, &TREEBANKS) {
        sentences(path, &treebank::read(path)?)
    } else if ends(path, &TABLES) {
        labelled(&name, path, &sources::labelled_table(path, config)?)
    } else {
        text(&name, path)
    }
}

fn ends(path: &Path, kinds: &[&str]) -> bool {
    kinds.iter().any(|end| path.to_string_lossy().ends_with(end))
}

/// The name of a file without an ending, plain or gzipped.
fn part_of(file: &Path, end: &str) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    Some(name.strip_suffix(".gz").unwrap_or(name).strip_suffix(end)?.to_owned())
}

/// Counts of texts and their words.
struct WordCounts {
    /// How many texts have so many words.
    lengths: BTreeMap<u64, u64>,
    counts: HashMap<String, u64>,
    /// Checksums of the texts, for those that come again: a long file's texts would not fit memory.
    seen: HashSet<u64>,
    duplicates: u64,
    budget: MemoryBudget,
}

impl WordCounts {
    /// Counts of the texts of a file.
    fn of(path: &Path) -> Self {
        let (lengths, counts, seen) = (BTreeMap::new(), HashMap::new(), HashSet::new());
        Self { lengths, counts, seen, duplicates: 0, budget: MemoryBudget::new(path) }
    }

    fn add<'t>(&mut self, text: &str, words: impl Iterator<Item = &'t str>) -> Result<()> {
        let mut length = 0;
        for word in words {
            length += 1;
            match self.counts.get_mut(word) {
                Some(count) => *count += 1,
                None => {
                    // In the table, and in the order of frequency.
                    self.budget.add::<(String, u64, [usize; 2])>(&[word.len()])?;
                    self.counts.insert(word.to_owned(), 1);
                }
            }
        }
        *self.lengths.entry(length).or_default() += 1;
        let mut sum = Checksum::default();
        sum.bytes(text.as_bytes());
        match self.seen.insert(sum.value()) {
            true => self.budget.add::<u64>(&[])?,
            false => self.duplicates += 1,
        }
        Ok(())
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

    /// Prints a line about all texts and a row for each count. `one` and `many` say what a text is called.
    fn print(&self, name: &str, one: &str, many: &str) {
        let words: u64 = self.counts.values().sum();
        line(format!(
            "{name}: {} {many}, {} words, {} distinct",
            thousands(self.texts()),
            thousands(words),
            thousands(self.counts.len() as u64)
        ));
        let mean = words as f64 / self.texts().max(1) as f64;
        print_row(
            &format!("words a {one}"),
            &format!(
                "mean {mean:.1}, median {}, nine of ten at most {}",
                self.quantile(0.5),
                self.quantile(0.9)
            ),
        );
        print_row(
            "duplicates",
            &format!("{} {many} that an earlier one is equal to", thousands(self.duplicates)),
        );
        let mut order: Vec<(&String, &u64)> = self.counts.iter().collect();
        order.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let most: Vec<String> =
            order.iter().take(12).map(|(word, _)| word.chars().take(30).collect()).collect();
        print_row("most frequent", &most.join(" "));
    }
}

fn print_row(what: &str, found: &str) {
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
    let (mut words, mut lines, mut characters, mut empty) = (WordCounts::of(path), Lines::open(path)?, 0, 0);
    while let Some(line) = lines.next()? {
        characters += line.chars().count() as u64 + 1;
        match line.trim().is_empty() {
            true => empty += 1,
            false => words.add(line, line.split_whitespace())?,
        }
    }
    if words.texts() == 0 {
        bail!("{name}: there is no text in it");
    }
    words.print(name, "line", "lines");
    print_row("characters", &format!("{}; {} lines are empty", thousands(characters), thousands(empty)));
    Ok(())
}

fn labelled(name: &str, path: &Path, labelled: &Labelled) -> Result<()> {
    let mut words = WordCounts::of(path);
    for example in &labelled.examples {
        words.add(&example.text, example.text.split_whitespace())?;
    }
    words.print(name, "text", "texts");
    let counts = labelled.class_counts();
    print_row(
        "classes",
        &counted(labelled.classes.iter().map(String::as_str).zip(counts.iter().map(|&count| count as u64))),
    );
    Ok(())
}

fn imdb(path: &Path) -> Result<()> {
    let imdb = Imdb::open(path)?;
    labelled("train", path, &imdb.train)?;
    labelled("test", path, &imdb.test)?;
    line(sources::describe_duplicates(imdb.duplicates));
    Ok(())
}

fn sentences(path: &Path, sentences: &[treebank::Sentence]) -> Result<()> {
    let (mut words, mut parts) = (WordCounts::of(path), vec![0_u64; treebank::PARTS_OF_SPEECH.len()]);
    for sentence in sentences {
        words.add(&sentence.text, sentence.words.iter().map(|word| word.form.as_str()))?;
        sentence.words.iter().for_each(|word| parts[word.part_of_speech] += 1);
    }
    words.print(&path.display().to_string(), "sentence", "sentences");
    let mut order: Vec<(&str, u64)> = treebank::PARTS_OF_SPEECH.into_iter().zip(parts).collect();
    order.sort_by_key(|&(name, count)| (std::cmp::Reverse(count), name));
    print_row("parts of speech", &counted(order.into_iter().filter(|(_, count)| *count > 0)));
    Ok(())
}

fn pairs(part: &str, path: &Path, parallel: &Parallel, config: &DataConfig) -> Result<()> {
    let mut sides = [WordCounts::of(path), WordCounts::of(path)];
    let mut both = HashSet::new();
    for pair in &parallel.pairs {
        for (words, text) in sides.iter_mut().zip([&pair.source, &pair.target]) {
            words.add(text, text.split_whitespace())?;
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
        words.print(&format!("{part}.{language}"), "line", "lines");
    }
    Ok(())
}

fn images(part: &str, path: &Path, images: &Images) -> Result<()> {
    let (mut classes, mut seen) = (BTreeMap::<u8, u64>::new(), HashSet::new());
    let (mut duplicates, mut budget) = (0, MemoryBudget::new(path));
    for (index, &label) in images.labels.iter().enumerate() {
        *classes.entry(label).or_default() += 1;
        match seen.insert(images.image(index)) {
            true => budget.add::<Option<&[u8]>>(&[])?,
            false => duplicates += 1,
        }
    }
    line(format!("{part}: {} images of {}×{}", thousands(images.len() as u64), images.rows, images.columns));
    let names: Vec<String> = classes.keys().map(ToString::to_string).collect();
    print_row("classes", &counted(names.iter().map(String::as_str).zip(classes.values().copied())));
    let sum: f64 = images.pixels.iter().map(|&pixel| f64::from(pixel)).sum();
    print_row("brightness", &format!("mean {:.3} of 1", sum / images.pixels.len().max(1) as f64 / 255.0));
    print_row("duplicates", &format!("{} images that an earlier one is equal to", thousands(duplicates)));
    Ok(())
}
