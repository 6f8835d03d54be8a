//! Training at the command line: what it writes, how it stops and goes on, and what it says when something is wrong.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

pub fn regard(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
    command.current_dir(folder).args(arguments).env("REGARD_THREADS", "2");
    command
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", stderr(output));
}

/// One line of error, and the exit code.
pub fn fails(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
    let text = stderr(output);
    let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{text}");
    errors[0].to_owned()
}

/// A small language model with dropout, so that everything that is drawn matters.
pub const SMALL: &[&str] = &[
    "words-gpt",
    "--set=data.texts=60",
    "--set=model.n_layers=1",
    "--set=model.n_heads=2",
    "--set=model.d_model=16",
    "--set=model.context=16",
    "--set=train.steps=60",
    "--set=train.batch_size=4",
    "--set=train.accumulate=2",
    "--set=train.evaluate_every=20",
    "--set=run.save_every=7",
    "--set=run.log_every=3",
];

pub fn train(folder: &Path, out: &str) -> Output {
    let mut arguments = vec!["train"];
    arguments.extend(SMALL);
    arguments.extend(["--out", out]);
    regard(folder, &arguments)
}

/// The metrics without the column of wall time.
fn metrics(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("metrics.csv")).unwrap();
    let without_seconds = |line: &str| {
        let mut fields: Vec<&str> = line.split(',').collect();
        fields.remove(4);
        fields.join(",")
    };
    text.lines().map(without_seconds).collect()
}

/// All tensors of a file, as bytes.
fn tensors(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    file.iter().map(|(name, view)| (name.to_owned(), view.data().to_vec())).collect()
}

pub fn same_run(one: &Path, other: &Path) {
    assert_eq!(metrics(one), metrics(other));
    for file in ["model.safetensors", "state.safetensors"] {
        assert!(tensors(&one.join(file)) == tensors(&other.join(file)), "{file} differs");
    }
    for file in ["config.json", "tokenizer.json", "train.toml"] {
        assert_eq!(
            std::fs::read(one.join(file)).unwrap(),
            std::fs::read(other.join(file)).unwrap(),
            "{file}"
        );
    }
}

