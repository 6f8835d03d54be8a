//! Training that begins from a model: what it takes from it, what it refuses, and how it goes on.

use crate::train::{command, fails, regard, same_run, stderr, succeeds, train};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A preset whose sizes are not the model's.
const TUNED: &[&str] = &[
    "train",
    "words-gpt",
    "--from=base",
    "--set=data.texts=60",
    "--set=model.dropout=0.2",
    "--set=train.steps=60",
    "--set=train.batch_size=4",
    "--set=train.evaluate_every=20",
    "--set=run.save_every=7",
    "--set=run.log_every=3",
];

fn tuned(folder: &Path, more: &[&str]) -> std::process::Output {
    regard(folder, &[TUNED, more].concat())
}

#[test]
fn a_killed_run_goes_on_without_the_model_it_began_from_and_ends_the_same() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    succeeds(&train(path, "base"));
    succeeds(&tuned(path, &["--out=whole"]));
    let begin = [TUNED, &["--out=killed"]].concat();
    let mut child = command(path, &begin).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    // The first state is written before the first step.
    while !path.join("killed/state.safetensors").exists() {
        assert!(started.elapsed() < Duration::from_secs(120), "no state was saved");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::remove_dir_all(path.join("base")).unwrap();
    succeeds(&regard(path, &["train", "--resume", "--out=killed"]));
    same_run(&path.join("whole"), &path.join("killed"));
    let written = std::fs::read_to_string(path.join("whole/train.toml")).unwrap();
    for line in ["kind = \"transformer\"", "d_model = 16", "context = 16", "n_layers = 1", "residual = 0.2"] {
        assert!(written.lines().any(|found| found.starts_with(line)), "{line} in {written}");
    }
}

#[test]
fn a_run_that_saved_nothing_begins_from_the_model_again() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    succeeds(&train(path, "base"));
    succeeds(&tuned(path, &["--out=whole"]));
    succeeds(&tuned(path, &["--out=early"]));
    // As if it had been killed before anything but its configuration was written.
    for file in ["state.safetensors", "model.safetensors", "config.json", "tokenizer.json", "metrics.csv"] {
        std::fs::remove_file(path.join("early").join(file)).unwrap();
    }
    succeeds(&regard(path, &["train", "--resume", "--out=early"]));
    same_run(&path.join("whole"), &path.join("early"));
}

#[test]
fn settings_that_contradict_the_model_are_rejected() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    succeeds(&train(path, "base"));
    let line = fails(&tuned(path, &["--out=run", "--set=model.d_model=32"]), 2);
    assert!(line.contains("model.d_model=32 contradicts --from: the model there has 16"), "{line}");
    assert!(!path.join("run").exists());
    // What agrees does not.
    succeeds(&tuned(path, &["--out=run", "--set=model.d_model=16", "--set=train.steps=2"]));
    let other = regard(path, &["train", "classify", "--from=base", "--out=other"]);
    assert!(fails(&other, 2).contains("the preset trains a bert, but --from is a gpt2"));
    let other = regard(path, &["train", "bag", "--from=base", "--out=other"]);
    assert!(fails(&other, 2).contains("the preset trains no transformer, but --from is a gpt2"));
    // What the model can read counts, not what the preset says: it is for 128.
    succeeds(&train(path, "narrow"));
    let length = fails(&tuned(path, &["--out=long", "--set=data.length=17"]), 2);
    assert!(length.contains("the model reads 16 tokens at most"), "{length}");
    let wide = ["--set=model.context=200", "--set=data.texts=60", "--set=train.steps=1", "--out=wide"];
    succeeds(&regard(path, &[&["train", "words-gpt"], &wide[..]].concat()));
    let more = ["--set=data.length=150", "--set=train.steps=1", "--set=data.texts=60", "--out=longer"];
    succeeds(&regard(path, &[&["train", "words-gpt", "--from=wide"], &more[..]].concat()));
    let tokens = fails(&tuned(path, &["--out=tokens", "--set=tokens.kind=characters"]), 2);
    assert!(tokens.contains("tokens.kind=characters contradicts --from"), "{tokens}");
    let small = ["--set=data.texts=60", "--set=train.steps=1", "--out=heads"];
    succeeds(&regard(path, &[&["train", "sentiment-heads"], &small[..]].concat()));
    let pooling = fails(&regard(path, &["train", "sentiment-max", "--from=heads", "--out=max"]), 2);
    assert!(pooling.contains("pooling"), "{pooling}");
}

#[test]
fn another_number_of_classes_gets_a_head_of_its_own() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let table = |name: &str, classes: &[&str]| {
        let row = |i: usize| {
            format!(
                "the text number {} says {}\t{}\n",
                i,
                classes[i % classes.len()],
                classes[i % classes.len()]
            )
        };
        let rows: String = (0..60).map(row).collect();
        std::fs::write(path.join(name), format!("sentence\tlabel\n{rows}")).unwrap();
    };
    table("two.tsv", &["no", "yes"]);
    table("three.tsv", &["bad", "fair", "good"]);
    let small = [
        "--set=model.n_layers=1",
        "--set=model.n_heads=2",
        "--set=model.d_model=16",
        "--set=model.d_hidden=16",
        "--set=tokens.size=60",
        "--set=train.steps=2",
    ];
    succeeds(&regard(path, &[&["train", "classify", "--data=two.tsv", "--out=two"], &small[..]].concat()));
    let arguments =
        ["train", "classify", "--data=three.tsv", "--from=two", "--out=three", "--set=train.steps=3"];
    let output = regard(path, &arguments);
    succeeds(&output);
    assert!(stderr(&output).contains("none that fit: classifier"), "{}", stderr(&output));
    let measured = regard(path, &["eval", "three"]);
    succeeds(&measured);
    let said = String::from_utf8(measured.stdout).unwrap();
    assert!(said.contains("macro F1") && said.contains("fair"), "{said}");
}
