//! Experiments on labels that were drawn at random. There is nothing to learn, so that every classifier must be as good as a
//! coin on texts that it was not trained on, and no claim about classifiers may hold. That the same texts can be learned
//! where labels mean something is seen beside it: else a classifier that never learns would pass.

use regard::compute::Placement;
use regard::experiment::{Findings, Outcome, Progress, Setup, Size, Store};
use regard::experiments::find;
use regard_nn::data::builtin::{Polarity, sentiment_words};
use regard_nn::tensor::random::Key;
use std::fmt::{Display, Write as _};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Whether labels say something about their texts.
#[derive(Clone, Copy, PartialEq)]
enum Labels {
    True,
    Random,
}

const TRAINING: u64 = 300;
const TESTED: u64 = 400;
/// One text in so many is negated.
const NEGATED: u64 = 5;

/// The first words of a list of words that praise or blame.
fn judging(polarity: Polarity) -> Vec<String> {
    let plain = |word: &String| word.chars().all(|letter| letter.is_ascii_lowercase());
    sentiment_words(polarity).into_iter().filter(plain).take(20).collect()
}

/// A text of a few words, three of which praise or all blame, and what it says in all: "not" turns it round.
fn text(key: Key, number: u64, lists: &[Vec<String>; 2]) -> (String, u64) {
    const OTHERS: [&str; 8] = ["the", "film", "story", "is", "a", "was", "music", "ending"];
    let class = key.below(number, 0, 2) as u64;
    let negated = number.is_multiple_of(NEGATED);
    let mut text = Vec::new();
    for word in 0..3 {
        for place in 0..=key.below(number, 10 + word, 2) as u64 {
            text.push(OTHERS[key.below(number, 20 + 4 * word + place, OTHERS.len())].to_owned());
        }
        if negated {
            text.push("not".to_owned());
        }
        let list = &lists[class as usize];
        text.push(list[key.below(number, 40 + word, list.len())].clone());
    }
    (text.join(" "), class ^ u64::from(negated))
}

/// A folder with tables to learn from and to test on.
fn reviews(folder: &Path, labels: Labels) -> PathBuf {
    let lists = [judging(Polarity::Negative), judging(Polarity::Positive)];
    for (part, count) in [("train", TRAINING), ("test", TESTED)] {
        let key = Key::new(1).site(part);
        let mut table = "sentence\tlabel\n".to_owned();
        for number in 0..count {
            let (text, meaning) = text(key, number, &lists);
            let drawn = key.site("labels").below(number, 0, 2) as u64;
            let label = if labels == Labels::True { meaning } else { drawn };
            writeln!(table, "{text}\t{label}").unwrap();
        }
        std::fs::write(folder.join(format!("{part}.tsv")), table).unwrap();
    }
    folder.to_owned()
}

/// A folder with a treebank to learn from and one to test on. Truly, the class of a word is told by the word before it.
fn treebank(folder: &Path, labels: Labels) -> PathBuf {
    for (part, count) in [("train", 2 * TRAINING), ("test", TESTED)] {
        let key = Key::new(2).site(part);
        let mut lines = String::new();
        for number in 0..count {
            let mut before = 0;
            for place in 0..8 {
                let word = key.below(number, place, 20);
                let drawn = key.site("labels").below(number, place, 2);
                let class = if labels == Labels::True { before % 2 } else { drawn };
                let tag = ["DET", "NOUN"][class];
                let head = place;
                writeln!(lines, "{}\tw{word}\tw{word}\t{tag}\t_\t_\t{head}\tdep\t_\t_", place + 1).unwrap();
                before = word;
            }
            lines.push('\n');
        }
        std::fs::write(folder.join(format!("{part}.conllu")), lines).unwrap();
    }
    folder.to_owned()
}

/// Experiments on one data set, in one folder: they share their models.
struct Bench {
    folder: TempDir,
    data: PathBuf,
    vectors: Option<PathBuf>,
}

impl Bench {
    fn new(data: impl FnOnce(&Path) -> PathBuf) -> Self {
        let folder = TempDir::new().unwrap();
        let texts = folder.path().join("data");
        std::fs::create_dir(&texts).unwrap();
        Self { data: data(&texts), folder, vectors: None }
    }

    fn conduct(&self, name: &str, seeds: u64) -> Findings {
        let setup = Setup {
            size: Size::Quick,
            seeds: Some(seeds),
            data: Some(&self.data),
            vectors: self.vectors.as_deref(),
            placement: Placement::CPU,
            develop: true,
        };
        let out = self.folder.path().join("out");
        let store = Store::new(&out).unwrap();
        let found = find(name).unwrap().conduct(setup, &out, &store, &Progress::silent());
        found.unwrap_or_else(|error| panic!("{error:#}"))
    }
}

/// Fails unless a share of so many answers is what a coin would give: within three standard deviations of a half.
fn is_chance(findings: &Findings, conditions: &[&dyn Display], measure: &str, answers: u64) {
    let share = findings.measurements.mean(conditions, measure).mean;
    let reach = 1.5 / (answers as f64).sqrt();
    let name: Vec<String> = conditions.iter().map(ToString::to_string).collect();
    assert!((share - 0.5).abs() < reach, "{} {measure}: {share:.3}, beyond ±{reach:.3}", name.join(" "));
}

