//! Ranks that die, hang or have bad input: the others end, and the run goes on from its last state.

use crate::launch::{TINY, alone, assert_same, begun, mpirun, mpirun_by, resumed, succeeds};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A run with many short steps, each of which is saved.
const LONG: &[&str] = &["train.steps=150", "train.evaluate_every=0", "run.save_every=1", "run.log_every=10"];

fn long(out: &Path) -> Vec<String> {
    begun("words-gpt", &[TINY, LONG].concat(), out)
}

fn started(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the run has taken some steps more.
fn wait_for_steps(out: &Path) {
    let state = out.join("state.safetensors");
    let written = || state.metadata().and_then(|about| about.modified()).ok();
    let (before, started) = (written(), Instant::now());
    while written() == before || written().is_none() {
        assert!(started.elapsed() < Duration::from_secs(60), "no step in a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The process of a rank: those that the launcher started, in order, but for its own helpers.
fn process(launcher: &Child, rank: usize) -> String {
    let listed = Command::new("ps").args(["-A", "-o", "pid=,args="]).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for line in listed.lines() {
        let (pid, _) = line.trim().split_once(' ').unwrap_or_default();
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let variables = String::from_utf8_lossy(&read("environ")).into_owned();
        let has = |variable: String| variables.split('\0').any(|known| known == variable);
        let parent = String::from_utf8_lossy(&read("status")).into_owned();
        let ours = parent.lines().any(|line| line == format!("PPid:\t{}", launcher.id()));
        if ours && (has(format!("OMPI_COMM_WORLD_RANK={rank}")) || has(format!("PMI_RANK={rank}"))) {
            return pid.to_owned();
        }
    }
    panic!("there is no rank {rank} in\n{listed}");
}

fn signal(kind: &str, process: &str) {
    succeeds(&Command::new("kill").args([kind, process]).output().unwrap());
}

/// The end of a run that failed, which comes within a minute.
fn ended(mut child: Child) -> (Output, String) {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > Duration::from_secs(60) {
            let _ = child.kill();
            panic!("the other ranks did not end within a minute");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    (output, said)
}

#[test]
#[ignore = "needs MPI"]
fn a_run_goes_on_after_killed_ranks_on_other_numbers_of_ranks() {
    let folder = TempDir::new().unwrap();
    let [out, one] = ["together", "one"].map(|name| folder.path().join(name));
    let accumulated = [TINY, LONG, &["train.accumulate=4"]].concat();
    succeeds(&alone(&begun("words-gpt", &accumulated, &one)).output().unwrap());
    for (ranks, killed) in [(4, 2), (3, 0), (2, 1)] {
        let arguments = if out.exists() { resumed(&out) } else { long(&out) };
        let child = started(&mut mpirun(ranks, &arguments));
        wait_for_steps(&out);
        signal("-KILL", &process(&child, killed));
        let (_, said) = ended(child);
        assert!(said.contains(&format!("rank {killed}")), "{said}");
    }
    // A plain process can go on too.
    succeeds(&alone(&resumed(&out)).output().unwrap());
    assert_same(&out, &one);
}

#[test]
#[ignore = "needs MPI"]
fn a_rank_that_hangs_is_named_and_the_last_step_is_saved() {
    let folder = TempDir::new().unwrap();
    let [out, one] = ["together", "one"].map(|name| folder.path().join(name));
    let accumulated = [TINY, LONG, &["train.accumulate=3"]].concat();
    succeeds(&alone(&begun("words-gpt", &accumulated, &one)).output().unwrap());
    for hung in [2, 0] {
        let arguments = if out.exists() { resumed(&out) } else { long(&out) };
        let child = started(&mut mpirun(3, &arguments));
        wait_for_steps(&out);
        signal("-STOP", &process(&child, hung));
        let (_, said) = ended(child);
        assert!(said.contains(&format!("error: ranks: rank {hung} on ")), "{said}");
        if hung > 0 {
            assert!(said.contains("is saved; continue with: regard train --resume"), "{said}");
        }
    }
    succeeds(&mpirun(3, &resumed(&out)).output().unwrap());
    assert_same(&out, &one);
}

/// Input that only one rank cannot use ends all of them, with one line.
#[test]
#[ignore = "needs MPI"]
fn bad_input_on_any_rank_ends_all() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let missing = [begun("words-gpt", TINY, &out), vec!["--data=/nowhere/text.txt".to_owned()]].concat();
    let unknown = begun("no-such-preset", TINY, &out);
    let nothing = resumed(&out);
    for (arguments, expected, code) in
        [(missing, "/nowhere/text.txt", 1), (unknown, "no-such-preset", 2), (nothing, "run", 1)]
    {
        let (output, said) = ended(started(&mut mpirun(3, &arguments)));
        let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(errors.len() == 1 && errors[0].contains(expected), "{said}");
        assert!([Some(code), Some(1)].contains(&output.status.code()), "{:?}: {said}", output.status);
    }
    for (script, expected) in [
        // Too little memory for the data, on rank 1 alone.
        ("[ $OMPI_COMM_WORLD_RANK$PMI_RANK = 1 ] && export REGARD_MEMORY=1; exec \"$0\" \"$@\"", "rank 1: "),
        // It ends before it joins the others.
        (
            "[ $OMPI_COMM_WORLD_RANK$PMI_RANK = 2 ] && export REGARD_THREADS=no; exec \"$0\" \"$@\"",
            "REGARD_THREADS=no",
        ),
    ] {
        let arguments = begun("words-gpt", &["data.texts=4000", "train.steps=100000"], &out);
        let (_, said) = ended(started(&mut mpirun_by(script, 3, &arguments)));
        assert!(said.contains(expected), "{said}");
        let _ = std::fs::remove_dir_all(&out);
    }
}
