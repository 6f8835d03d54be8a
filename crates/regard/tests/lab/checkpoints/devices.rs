//! `--device` and `--precision`. The device `apart` has memory of its own and no kernels: whatever reads a value past the boundary
//! for devices fails on it, and results have the bits of the CPU.

use super::made::{complaint, gpt, said, t5, text};
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