/// Fails if a claim holds.
fn does_not_hold(findings: &Findings, claim: &str) {
    let verdict = findings.verdicts.iter().find(|verdict| verdict.claim == claim).unwrap();
    assert_ne!(verdict.outcome, Outcome::Holds, "{claim}: {}", verdict.finding);
}

#[test]
fn three_ways_to_attend_are_no_better_than_a_coin_where_labels_mean_nothing() {
    let bench = Bench::new(|folder| reviews(folder, Labels::Random));
    let found = bench.conduct("three-models", 3);
    for model in ["max pool", "additive attention", "self-attention", "max pool, 4× the parameters"] {
        is_chance(&found, &[&model], "accuracy", TESTED);
    }
    for claim in ["C1", "C4", "C6"] {
        does_not_hold(&found, claim);
    }
    let found = bench.conduct("negation", 3);
    for model in ["max pool", "additive attention", "self-attention"] {
        is_chance(&found, &[&model], "accuracy, plain", TESTED - TESTED / NEGATED);
        is_chance(&found, &[&model], "accuracy, negated", TESTED / NEGATED);
    }
    does_not_hold(&found, "C3");
    let found = bench.conduct("pooled-words", 3);
    for claim in ["C2", "C5"] {
        does_not_hold(&found, claim);
    }
}

#[test]
fn three_ways_to_attend_learn_where_labels_mean_something() {
    let bench = Bench::new(|folder| reviews(folder, Labels::True));
    let found = bench.conduct("negation", 2);
    for model in ["max pool", "additive attention", "self-attention"] {
        let right = |kind: &str| found.measurements.mean(&[&model], &format!("accuracy, {kind}")).mean;
        assert!(
            right("plain") > 0.9 && right("negated") > 0.9,
            "{model} {} {}",
            right("plain"),
            right("negated")
        );
    }
}

#[test]
fn bags_of_words_are_no_better_than_a_coin_where_labels_mean_nothing() {
    let mut bench = Bench::new(|folder| reviews(folder, Labels::Random));
    let found = bench.conduct("word-vectors", 3);
    for deviation in ["0.1", "1"] {
        is_chance(&found, &[&deviation, &"trained"], "accuracy", TESTED);
    }
    does_not_hold(&found, "A2");
    let found = bench.conduct("head-count", 3);
    for heads in [1, 4] {
        is_chance(&found, &[&"sentiment", &heads], "accuracy", TESTED);
    }
    does_not_hold(&found, "A7");
    // With vectors that know which words praise: of no use where nothing does.
    let mut vectors = String::new();
    for (sign, polarity) in [(-1.0, Polarity::Negative), (1.0, Polarity::Positive)] {
        for (number, word) in judging(polarity).iter().enumerate() {
            writeln!(vectors, "{word} {sign} {} {} {}", 0.1 * number as f64, 0.5, -0.5 * sign).unwrap();
        }
    }
    let file = bench.folder.path().join("vectors.txt");
    std::fs::write(&file, vectors).unwrap();
    bench.vectors = Some(file);
    let found = bench.conduct("ingredients", 3);
    for with in [
        "none of these",
        "trained projections",
        "positions",
        "residual connection",
        "four times the data",
        "all four",
        "pre-trained vectors",
    ] {
        is_chance(&found, &[&with], "accuracy", TESTED);
    }
    does_not_hold(&found, "A6");
}

#[test]
fn bags_of_words_learn_where_labels_mean_something() {
    let bench = Bench::new(|folder| reviews(folder, Labels::True));
    // A bag does not see the order of words: of the negated ones it can tell none but by "not".
    let found = bench.conduct("word-vectors", 2);
    for deviation in ["0.1", "1"] {
        let right = found.measurements.mean(&[&deviation, &"trained"], "accuracy").mean;
        assert!(right > 0.75, "{deviation}: {right}");
    }
    let right = bench.conduct("head-count", 2).measurements.mean(&[&"sentiment", &4], "accuracy").mean;
    assert!(right > 0.75, "{right}");
}

#[test]
fn taggers_are_no_better_than_a_coin_where_classes_mean_nothing() {
    let bench = Bench::new(|folder| treebank(folder, Labels::Random));
    let found = bench.conduct("content-words", 3);
    // About two words of each sentence are hidden.
    let hidden = 2 * TESTED;
    is_chance(&found, &[&"one head"], "accuracy", hidden);
    does_not_hold(&found, "B1");
    let found = bench.conduct("tagger-heads", 3);
    for heads in [1, 2, 4, 8] {
        is_chance(&found, &[&heads, &"after training"], "accuracy", hidden);
    }
    does_not_hold(&found, "B5");
}

#[test]
fn taggers_learn_where_classes_mean_something() {
    let bench = Bench::new(|folder| treebank(folder, Labels::True));
    let found = bench.conduct("content-words", 2);
    let right = |model: &str| found.measurements.mean(&[&model], "accuracy").mean;
    assert!(right("one head") > 0.75, "{}", right("one head"));
    assert!(right("majority") < 0.6, "{}", right("majority"));
}
