//! `--device` and `--precision`. The device `apart` has memory of its own and no kernels: whatever reads a value past the boundary
//! for devices fails on it, and results have the bits of the CPU.

use super::made::{complaint, gpt, said, t5, text};
use crate::train::{SMALL, command, regard, stderr, train};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::tempdir;

/// The same command on the CPU and on the device for tests.
fn same_on_both(arguments: &[&str]) {
    let on = |device: &str| said(&[arguments, &["--device", device]].concat());
    assert_eq!(on("apart"), on("cpu"), "{arguments:?}");
}

#[test]
fn commands_give_the_same_on_a_device_of_its_own_memory() {
    let folder = tempdir().unwrap();
    gpt(folder.path(), 1);
    let model = text(folder.path());
    same_on_both(&["generate", model, "The cat", "--greedy", "-n", "12"]);
    same_on_both(&["generate", model, "The cat", "--beams", "2", "-n", "6"]);
    let answers = tempdir().unwrap();
    t5(answers.path());
    same_on_both(&["generate", text(answers.path()), "The cat", "--greedy", "-n", "6"]);
}

#[test]
fn analyses_and_their_untrained_baseline_run_there() {
    let (folder, out) = (tempdir().unwrap(), tempdir().unwrap());
    gpt(folder.path(), 1);
    let measured = |device: &str| {
        let out = out.path().join(device);
        let model = text(folder.path());
        said(&["heads", model, "--limit", "6", "-o", text(&out), "--device", device]);
        std::fs::read_to_string(out.join("heads.csv")).unwrap()
    };
    assert_eq!(measured("apart"), measured("cpu"));
}

#[test]
fn a_device_that_is_missing_or_cannot_compute_so_is_a_usage_error() {
    let folder = tempdir().unwrap();
    gpt(folder.path(), 1);
    let complain = |options: &[&str]| {
        let (message, code) = complaint(&[&["generate", text(folder.path()), "The"], options].concat());
        assert_eq!(code, 2, "{message}");
        message
    };
    // No machine has a hundred GPUs. Without a driver, its library is named instead.
    let missing = complain(&["--device", "cuda:99"]);
    assert!(missing.contains("no device cuda:99") || missing.contains("libcuda"), "{missing}");
    assert!(complain(&["--device", "gpu"]).contains("auto, cpu, cuda or cuda:N"));
    assert!(complain(&["--device", "cpu", "--precision", "bf16"]).contains("needs a CUDA device"));
}

/// A file of a run.
fn read(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}

#[test]
fn training_there_gives_the_bits_of_the_cpu() {
    let folder = tempdir().unwrap();
    let train = |preset: &str, device: &str, settings: &[&str]| {
        let out = folder.path().join(format!("{preset}-{device}"));
        let arguments = ["train", preset, "--device", device, "--out", text(&out)];
        said(&[&arguments, settings].concat());
        out
    };
    let short = ["--set=train.steps=6", "--set=train.batch_size=4", "--set=train.evaluate_every=3"];
    let small = ["--set=model.d_model=16", "--set=model.n_heads=2", "--set=model.n_layers=1"];
    let gpt = [&short[..], &small, &["--set=data.texts=60", "--set=model.context=16"]].concat();
    let digits = [&short[..], &small, &["--set=data.texts=40"]].concat();
    let bag = [&short[..], &["--set=data.texts=60"]].concat();
    for (preset, settings) in [("words-gpt", gpt), ("digits", digits), ("bag", bag)] {
        let [cpu, apart] = ["cpu", "apart"].map(|device| train(preset, device, &settings));
        assert!(read(&cpu, "model.safetensors") == read(&apart, "model.safetensors"), "{preset}");
        // The device is no part of the configuration: a run may go on elsewhere.
        assert_eq!(read(&cpu, "train.toml"), read(&apart, "train.toml"), "{preset}");
    }
}

#[test]
fn a_run_goes_on_there_from_its_state() {
    let folder = tempdir().unwrap();
    assert!(train(folder.path(), "whole").status.success());
    let killed = folder.path().join("killed");
    let mut process = command(folder.path(), &[&["train"], SMALL, &["--out", "killed"]].concat());
    let mut process = process.stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !killed.join("state.safetensors").exists() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
    process.kill().unwrap();
    process.wait().unwrap();
    let resumed = regard(folder.path(), &["train", "--resume", "--out", "killed", "--device", "apart"]);
    assert!(resumed.status.success(), "{}", stderr(&resumed));
    assert!(stderr(&resumed).contains("was on cpu and continues on apart"), "{}", stderr(&resumed));
    let whole = folder.path().join("whole");
    assert!(read(&whole, "model.safetensors") == read(&killed, "model.safetensors"));
}

#[test]
fn the_precision_of_training_is_a_setting() {
    let folder = tempdir().unwrap();
    let complain = |options: &[&str]| {
        let out = folder.path().join("run");
        let arguments = ["train", "bag", "--device", "cpu", "--out", text(&out)];
        let (message, code) = complaint(&[&arguments, options].concat());
        assert_eq!(code, 2, "{message}");
        message
    };
    for option in ["--precision=bf16", "--set=train.precision=bf16"] {
        assert!(complain(&[option]).contains("bf16 needs a CUDA device"), "{option}");
    }
    assert!(complain(&["--set=train.precision=f8"]).contains("train.precision=f8"));
}

#[test]
fn an_experiment_measures_the_same_there() {
    let folder = tempdir().unwrap();
    let measured = |device: &str| {
        let out = folder.path().join(device);
        let arguments = ["experiment", "activation", "--size", "smoke", "--device", device, "-o", text(&out)];
        said(&arguments);
        read(&out, "activation/measurements.csv")
    };
    assert_eq!(measured("apart"), measured("cpu"));
}
