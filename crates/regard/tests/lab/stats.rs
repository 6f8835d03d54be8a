//! `regard data stats`, on every kind of data, and `regard data texts`.

use crate::checkpoints::made::{complaint, said, text};
use std::path::Path;
use tempfile::{TempDir, tempdir};

fn written(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn stats(path: &Path, more: &[&str]) -> String {
    said(&[&["data", "stats", text(path)], more].concat())
}

#[track_caller]
fn has(found: &str, parts: &[&str]) {
    for part in parts {
        assert!(found.contains(part), "expected {part:?} in {found}");
    }
}

#[test]
fn plain_text() {
    let folder = written(&[("a.txt", "the cat sat\n\nthe dog\nthe cat sat\n".as_bytes())]);
    let found = stats(&folder.path().join("a.txt"), &[]);
    has(
        &found,
        &[
            "a.txt: 3 lines, 8 words, 4 distinct",
            "mean 2.7, median 3",
            "1 lines that an earlier",
            "the cat sat dog",
        ],
    );
    has(&found, &["characters        33; 1 lines are empty"]);
    // A folder is all of its files.
    assert_eq!(stats(folder.path(), &[]), found);
}

#[test]
fn tables() {
    let rows = "review,stars\nso good,5\n\"bad, bad\",1\nso good,5\n";
    let folder = written(&[("r.csv", rows.as_bytes())]);
    let found = stats(&folder.path().join("r.csv"), &["--text-column=review", "--label-column=stars"]);
    has(&found, &["3 texts, 6 words", "classes           1: 1, 5: 2", "1 texts that an earlier"]);
    let (problem, code) = complaint(&["data", "stats", text(&folder.path().join("r.csv"))]);
    assert!(code == 1 && problem.contains("no column \"sentence\""), "{problem}");
}

#[test]
fn parallel_text() {
    let folder = written(&[
        ("train.en", b"one\ntwo\n\none\n"),
        ("train.de", b"eins\nzwei\n\neins\n"),
        ("val.en", b"three four\n"),
        ("val.de", b"drei vier\n"),
    ]);
    let found = stats(folder.path(), &[]);
    has(
        &found,
        &["train: 3 pairs, 1 of them equal", "1 lines without both sides", "val.de: 1 lines, 2 words"],
    );
}

#[test]
fn treebanks() {
    let word = |id: u32, form: &str, tag: &str, head: u32| {
        format!("{id}\t{form}\t{form}\t{tag}\t_\t_\t{head}\tdep\t_\t_\n")
    };
    let bank = [word(1, "cats", "NOUN", 2), word(2, "sleep", "VERB", 0), "\n".to_owned()].concat();
    let folder = written(&[("x.conllu", bank.as_bytes())]);
    has(&stats(folder.path(), &[]), &["1 sentences, 2 words", "NOUN: 1, VERB: 1"]);
}

#[test]
fn images() {
    let mut pictures = vec![0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2];
    pictures.extend([0, 255, 0, 255, 9, 9]);
    let folder = written(&[
        ("train-images-idx3-ubyte", &pictures),
        ("train-labels-idx1-ubyte", &[0, 0, 8, 1, 0, 0, 0, 3, 7, 7, 1]),
    ]);
    let found = stats(folder.path(), &[]);
    has(&found, &["train: 3 images of 1×2", "1: 1, 7: 2", "1 images that an earlier"]);
}

#[test]
fn reviews_become_plain_text_for_language_models() {
    let folder = tempdir().unwrap();
    let imdb = folder.path().join("aclImdb");
    for (place, review) in [
        ("train/pos/0_9.txt", "Great!<br /><br />It's fun."),
        ("train/neg/0_2.txt", "Dull."),
        ("test/pos/0_10.txt", "Good, good."),
        ("test/neg/0_1.txt", "No"),
    ] {
        let file = imdb.join(place);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, review).unwrap();
    }
    std::fs::write(imdb.join("README"), "not a review").unwrap();
    // A language model would learn the folder's README otherwise.
    let out = folder.path().join("text");
    let run = folder.path().join("run");
    let (problem, code) = complaint(&["train", "words-gpt", "--data", text(&imdb), "--out", text(&run)]);
    assert!(code == 2 && problem.contains("regard data texts"), "{problem}");

    let found = said(&["data", "texts", text(&imdb), "--out", text(&out), "--words"]);
    has(&found, &["train.txt: 2 reviews", "test.txt: 2 reviews"]);
    let lines = |name: &str| {
        let text = std::fs::read_to_string(out.join(name)).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines("train.txt"), ["Dull .", "Great ! It's fun ."]);
    assert_eq!(lines("test.txt"), ["Good , good .", "No"]);
    said(&["data", "texts", text(&imdb), "--out", text(&out)]);
    assert_eq!(lines("train.txt"), ["Dull.", "Great! It's fun."]);

    let (problem, code) = complaint(&["data", "texts", text(&out.join("test.txt")), "--out", text(&run)]);
    assert!(code == 2 && problem.contains("is not IMDb's"), "{problem}");
}
