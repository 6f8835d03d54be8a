//! How many threads the program uses, as `bench` reports them.

use serde_json::Value;
use std::process::{Command, Stdio};

/// The number of threads in each line that `bench` prints.
fn threads(command: &mut Command) -> Vec<u64> {
    let output = command.stderr(Stdio::null()).output().unwrap();
    assert!(output.status.success());
    let lines = String::from_utf8(output.stdout).unwrap();
    let count = |line: &str| serde_json::from_str::<Value>(line).unwrap()["threads"].as_u64().unwrap();
    lines.lines().map(count).collect()
}

const BENCH: [&str; 5] = ["bench", "attention-256", "--json", "--seconds", "0.01"];

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_regard")
}

#[test]
fn the_environment_and_the_command_line_set_the_number_of_threads() {
    assert_eq!(threads(Command::new(program()).args(BENCH).env("REGARD_THREADS", "3")), [3]);
    let several = ["--threads", "1,4,2"];
    assert_eq!(threads(Command::new(program()).args(BENCH).args(several)), [1, 4, 2]);
    let none = Command::new(program()).args(BENCH).args(["--threads", "0"]).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
}

/// Linux only: elsewhere there is no `taskset`.
#[cfg(target_os = "linux")]
#[test]
fn the_affinity_mask_limits_the_threads() {
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", "0", program()]).args(BENCH).env_remove("REGARD_THREADS");
    assert_eq!(threads(&mut pinned), [1]);
    assert_eq!(threads(pinned.env("REGARD_THREADS", "2")), [2]);
}