#[test]
fn a_run_that_is_killed_again_and_again_ends_as_one_that_was_not() {
    let folder = TempDir::new().unwrap();
    succeeds(&train(folder.path(), "whole"));
    let mut arguments = vec!["train"];
    arguments.extend(SMALL);
    arguments.extend(["--out", "killed"]);
    let mut kills = 0;
    // Longer each time, so that it gets somewhere on any machine.
    for attempt in 0..200_u64 {
        let begun = folder.path().join("killed/train.toml").exists();
        let now = if begun { vec!["train", "--resume", "--out", "killed"] } else { arguments.clone() };
        let mut child =
            command(folder.path(), &now).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(30 + 17 * attempt % 90 + 12 * attempt));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
    assert!(kills > 0, "it was never killed");
    same_run(&folder.path().join("whole"), &folder.path().join("killed"));
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_can_be_resumed_and_ends_the_same() {
    let folder = TempDir::new().unwrap();
    succeeds(&train(folder.path(), "whole"));
    let mut arguments = vec!["train"];
    arguments.extend(SMALL);
    arguments.extend(["--out", "stopped"]);
    let child =
        command(folder.path(), &arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    while !folder.path().join("stopped/metrics.csv").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    succeeds(&Command::new("kill").args(["-INT", &child.id().to_string()]).output().unwrap());
    let output = child.wait_with_output().unwrap();
    // It may have been quicker than the signal.
    if output.status.code() != Some(0) {
        assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
        assert!(stderr(&output).contains("stopped at step"), "{}", stderr(&output));
        assert!(stderr(&output).contains("regard train --resume --out stopped"), "{}", stderr(&output));
        succeeds(&regard(folder.path(), &["train", "--resume", "--out", "stopped"]));
    }
    same_run(&folder.path().join("whole"), &folder.path().join("stopped"));
}

#[test]
fn errors_are_one_line() {
    let folder = TempDir::new().unwrap();
    let run = |arguments: &[&str]| regard(folder.path(), arguments);
    assert!(fails(&run(&["train", "words-gtp"]), 2).contains("did you mean words-gpt?"));
    assert!(fails(&run(&["train", "bag", "--set", "train.step=3"]), 2).contains("did you mean steps?"));
    for (short, long) in
        [("steps=3", "train.steps"), ("length=9", "data.length"), ("n_heads=2", "model.n_heads")]
    {
        let error = fails(&run(&["train", "words-gpt", "--set", short]), 2);
        assert!(error.contains(&format!("did you mean {long}?")), "{error}");
    }
    // What would be passed over without a word is not.
    for (setting, why) in [
        ("data.length=999999", "tokens at most"),
        ("run.snapshots=[999999]", "steps"),
        ("model.vocabulary=3", "made from the text"),
    ] {
        let error = fails(&run(&["train", "words-gpt", "--set", setting]), 2);
        assert!(error.contains(why), "{error}");
    }
    assert!(fails(&run(&["train", "bag", "--data", "missing.tsv"]), 1).contains("missing.tsv"));
    // What no data could make possible is said before any is read.
    let error = fails(&run(&["train", "words-gpt", "--data", "missing.txt", "--set", "model.n_heads=3"]), 2);
    assert!(error.contains("--set model") && error.contains("heads"), "{error}");
    assert!(fails(&run(&["eval", "missing"]), 1).contains("no model missing"));
    std::fs::write(folder.path().join("short.txt"), "too short").unwrap();
    let error = fails(&run(&["train", "shakespeare-char", "--data", "short.txt"]), 1);
    assert!(error.contains("shorter") && error.contains("short.txt"), "{error}");
    std::fs::write(folder.path().join("empty.txt"), "").unwrap();
    let error = fails(&run(&["train", "words-gpt", "--data", "empty.txt"]), 1);
    assert!(error.contains("empty.txt"), "{error}");
    std::fs::write(folder.path().join("one.tsv"), "sentence\tlabel\ngood\t1\nfine\t1\n").unwrap();
    let error = fails(&run(&["train", "bag", "--data", "one.tsv"]), 1);
    assert!(error.contains("class"), "{error}");
}

#[test]
fn a_loss_that_is_not_a_number_ends_the_run_and_leaves_the_last_good_state() {
    let folder = TempDir::new().unwrap();
    let mut arguments = vec!["train"];
    arguments.extend(SMALL);
    let more = [
        "--out",
        "wild",
        "--set=train.rate.highest=1e30",
        "--set=train.rate.lowest=1e30",
        "--set=train.clip=0",
        "--set=train.evaluate_every=1",
    ];
    arguments.extend(more);
    let error = fails(&regard(folder.path(), &arguments), 1);
    assert!(error.contains("the loss is"), "{error}");
    // The first step spoils the weights: they become neither the best model nor a state to resume from.
    for spoilt in ["model.safetensors", "state.safetensors"] {
        assert!(!folder.path().join("wild").join(spoilt).exists(), "{spoilt}");
    }
}

#[test]
fn a_snapshot_is_read_as_the_run_is() {
    let folder = TempDir::new().unwrap();
    let arguments = [
        "train",
        "digits",
        "--out=run",
        "--set=data.texts=300",
        "--set=model.n_layers=1",
        "--set=model.d_model=16",
        "--set=model.d_hidden=16",
        "--set=model.n_heads=2",
        "--set=train.steps=8",
        "--set=train.evaluate_every=0",
        "--set=run.snapshots=[8]",
    ];
    succeeds(&regard(folder.path(), &arguments));
    let measured = |model: &str| {
        let output = regard(folder.path(), &["eval", model]);
        succeeds(&output);
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(measured("run"), measured("run/snapshots/step-8"));
}

#[test]
fn a_damaged_state_is_an_error_and_left_alone() {
    let folder = TempDir::new().unwrap();
    succeeds(&train(folder.path(), "run"));
    let state = folder.path().join("run/state.safetensors");
    let whole = std::fs::read(&state).unwrap();
    std::fs::write(&state, &whole[..whole.len() / 2]).unwrap();
    let error = fails(&regard(folder.path(), &["train", "--resume", "--out", "run"]), 1);
    assert!(error.contains("state.safetensors"), "{error}");
    assert_eq!(std::fs::read(&state).unwrap().len(), whole.len() / 2);
}

#[test]
fn a_second_run_does_not_overwrite_the_first() {
    let folder = TempDir::new().unwrap();
    succeeds(&train(folder.path(), "run"));
    let before = std::fs::read(folder.path().join("run/model.safetensors")).unwrap();
    let again = train(folder.path(), "run");
    assert!(fails(&again, 1).contains("--resume"));
    assert!(!stderr(&again).contains("reading the data"), "it could have known before: {}", stderr(&again));
    assert_eq!(std::fs::read(folder.path().join("run/model.safetensors")).unwrap(), before);
}

#[test]
fn trained_models_can_be_evaluated_and_used() {
    let folder = TempDir::new().unwrap();
    let run = |arguments: &[&str]| regard(folder.path(), arguments);
    let small = ["--set=train.steps=4", "--set=data.texts=120", "--set=train.evaluate_every=2"];
    for (preset, question) in [
        ("bag", Some(["predict", "The film was not good"])),
        ("sentiment-additive", Some(["predict", "The film was not good"])),
        ("tagger", Some(["predict", "the old <MASK> sat down"])),
        ("digits", None),
    ] {
        let mut arguments = vec!["train", preset, "--out", preset];
        arguments.extend(small);
        succeeds(&run(&arguments));
        let measured = run(&["eval", preset, "--limit", "50"]);
        succeeds(&measured);
        assert!(String::from_utf8_lossy(&measured.stdout).contains("accuracy"), "{preset}");
        if let Some([command, text]) = question {
            let answer = run(&[command, preset, text]);
            succeeds(&answer);
            assert!(String::from_utf8_lossy(&answer.stdout).contains("good") || preset == "tagger");
        }
    }
    // A bag has one logit for two classes: the words have a share in the first as well.
    let answer = run(&["predict", "bag", "an awful dull film"]);
    let told = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(told.contains("→ negative"), "this test is about the first class: {told}");
    let words =
        || told.lines().filter(|line| ["awful", "dull", "film"].iter().any(|word| line.contains(word)));
    assert!(words().count() == 3 && words().any(|line| !line.contains(" 0.0000")), "{told}");
    // What was asked is wrong, not what was found.
    assert!(fails(&run(&["predict", "bag", ""]), 2).contains("nothing to read"));
    assert!(fails(&run(&["predict", "tagger", "the old man sat down"]), 2).contains("<MASK>"));
    assert!(fails(&run(&["fill", "bag", "the [MASK] sat"]), 2).contains("does not guess words"));
}

#[test]
fn both_of_two_classes_rest_on_words() {
    let folder = TempDir::new().unwrap();
    let small =
        ["--set=train.steps=2", "--set=data.texts=60", "--set=model.d_hidden=8", "--set=model.d_embedding=8"];
    succeeds(&regard(folder.path(), &[&["train", "sentiment-heads", "--out=run"], &small[..]].concat()));
    let mut changes = Vec::new();
    for class in ["negative", "positive"] {
        let asked = ["influence", "run", "--text=an awful dull film", "--answer", class, "-o", class];
        succeeds(&regard(folder.path(), &asked));
        let table = std::fs::read_to_string(folder.path().join(class).join("influence.csv")).unwrap();
        let rows = table.lines().filter(|row| row.contains(",blank-out,"));
        let values = rows.map(|row| row.rsplit(',').next().unwrap().parse::<f64>().unwrap());
        changes.push(values.collect::<Vec<f64>>());
    }
    // One logit stands for both: what speaks for the one speaks against the other.
    assert!(changes[0].len() == 4 && changes[0].iter().any(|&change| change != 0.0), "{changes:?}");
    assert_eq!(changes[0], changes[1].iter().map(|change| -change).collect::<Vec<_>>());
}

#[test]
fn vectors_are_what_the_models_of_words_begin_with() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("vectors.txt"), "film 1 2 3\nnot 4 5 6\nzebra 7 8 9\n").unwrap();
    let small = [
        "--set=model.d_embedding=3",
        "--set=data.vectors=vectors.txt",
        "--set=data.texts=120",
        "--set=train.steps=1",
    ];
    for preset in ["bag", "sentiment-max"] {
        let out = format!("--out={preset}");
        let output = regard(folder.path(), &[&["train", preset, out.as_str()], &small[..]].concat());
        succeeds(&output);
        assert!(stderr(&output).contains("vectors for 2 of the"), "{}", stderr(&output));
    }
    let output = regard(folder.path(), &[&["train", "sentiment-max", "--out=other"], &small[1..]].concat());
    assert!(fails(&output, 1).contains("set model.d_embedding=3"), "{}", stderr(&output));
}

#[test]
fn texts_longer_than_in_training_are_cut_with_a_remark() {
    let folder = TempDir::new().unwrap();
    let small = ["--set=train.steps=2", "--set=data.texts=120", "--set=model.d_model=16"];
    let bert = [
        "--set=model.n_layers=1",
        "--set=model.n_heads=2",
        "--set=model.d_hidden=16",
        "--set=tokens.size=300",
    ];
    succeeds(&regard(
        folder.path(),
        &[&["train", "masked-words", "--out=words"], &small[..], &bert].concat(),
    ));
    succeeds(&regard(folder.path(), &[&["train", "classify", "--out=classes"], &small[..], &bert].concat()));
    let long = "the film was good ".repeat(200);
    for (command, model, text) in
        [("predict", "classes", long.clone()), ("fill", "words", format!("the [MASK] was {long}"))]
    {
        let output = regard(folder.path(), &[command, model, &text]);
        succeeds(&output);
        assert!(stderr(&output).contains("the model reads the first 128"), "{}", stderr(&output));
    }
    // A bag reads as much as there is, unless it has a table of positions.
    let table =
        ["--set=model.n_heads=2", "--set=model.positions=learned", "--set=model.context=8", "--out=bag"];
    let steps = ["--set=train.steps=2", "--set=data.texts=120"];
    succeeds(&regard(folder.path(), &[&["train", "bag"], &steps[..], &table].concat()));
    succeeds(&regard(folder.path(), &["eval", "bag", "--limit=20"]));
    let output = regard(folder.path(), &["predict", "bag", &long]);
    succeeds(&output);
    assert!(stderr(&output).contains("the model reads the first 8"), "{}", stderr(&output));
}

#[test]
fn early_stopping_is_called_that() {
    let folder = TempDir::new().unwrap();
    let arguments = [
        "train",
        "bag",
        "--out=my run",
        "--set=data.texts=60",
        "--set=train.rate.highest=0",
        "--set=train.evaluate_every=1",
        "--set=train.patience=2",
    ];
    let output = regard(folder.path(), &arguments);
    succeeds(&output);
    assert!(
        stderr(&output).contains("ended early, after 3 steps: 2 evaluations in a row"),
        "{}",
        stderr(&output)
    );
    // A command that is to be copied has its path as a shell takes it.
    let again = regard(folder.path(), &arguments);
    assert!(fails(&again, 1).contains("--resume --out 'my run'"), "{}", stderr(&again));
}

#[test]
fn settings_set_the_length_of_built_in_texts() {
    let folder = TempDir::new().unwrap();
    let tokens = |sentences: &str, out: &str| -> u64 {
        let set = format!("--set=data.sentences={sentences}");
        let more = ["--set=train.steps=2", &set, "--out", out];
        succeeds(&regard(folder.path(), &[&["train"], SMALL, &more].concat()));
        let measured = regard(folder.path(), &["eval", out]);
        let said = String::from_utf8(measured.stdout).unwrap();
        let line = said.lines().find_map(|line| line.strip_prefix("tokens")).unwrap();
        line.trim().parse().unwrap()
    };
    assert!(2 * tokens("[1, 1]", "short") < tokens("[4, 4]", "long"));
}
