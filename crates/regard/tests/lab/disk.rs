//! Training where nothing can be written: one clear line, exit code 1, and the last good state untouched.
#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A run that takes longer than any test waits, and saves its state often.
const LONG: &[&str] = &[
    "train",
    "words-gpt",
    "--set=data.texts=40",
    "--set=model.n_layers=1",
    "--set=model.n_heads=2",
    "--set=model.d_model=32",
    "--set=model.context=16",
    "--set=train.steps=1000000",
    "--set=train.batch_size=2",
    "--set=train.evaluate_every=0",
    "--set=run.save_every=5",
    "--out=run",
];

fn regard(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
    command.current_dir(folder).args(arguments).env("REGARD_THREADS", "2").stdout(Stdio::null());
    command
}

/// Trains until there is a state, and is then killed.
fn begun(folder: &Path) {
    until_a_state(folder, LONG);
}

fn until_a_state(folder: &Path, arguments: &[&str]) {
    let mut child = regard(folder, arguments).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while !folder.join("run/state.safetensors").exists() {
        assert!(started.elapsed() < Duration::from_secs(120), "no state was saved");
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The one line of error.
fn problem(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{said}");
    errors[0].to_owned()
}

/// Fails unless the run can be taken up where it was.
fn goes_on(folder: &Path) {
    let mut child =
        regard(folder, &["train", "--resume", "--out=run"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let found = said.any(|line| line.unwrap_or_default().starts_with("going on from step"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(found, "it did not go on");
}

#[test]
fn a_full_disk_ends_a_run_and_leaves_its_last_state() {
    let folder = TempDir::new().unwrap();
    begun(folder.path());
    let state = folder.path().join("run/state.safetensors");
    let before = std::fs::read(&state).unwrap();
    // No file may grow beyond half of a state: what a full disk looks like to whoever writes it. The signal that comes
    // with it is ignored, so that the write itself fails.
    let blocks = before.len() / 512 / 2;
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_regard"), "train", "--resume", "--out=run"])
        .current_dir(folder.path())
        .env("REGARD_THREADS", "2")
        .output()
        .unwrap();
    let line = problem(&output);
    assert!(line.contains("run/state.safetensors") && line.contains("cannot be written"), "{line}");
    assert!(std::fs::read(&state).unwrap() == before, "the last good state was touched");
    assert!(!folder.path().join("run/state.safetensors.partial").exists(), "half a state was left");
    goes_on(folder.path());
}

#[test]
fn a_state_that_cannot_be_written_leaves_the_one_before() {
    let folder = TempDir::new().unwrap();
    begun(folder.path());
    let state = folder.path().join("run/state.safetensors");
    let before = std::fs::read(&state).unwrap();
    // The kill may have come in the middle of a write. A folder in the place of the file stops even root.
    let partial = folder.path().join("run/state.safetensors.partial");
    let _ = std::fs::remove_file(&partial);
    std::fs::create_dir(&partial).unwrap();
    let output = regard(folder.path(), &["train", "--resume", "--out=run"]).output().unwrap();
    let line = problem(&output);
    assert!(line.contains("cannot be written"), "{line}");
    assert!(std::fs::read(&state).unwrap() == before);
    std::fs::remove_dir(&partial).unwrap();
    goes_on(folder.path());
}

#[test]
fn a_run_that_was_killed_before_its_tokenizer_was_written_gets_one() {
    let folder = TempDir::new().unwrap();
    begun(folder.path());
    let run = folder.path().join("run");
    for file in ["state.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::remove_file(run.join(file)).unwrap();
    }
    until_a_state(folder.path(), &["train", "--resume", "--out=run"]);
    assert!(run.join("tokenizer.json").exists() && run.join("tokenizer_config.json").exists());
}

#[test]
fn a_read_only_folder_is_an_error_at_once() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    // A file where the folder should be stops even root.
    std::fs::write(folder.path().join("run"), "a file").unwrap();
    let line = problem(&regard(folder.path(), LONG).output().unwrap());
    assert!(line.contains("cannot create the folder run"), "{line}");
    std::fs::remove_file(folder.path().join("run")).unwrap();

    begun(folder.path());
    let run = folder.path().join("run");
    let before = std::fs::read(run.join("state.safetensors")).unwrap();
    let allow = |mode: u32| std::fs::set_permissions(&run, std::fs::Permissions::from_mode(mode)).unwrap();
    allow(0o555);
    let obeyed = std::fs::write(run.join("anything"), "").is_err();
    if obeyed {
        let line = problem(&regard(folder.path(), &["train", "--resume", "--out=run"]).output().unwrap());
        assert!(line.contains("cannot be written"), "{line}");
        assert!(std::fs::read(run.join("state.safetensors")).unwrap() == before);
    }
    // Permissions do not bind root; a folder cannot be made inside /proc by anyone.
    allow(0o755);
    if cfg!(target_os = "linux") {
        let elsewhere: Vec<&str> = LONG
            .iter()
            .map(|&argument| if argument == "--out=run" { "--out=/proc/run" } else { argument })
            .collect();
        let line = problem(&regard(folder.path(), &elsewhere).output().unwrap());
        assert!(line.contains("cannot create the folder /proc/run"), "{line}");
    }
    goes_on(folder.path());
}
