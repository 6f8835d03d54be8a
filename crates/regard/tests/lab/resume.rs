//! What a run that goes on finds: a state that is whole, the data it knew, wherever it is called from.

use crate::train::{SMALL, fails, regard, succeeds, train};
use std::path::Path;
use tempfile::TempDir;

const LONG: &str = "to be or not to be that is the question whether tis nobler in the mind to suffer ";

/// A run on a text; what it learns from is `text.txt` in the folder it is called in.
fn on_text(folder: &Path, more: &[&str]) -> std::process::Output {
    let small: Vec<&str> =
        SMALL.iter().copied().filter(|argument| !argument.contains("data.texts")).collect();
    regard(folder, &[&["train"], &small[..], &["--data=text.txt"], more].concat())
}

#[test]
fn damage_in_the_middle_of_a_state_is_noticed() {
    let folder = TempDir::new().unwrap();
    succeeds(&train(folder.path(), "run"));
    let state = folder.path().join("run/state.safetensors");
    let whole = std::fs::read(&state).unwrap();
    let resume = || regard(folder.path(), &["train", "--resume", "--out", "run"]);
    for at in [whole.len() / 3, whole.len() / 2, whole.len() - 4] {
        let mut damaged = whole.clone();
        let end = whole.len().min(at + 64);
        // Zeroes, as a disk gives back what it lost; something must have been there.
        damaged[at..end].iter_mut().for_each(|byte| *byte = 0);
        assert_ne!(damaged, whole);
        std::fs::write(&state, &damaged).unwrap();
        let line = fails(&resume(), 1);
        assert!(line.contains("state.safetensors") && line.contains("is damaged"), "{line}");
        assert!(std::fs::read(&state).unwrap() == damaged, "it was touched");
    }
    std::fs::write(&state, &whole).unwrap();
    succeeds(&resume());
}

#[test]
fn two_processes_do_not_train_in_one_folder() {
    let folder = TempDir::new().unwrap();
    succeeds(&train(folder.path(), "run"));
    let resume = || regard(folder.path(), &["train", "--resume", "--out", "run"]);
    let metrics = std::fs::read(folder.path().join("run/metrics.csv")).unwrap();
    let lock = std::fs::File::open(folder.path().join("run/lock")).unwrap();
    lock.lock().unwrap();
    assert!(fails(&resume(), 1).contains("another process is training in run"));
    assert_eq!(std::fs::read(folder.path().join("run/metrics.csv")).unwrap(), metrics);
    // Looking is always possible.
    succeeds(&regard(folder.path(), &["eval", "run", "--limit=2"]));
    drop(lock);
    succeeds(&resume());
}

#[test]
fn data_of_the_same_size_that_is_not_the_same_is_noticed() {
    let folder = TempDir::new().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, LONG.repeat(40)).unwrap();
    succeeds(&on_text(folder.path(), &["--out=run"]));
    std::fs::write(&text, LONG.repeat(40).replacen("nobler", "better", 1)).unwrap();
    let line = fails(&regard(folder.path(), &["train", "--resume", "--out=run"]), 1);
    assert!(line.contains("the data has changed"), "{line}");
    std::fs::write(&text, LONG.repeat(40)).unwrap();
    succeeds(&regard(folder.path(), &["train", "--resume", "--out=run"]));
}

#[test]
fn a_run_goes_on_from_another_directory() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("text.txt"), LONG.repeat(40)).unwrap();
    succeeds(&on_text(folder.path(), &["--out=run"]));
    let elsewhere = TempDir::new().unwrap();
    let run = folder.path().join("run");
    succeeds(&regard(elsewhere.path(), &["train", "--resume", "--out", run.to_str().unwrap()]));
    // What it learned from is what it is measured on, unless something else is asked for.
    let output = regard(elsewhere.path(), &["eval", run.to_str().unwrap()]);
    succeeds(&output);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("data ") && said.contains("text.txt, the last 10 %"), "{said}");
}

#[test]
fn a_text_too_long_for_memory_is_learned_from_a_file() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("text.txt"), LONG.repeat(40)).unwrap();
    succeeds(&on_text(folder.path(), &["--out=memory"]));
    succeeds(&on_text(folder.path(), &["--out=file", "--set=data.in_memory=100"]));
    let (memory, file) = (folder.path().join("memory"), folder.path().join("file"));
    assert!(file.join("train.ids").exists() && !memory.join("train.ids").exists());
    let weights = |run: &Path| std::fs::read(run.join("model.safetensors")).unwrap();
    assert!(weights(&memory) == weights(&file), "it learned something else");
    // A part of its own to measure on is kept in a file of its own; going on uses both.
    let parts = folder.path().join("parts");
    std::fs::create_dir(&parts).unwrap();
    std::fs::write(parts.join("train.txt"), LONG.repeat(40)).unwrap();
    std::fs::write(parts.join("valid.txt"), LONG.repeat(4)).unwrap();
    let small: Vec<&str> =
        SMALL.iter().copied().filter(|argument| !argument.contains("data.texts")).collect();
    let more = ["--data=parts", "--out=both", "--set=data.in_memory=10"];
    succeeds(&regard(folder.path(), &[&["train"], &small[..], &more].concat()));
    assert!(folder.path().join("both/held-out.ids").exists());
    succeeds(&regard(folder.path(), &["train", "--resume", "--out=both"]));
    succeeds(&regard(folder.path(), &["eval", "both", "--limit=3"]));
}

#[test]
fn the_error_of_a_damaged_configuration_names_the_file() {
    let folder = TempDir::new().unwrap();
    succeeds(&train(folder.path(), "run"));
    let file = folder.path().join("run/train.toml");
    for (damage, told) in [("[train\nsteps = 3", "line 1: "), ("[train]\nsteps = true", "is damaged")] {
        std::fs::write(&file, damage).unwrap();
        for arguments in [&["train", "--resume", "--out=run"][..], &["eval", "run"]] {
            let line = fails(&regard(folder.path(), arguments), 1);
            assert!(line.contains("run/train.toml is damaged") && line.contains(told), "{line}");
        }
    }
}
