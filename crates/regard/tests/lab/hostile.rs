//! A hostile day: sizes that fit no machine, files that grow without end, signals, and an environment with mistakes.

use crate::train::{SMALL, command, fails, regard, stderr, succeeds, train};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The program with so much address space, in MB; without a limit, a mistake would take the machine with it.
fn confined(folder: &Path, megabytes: u64, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit -v {}; exec \"$0\" \"$@\"", megabytes * 1000);
    command.args(["-c", &script, env!("CARGO_BIN_EXE_regard")]).args(arguments).current_dir(folder);
    command.env("REGARD_THREADS", "2");
    command
}

#[test]
fn sizes_that_fit_no_machine_are_rejected_before_anything_is_allocated() {
    let folder = TempDir::new().unwrap();
    for (preset, settings, remedy) in [
        ("words-gpt", &["model.n_layers=1000000000"][..], "model.n_layers"),
        ("words-gpt", &["model.d_model=100000000", "model.n_heads=1"], "the widths"),
        ("words-gpt", &["data.texts=1000000000000"], "data.texts"),
        ("words-gpt", &["train.batch_size=1000000", "data.texts=50"], "train.batch_size"),
        ("words-gpt", &["train.accumulate=100000000000", "data.texts=50"], "train.batch_size"),
        ("sentiment-max", &["model.d_hidden=100000000"], "the widths"),
        ("tagger", &["data.texts=1000000000000"], "data.texts"),
        ("digits", &["data.texts=1000000000000"], "data.texts"),
        ("translate", &["data.texts=1000000000000"], "data.texts"),
        ("bag", &["model.d_embedding=900000000"], "the widths"),
    ] {
        let mut arguments = vec!["train".to_owned(), preset.to_owned(), "--out=run".to_owned()];
        arguments.extend(settings.iter().map(|setting| format!("--set={setting}")));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let line = fails(&confined(folder.path(), 4000, &arguments).output().unwrap(), 2);
        assert!(line.contains("of memory") && line.contains("available: lower"), "{line}");
        assert!(line.contains(remedy), "{line}");
        assert!(!folder.path().join("run").exists(), "{line}");
    }
    // The same in the file of a run.
    succeeds(&train(folder.path(), "run"));
    let config = folder.path().join("run/train.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("n_layers = 1\n", "n_layers = 1000000000\n")).unwrap();
    let resumed = confined(folder.path(), 4000, &["train", "--resume", "--out=run"]).output().unwrap();
    assert!(fails(&resumed, 2).contains("model.n_layers"));
}

/// A gzip file of a header and so many times a line.
fn gzipped(path: &Path, header: &str, line: &str, megabytes: usize) {
    let mut file = GzEncoder::new(std::fs::File::create(path).unwrap(), Compression::fast());
    file.write_all(header.as_bytes()).unwrap();
    let block = line.repeat(1_000_000 / line.len());
    for _ in 0..megabytes {
        file.write_all(block.as_bytes()).unwrap();
    }
    file.finish().unwrap();
}

#[test]
fn a_small_file_that_expands_takes_no_more_memory_than_is_allowed() {
    let folder = TempDir::new().unwrap();
    let tree = "1\tx\tx\tNOUN\t_\t_\t0\troot\t_\t_\n\n";
    for (name, header, line) in [
        ("bomb.tsv.gz", "sentence\tlabel\n", "x\t0\ny\t1\n"),
        ("bomb.csv.gz", "sentence,label\n", "x,0\ny,1\n"),
        ("bomb.conllu.gz", "", tree),
    ] {
        gzipped(&folder.path().join(name), header, line, 200);
        let mut stats = confined(folder.path(), 1500, &["data", "stats", name]);
        let line = fails(&stats.env("REGARD_MEMORY", "400").output().unwrap(), 1);
        assert!(line.contains(name) && line.contains("take more than 200 MB of memory"), "{line}");
    }
}

#[test]
fn an_environment_with_mistakes_is_rejected() {
    let folder = TempDir::new().unwrap();
    for (name, value) in [
        ("REGARD_THREADS", "0"),
        ("REGARD_THREADS", "-3"),
        ("REGARD_SIMD", "nonsense"),
        ("REGARD_MEMORY", "plenty"),
    ] {
        let output = command(folder.path(), &["data", "show", "1"]).env(name, value).output().unwrap();
        assert!(fails(&output, 2).starts_with(&format!("error: {name}={value}: expected")));
        assert!(output.stdout.is_empty());
    }
}

/// A run of a million steps that saves its state after none of them by itself.
fn long(folder: &Path) -> Command {
    let kept = SMALL.iter().filter(|setting| !setting.contains("train.steps") && !setting.contains("every"));
    let mut arguments = vec!["train"];
    arguments.extend(kept);
    arguments.extend([
        "--set=train.steps=1000000",
        "--set=train.evaluate_every=0",
        "--set=run.save_every=0",
        "--set=run.log_every=1",
        "--out=run",
    ]);
    let mut command = command(folder, &arguments);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn lines_of(file: &Path) -> usize {
    std::fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

#[cfg(unix)]
#[test]
fn signals_to_end_save_the_state_and_exit_with_their_number() {
    // Under `nohup` the tests, and what they start, ignore SIGHUP.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let hangup = ignored.is_none_or(|mask| mask & 1 == 0).then_some(("HUP", 129));
    for (signal, code) in [("INT", 130), ("TERM", 143)].into_iter().chain(hangup) {
        let folder = TempDir::new().unwrap();
        let child = long(folder.path()).spawn().unwrap();
        let started = Instant::now();
        while lines_of(&folder.path().join("run/metrics.csv")) < 4 {
            assert!(started.elapsed() < Duration::from_secs(120), "it does not train");
            std::thread::sleep(Duration::from_millis(20));
        }
        let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{signal}: {}", stderr(&output));
        assert!(stderr(&output).contains("continue with: regard train --resume"), "{}", stderr(&output));
        assert!(folder.path().join("run/state.safetensors").exists(), "{signal}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_under_nohup_survives_its_terminal() {
    let folder = TempDir::new().unwrap();
    let inner = long(folder.path());
    let mut command = Command::new("nohup");
    command.arg(inner.get_program()).args(inner.get_args()).current_dir(folder.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let metrics = folder.path().join("run/metrics.csv");
    let wait_for = |lines: usize| {
        let started = Instant::now();
        while lines_of(&metrics) < lines {
            assert!(started.elapsed() < Duration::from_secs(120), "it does not train");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for(4);
    Command::new("kill").args(["-s", "HUP", &child.id().to_string()]).status().unwrap();
    wait_for(lines_of(&metrics) + 20);
    assert!(child.try_wait().unwrap().is_none(), "it stopped");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn limits_of_the_data_and_signs_of_words_are_explained() {
    let folder = TempDir::new().unwrap();
    let rows: Vec<String> = (0..60).map(|row| format!("text number {row}\t{}", row % 2)).collect();
    std::fs::write(folder.path().join("all.tsv"), format!("sentence\tlabel\n{}\n", rows.join("\n"))).unwrap();
    let bag = |limit: &str, out: &str| {
        let limit = format!("--set=data.limit={limit}");
        let arguments = ["train", "bag", "--data=all.tsv", &limit, "--set=train.steps=2", "--out", out];
        let output = regard(folder.path(), &arguments);
        succeeds(&output);
        stderr(&output)
    };
    assert!(bag("20", "some").contains("trains on 20 of 54 texts: data.limit is 20"));
    assert!(!bag("0", "all").contains("data.limit"));
    // What is predicted comes with what its signs mean.
    let output = regard(folder.path(), &["predict", "all", "text number 7"]);
    succeeds(&output);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("above 0 it speaks for") && said.contains("below 0 against it"), "{said}");
}

#[test]
fn messages_say_what_to_do() {
    let folder = TempDir::new().unwrap();
    let problem = |arguments: &[&str]| {
        let output = regard(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        stderr(&output)
    };
    let temperature = problem(&["generate", "run", "text", "--temperature", "-1"]);
    assert!(temperature.contains("0 (greedy decoding) or a number above 0 was expected"), "{temperature}");
    let ending = problem(&["view", "run", "text", "--out", "x.jpg"]);
    assert!(ending.contains("choose one of these endings") && ending.contains(".png"), "{ending}");
}
